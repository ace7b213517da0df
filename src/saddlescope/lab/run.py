"""One face of one system or study from one seed, or from many at once."""

from __future__ import annotations

import json
import os
import time as wall
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saddlescope.core.errors import BadArgument, CannotGoOn
from saddlescope.core.files import owned, write_once
from saddlescope.core.progress import Tick, silent
from saddlescope.core.stage import Prediction
from saddlescope.core.study import Study, check_trained
from saddlescope.core.subject import Face, Subject
from saddlescope.core.system import Start, System
from saddlescope.core.threads import one_thread

from .outcome import Outcome, outcome_of, predicted_outcome

if TYPE_CHECKING:
    import xarray


@one_thread()
def predict(system: Subject, seed: int = 0) -> Prediction:
    """What theory says of the start of `seed`."""
    system.needs_face("predict")
    assert isinstance(system, System)
    return system.predict(system.start(seed))


def train(
    system: Subject, seed: int = 0, *, save: Path | None = None, tick: Tick = silent, **options: Any
) -> xarray.Dataset:
    """The network by a real optimizer: a study's own, or the engine of the systems, whose are the other options.

    save: what is written as training goes on, and gone on from by the same call: a file; a study's is a folder.
    """
    system.needs_face("train")
    if isinstance(system, System):
        from saddlescope.dynamics.train import train as engine

        return engine(system, seed, save=save, tick=tick, **options)
    assert isinstance(system, Study)
    if options:
        raise BadArgument(f"`{next(iter(options))}` means nothing to a study: {system.name} takes `save` and `tick`")
    if lacking := system.lacks():
        raise BadArgument(f"{system.name} cannot run here: {lacking}")
    with nullcontext() if save is None else _folder_of(save, system, seed):
        trajectory = system.train(seed, save, tick)
    check_trained(trajectory)
    return trajectory


@contextmanager
def _folder_of(folder: Path, study: Study, seed: int) -> Iterator[None]:
    """The folder belongs to this training, and no other writes to it meanwhile."""
    folder.absolute().parent.mkdir(parents=True, exist_ok=True)
    # Processes that torchrun has started share the folder: the first of them answers for all.
    first = os.environ.get("RANK", "0") == "0"
    with owned(folder) if first else nullcontext():
        _take_folder(folder, study, seed)
        yield


def _take_folder(folder: Path, study: Study, seed: int) -> None:
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


def run_face(
    system: Subject,
    face: Face,
    seed: int = 0,
    *,
    start: Start | None = None,
    prediction: Prediction | None = None,
    solver: str = "default",
    save: Path | None = None,
    tick: Tick = silent,
) -> Outcome:
    """Run one face. start, prediction: shared between the faces of one seed."""
    system.needs_face(face)
    if not isinstance(system, System):
        trajectory = train(system, seed, save=save, tick=tick)
        return outcome_of(system, face, seed, trajectory, None, trajectory.attrs["seconds"])
    began = wall.perf_counter()
    start = system.start(seed) if start is None else start
    if prediction is None and "predict" in system.faces:
        with one_thread():
            prediction = system.predict(start)
    if face == "predict":
        assert prediction is not None
        return predicted_outcome(system, seed, prediction, wall.perf_counter() - began)
    if face == "flow":
        from saddlescope.dynamics.flow import flow

        trajectory = flow(system, seed, solver=solver, start=start, prediction=prediction, tick=tick)
    else:
        trajectory = train(system, seed, start=start, prediction=prediction, save=save, tick=tick)
    return outcome_of(system, face, seed, trajectory, prediction, wall.perf_counter() - began)


def all_at_once(system: System, solver: str, seeds: Sequence[int], tick: Tick = silent) -> list[Outcome]:
    from saddlescope.dynamics.ensemble import flow_together

    trajectories, landmarks = flow_together(system, seeds, solver=solver, tick=tick)
    return [
        outcome_of(system, "flow", seed, trajectory, landmarks, trajectory.attrs["seconds"])
        for seed, trajectory in zip(seeds, trajectories, strict=True)
    ]
