"""One face of one system or study from one seed, or from many at once."""

from __future__ import annotations

import json
import os
import time as wall
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saddlescope.core.errors import BadArgument, CannotGoOn, OnlyHelped
from saddlescope.core.files import owned, write_once
from saddlescope.core.parts import OwnLoop
from saddlescope.core.progress import Tick, silent
from saddlescope.core.registry import named
from saddlescope.core.run import Run
from saddlescope.core.stage import Prediction
from saddlescope.core.start import Start
from saddlescope.core.subject import Face, Subject
from saddlescope.core.threads import one_thread
from saddlescope.core.trajectory import check_trained

from .stages import predicted_run, run_of

if TYPE_CHECKING:
    import xarray


@one_thread()
def predict(system: Subject | str, seed: int = 0) -> Prediction:
    """What theory says of the start of `seed`: stages with times and losses, marks, plateaus.

    system: or its name, which means its quick preset, as in all functions that take one.
    """
    chosen = named(system)
    chosen.needs_face("predict")
    return chosen.theory.predict(chosen.start(seed))


def flow(system: Subject | str, seed: int = 0, **options: Any) -> xarray.Dataset:
    """The gradient flow from the start of `seed`, as a trajectory; options: those of `dynamics.flow.flow`."""
    from saddlescope.dynamics.flow import flow as engine

    return engine(named(system), seed, **options)


def train(
    system: Subject | str, seed: int = 0, *, save: Path | None = None, tick: Tick = silent, **options: Any
) -> xarray.Dataset:
    """The network trained from the start of `seed`, as a trajectory: by an engine, or by a loop of its own.

    save: what is written as training goes on, and gone on from by the same call: a file; with a loop of its own a
    folder.  options: those of `dynamics.train.train`.
    """
    chosen = named(system)
    chosen.needs_face("train")
    if isinstance(chosen.training, OwnLoop):
        if options:
            raise BadArgument(f"`{next(iter(options))}` means nothing to {chosen.name}: it takes `save` and `tick`")
        return _train_itself(chosen.training, seed, save, tick)
    from saddlescope.dynamics.train import train as engine

    return engine(chosen, seed, save=save, tick=tick, **options)


def _train_itself(own: OwnLoop, seed: int, save: Path | None, tick: Tick) -> xarray.Dataset:
    system = own.system
    if lacking := own.lacks():
        raise BadArgument(f"{system.name} cannot run here: {lacking}")
    with nullcontext() if save is None else _folder_of(save, system, seed):
        trajectory = own.train(seed, save, tick)
    if trajectory is None:
        raise OnlyHelped
    check_trained(trajectory)
    return trajectory


@contextmanager
def _folder_of(folder: Path, study: Subject, seed: int) -> Iterator[None]:
    """The folder belongs to this training, and no other writes to it meanwhile."""
    folder.absolute().parent.mkdir(parents=True, exist_ok=True)
    # Processes that torchrun has started share the folder: the first of them answers for all.
    first = os.environ.get("RANK", "0") == "0"
    with owned(folder) if first else nullcontext():
        _take_folder(folder, study, seed)
        yield


def _take_folder(folder: Path, study: Subject, seed: int) -> None:
    """Make it this run's own, or make sure that it is."""
    note = folder / "run.json"
    about = json.dumps({"system": study.name, "seed": seed, "spec": study.spec.to_dict()})
    if os.path.lexists(folder) and not folder.is_dir():
        raise CannotGoOn(f"cannot keep {study.name} in {folder}: it is a file, and a study needs a folder")
    # A kill while the note was written leaves a hidden file.
    strangers = folder.exists() and any(not path.name.startswith(".") for path in folder.iterdir())
    if strangers and not note.is_file():
        raise CannotGoOn(f"cannot go on from {folder}: it holds no run; name another folder, or an empty one")
    folder.mkdir(parents=True, exist_ok=True)
    # Under torchrun only the first process holds the lock, so another run may write its note at the same moment: the
    # first note stays.
    if not write_once(note, about) and note.read_bytes() != about.encode():
        raise CannotGoOn(f"cannot go on from {folder}: it holds another run, see {note}; name another folder")


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
    """One face ("train", "flow" or "predict") from the start of `seed`, with its stages and how it ended.

    start, prediction: shared between the faces of one seed.  solver: of `flow`.  save: as for `train`.
    """
    chosen = named(system)
    chosen.needs_face(face)
    if face == "train" and isinstance(chosen.training, OwnLoop):
        trajectory = train(chosen, seed, save=save, tick=tick)
        return run_of(trajectory, chosen, None, trajectory.attrs["seconds"])
    began = wall.perf_counter()
    start = chosen.start(seed) if start is None else start
    if prediction is None and chosen.theory is not None:
        with one_thread():
            prediction = chosen.theory.predict(start)
    if face == "predict":
        assert prediction is not None
        return predicted_run(chosen, seed, prediction, wall.perf_counter() - began)
    if face == "flow":
        trajectory = flow(chosen, seed, solver=solver, start=start, prediction=prediction, tick=tick)
    else:
        trajectory = train(chosen, seed, start=start, prediction=prediction, save=save, tick=tick)
    return run_of(trajectory, chosen, prediction, wall.perf_counter() - began)


def all_at_once(system: Any, solver: str, seeds: Sequence[int], tick: Tick = silent) -> list[Run]:
    from saddlescope.dynamics.ensemble import flow_together

    trajectories, landmarks = flow_together(system, seeds, solver=solver, tick=tick)
    return [run_of(trajectory, system, landmarks, trajectory.attrs["seconds"]) for trajectory in trajectories]
