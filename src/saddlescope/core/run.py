"""Run: one face of one subject from one seed, from the engine that made it to the claim and the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .errors import unknown
from .shown import Shown
from .stage import Prediction, Stage
from .strict import strict
from .subject import Face


class Origin(NamedTuple):
    """What made a run: versions of the libraries, the machine in words, the device."""

    versions: Mapping[str, str]
    machine: str
    device: str


@dataclass(frozen=True, repr=False)
class Run(Shown):
    """What was asked (system, which may be a study; face; seed), and what it showed.

    stages, final_loss, conserved_drift: measured, of predict predicted; None where there is no such number.
    trajectory: None for predict, and for ensembles of which only the stages are kept.  prediction: None where no theory
    exists.  observables: the last ones.  result: how it ended; it begins with "finished" where nothing went wrong.
    solver: in words.  seconds: that it took.  made: what made a run that was read from a store or a record; None if
    this process did.
    """

    shown_by: ClassVar[str] = "saddlescope.show.of_run"

    system: Any
    face: Face
    seed: int
    stages: Sequence[Stage]
    final_loss: float | None
    conserved_drift: float | None
    observables: Mapping[str, Any]
    solver: str
    result: str
    seconds: float
    trajectory: Any = None
    prediction: Prediction | None = None
    made: Origin | None = None

    @property
    def on_flow_time(self) -> bool:
        """Whether its time is the gradient flow's: not where an optimizer moves the weights at a pace of its own."""
        return self.face != "train" or getattr(self.system.spec, "follows_flow", True)

    def series(self, name: str) -> np.ndarray:
        """An observable, or a coordinate, over time."""
        if name not in self.trajectory.variables:
            raise unknown("observable", name, map(str, self.trajectory.variables))
        return self.trajectory[name].values

    def at(self, name: str, moment: float) -> np.ndarray:
        """An observable at the first saved time from `moment` on; NaN where there is none."""
        place = int(np.searchsorted(self.series("time"), moment)) if np.isfinite(moment) else -1
        values = self.series(name)
        return values[place] if 0 <= place < len(values) else np.full(values.shape[1:], np.nan)

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
