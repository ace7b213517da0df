"""One face of one system or study from one seed, and what it showed."""

from __future__ import annotations

import itertools
import json
import math
import time as wall
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from saddlescope.core.errors import BadArgument
from saddlescope.core.files import write_whole
from saddlescope.core.progress import Tick, silent
from saddlescope.core.stage import Prediction, Stage
from saddlescope.core.study import Study, check_trained
from saddlescope.core.subject import Face, Subject
from saddlescope.core.system import Start, System
from saddlescope.core.trajectory import series_in

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True)
class Outcome:
    """What one face showed; `trajectory` is None for predict, `prediction` where no theory exists."""

    system: Subject
    face: Face
    seed: int
    stages: Sequence[Stage]
    final_loss: float | None
    conserved_drift: float | None
    observables: Mapping[str, Any]
    solver: str
    result: str
    seconds: float
    trajectory: xarray.Dataset | None = None
    prediction: Prediction | None = None

    def to_dict(self) -> dict[str, Any]:
        """The command line's JSON object; strict JSON, non-finite numbers as null."""
        return strict(
            {
                "system": self.system.name,
                "face": self.face,
                "seed": self.seed,
                "spec": self.system.spec.to_dict(),
                "stages": [stage.to_dict() for stage in self.stages],
                "final_loss": self.final_loss,
                "conserved_drift": self.conserved_drift,
                "observables": dict(self.observables),
                "solver": self.solver,
                "result": self.result,
                "seconds": self.seconds,
            }
        )


def strict(value: Any) -> Any:
    """Plain JSON types only, with null for what JSON cannot say."""
    if isinstance(value, Mapping):
        return {str(name): strict(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [strict(entry) for entry in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return strict(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


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
    if save is not None:
        _take_folder(save, system, seed)
    trajectory = system.train(seed, save, tick)
    check_trained(trajectory)
    return trajectory


def _take_folder(folder: Path, study: Study, seed: int) -> None:
    """Make it this run's own, or make sure that it is."""
    note = folder / "run.json"
    about = {"system": study.name, "seed": seed, "spec": study.spec.to_dict()}
    if folder.exists() and not folder.is_dir():
        raise BadArgument(f"cannot keep {study.name} in {folder}: it is a file, and a study needs a folder")
    if note.is_file():
        if note.read_text(encoding="utf-8") != json.dumps(about):
            raise BadArgument(f"cannot go on from {folder}: it holds another run, see {note}; name another folder")
        return
    # A kill while the note was written leaves a hidden file.
    strangers = folder.exists() and any(not path.name.startswith(".") for path in folder.iterdir())
    if strangers and not note.is_file():  # else another process of the same call has just taken it
        raise BadArgument(f"cannot go on from {folder}: it holds no run; name another folder, or an empty one")
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(note, lambda partial: partial.write_text(json.dumps(about), encoding="utf-8"))


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


def outcome_of(
    system: Subject,
    face: Face,
    seed: int,
    trajectory: xarray.Dataset,
    prediction: Prediction | None,
    seconds: float,
) -> Outcome:
    observables = series_in(trajectory)
    return Outcome(
        system,
        face,
        seed,
        measured_stages(trajectory, prediction, system),
        float(observables["loss"][-1]),
        float(trajectory.attrs["conserved_drift"]),
        {name: values[-1] for name, values in observables.items()},
        trajectory.attrs["solver"],
        trajectory.attrs["result"],
        seconds,
        trajectory,
        prediction,
    )


def predicted_outcome(system: Subject, seed: int, prediction: Prediction, seconds: float) -> Outcome:
    reached = all(stage.time is not None for stage in prediction.stages)
    return Outcome(
        system,
        "predict",
        seed,
        prediction.stages,
        prediction.stages[-1].loss if prediction.stages else prediction.initial_loss,
        None,
        prediction.observables,
        prediction.solver,
        ": ".join(["finished", *prediction.notes[:1]]) if reached else "finished: theory gives no time for some stages",
        seconds,
        None,
        prediction,
    )


def measured_stages(
    trajectory: xarray.Dataset, prediction: Prediction | None, system: Subject | None = None
) -> list[Stage]:
    """Stages of a trajectory: passages of the predicted marks, or, without a theory, its conspicuous drops.

    With its system, each is described by what was learned, not by what theory expected.
    """
    from saddlescope.analysis.stages import detect_stages, stages_at_marks

    time = trajectory["time"].values
    observables = series_in(trajectory)
    if prediction is not None:
        stages = stages_at_marks(time, observables, prediction.marks, prediction.stages)
        return _described(system, stages, time, observables) if isinstance(system, System) else stages
    # A study's loss is noisy, and often short: who looks for drops in it asks `saddlescope stages`.
    if isinstance(system, Study) or len(time) < 8 or not np.isfinite(observables["loss"]).all():
        return []
    drops = detect_stages(time, observables["loss"])
    return [
        Stage(index, drop.time, drop.loss_after, f"drop {index}", {"confidence": drop.confidence})
        for index, drop in enumerate(drops, start=1)
    ]


def _described(system: System, stages: list[Stage], time: np.ndarray, observables: Mapping[str, Any]) -> list[Stage]:
    """Each stage named by its system from the observables midway to its neighbours."""
    moments = [stage.time or 0.0 for stage in stages]
    between = [time[0], *((a + b) / 2 for a, b in itertools.pairwise(moments)), time[-1]]
    places = [{name: values[np.searchsorted(time, t)] for name, values in observables.items()} for t in between]
    return [
        system.describe(stage, before, after) for stage, before, after in zip(stages, places, places[1:], strict=False)
    ]
