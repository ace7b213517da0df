"""One face of one system or study from one seed, or from many at once."""

from __future__ import annotations

import time as wall
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saddlescope.core.extras import needed_by
from saddlescope.core.progress import Tick, silent
from saddlescope.core.registry import named
from saddlescope.core.run import Run
from saddlescope.core.stage import Prediction
from saddlescope.core.start import Start
from saddlescope.core.subject import Face, Subject
from saddlescope.core.threads import one_thread

from .stages import predicted_run, run_of

if TYPE_CHECKING:
    import xarray


@needed_by("predict")
@one_thread()
def predict(system: Subject | str, seed: int = 0) -> Prediction:
    """What theory says of the start of `seed`: stages with times and losses, marks, plateaus.

    system: or its name, which means its quick preset, as in all functions that take one.
    """
    chosen = named(system)
    chosen.needs_face("predict")
    return chosen.theory.predict(chosen.start(seed))


@needed_by("flow")
def flow(system: Subject | str, seed: int = 0, **options: Any) -> xarray.Dataset:
    """The gradient flow of a system from the start of `seed`, a trajectory; options: those of `dynamics.flow.flow`."""
    chosen = named(system)
    chosen.needs_face("flow")
    return chosen.flow.engine("flow")(chosen, seed, **options)


@needed_by("train")
def train(
    system: Subject | str, seed: int = 0, *, save: Path | None = None, tick: Tick = silent, **options: Any
) -> xarray.Dataset:
    """The network of a system trained from the start of `seed`, as a trajectory: by an engine, or by a loop of its own.

    save: what is written as training goes on, and gone on from by the same call: a file; with a loop of its own a
    folder.  tick: hears of the progress.  options: those of `dynamics.train.train`.
    """
    chosen = named(system)
    chosen.needs_face("train")
    return chosen.training.engine("train")(chosen, seed, save=save, tick=tick, **options)


def run(
    system: Subject | str,
    face: Face,
    seed: int = 0,
    *,
    start: Start | None = None,
    prediction: Prediction | None = None,
    solver: str = "default",
    save: Path | None = None,
    tick: Tick = silent,
) -> Run:
    """One face ("train", "flow" or "predict") of a system from the start of `seed`, with its stages and how it ended.

    start, prediction: shared between the faces of one seed.  solver: of `flow`.  save, tick: as for `train`.
    """
    chosen = named(system)
    chosen.needs_face(face)
    began = wall.perf_counter()
    if prediction is None and chosen.theory is not None:
        start = chosen.start(seed) if start is None else start
        with one_thread(), needed_by(face):
            prediction = chosen.theory.predict(start)
    before = wall.perf_counter() - began
    if face == "predict":
        assert prediction is not None
        return predicted_run(chosen, seed, prediction, before)
    if face == "flow":
        trajectory = flow(chosen, seed, start=start, prediction=prediction, solver=solver, tick=tick)
    else:
        trajectory = train(chosen, seed, start=start, prediction=prediction, save=save, tick=tick)
    return run_of(trajectory, chosen, prediction, before)


def all_at_once(system: Any, solver: str, seeds: Sequence[int], tick: Tick = silent) -> list[Run]:
    """Flows from many seeds as one batch, without a prediction each."""
    trajectories, landmarks = system.flow.engine("flow_together")(system, seeds, solver=solver, tick=tick)
    return [run_of(trajectory, system, landmarks) for trajectory in trajectories]
