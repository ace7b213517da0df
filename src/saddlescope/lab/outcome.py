"""What one face of one system or study showed: its stages, its last numbers, how it ended."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from saddlescope.core.stage import Prediction, Stage
from saddlescope.core.study import Study
from saddlescope.core.subject import Face, Subject
from saddlescope.core.system import System
from saddlescope.core.trajectory import series_in

if TYPE_CHECKING:
    import xarray


class Origin(NamedTuple):
    """What made a run: versions of the libraries, the machine in words, the device."""

    versions: Mapping[str, str]
    machine: str
    device: str


@dataclass(frozen=True)
class Outcome:
    """What one face showed; `trajectory` is None for predict, `prediction` where no theory exists.

    made: what made a run that was read from a store or a record; None if this process did.
    """

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
    made: Origin | None = None

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

    A run that was given the prediction has its passages among its times; else they are read between two of them.

    With its system, each is described by what was learned, not by what theory expected.
    """
    from saddlescope.analysis.stages import detect_stages, stages_at_marks

    time = trajectory["time"].values
    observables = series_in(trajectory)
    if prediction is not None:
        stages = stages_at_marks(time, observables, prediction.marks, prediction.stages)
        return _described(system, stages, time, observables) if isinstance(system, System) else stages
    # A study's loss is noisy, and often short: `saddlescope stages` looks for drops in it.
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
