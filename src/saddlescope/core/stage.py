"""Stage, the moment something is learned; Mark, how that moment is recognised; Prediction, a theory's answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from .shown import Shown


class Mark(NamedTuple):
    """Recognises a stage in a trajectory: an observable that passes a level, or has its peak.

    observable, index: which number to look at, e.g. "loss", () or "coordinate", (36,).
    level: the value to be passed (unused by "peak").
    event: "falls" and "rises" mean the first passage, or the count-th; "stays above" the last rise; "peak" the highest
    point.
    """

    observable: str
    level: float
    event: Literal["falls", "rises", "stays above", "peak"] = "falls"
    index: tuple[int, ...] = ()
    count: int = 1

    @property
    def once(self) -> bool:
        """Whether the first passage is all that matters."""
        return self.event in ("falls", "rises") and self.count == 1

    def read(self, observables: Mapping[str, Any]) -> Any:
        """The number (or, of a batch or a series, the numbers) that this mark looks at."""
        return observables[self.observable][(..., *self.index)]

    def passed(self, observables: Mapping[str, Any]) -> Any:
        """Whether the level is passed."""
        return self.beyond(self.read(observables))

    def beyond(self, value: Any) -> Any:
        """Whether a number lies on the far side of the level."""
        return value <= self.level if self.event == "falls" else value >= self.level

    def passage(self, time: np.ndarray, observables: Mapping[str, Any]) -> float | None:
        """Moment of the passage in series over `time`, None if there is none; a start beyond the level is one at once.

        Linear between grid points: exact where the engines put the passage on the grid, as they do.
        """
        series = np.asarray(observables[self.observable])[(slice(None), *self.index)]
        if self.event == "peak":
            highest = int(np.argmax(series))
            return float(time[highest]) if 0 < highest < len(series) - 1 else None
        excess = series - self.level
        beyond = self.beyond(series)
        if self.event == "stays above":
            short = np.flatnonzero(~beyond)
            before = int(short[-1]) if short.size else -1
            if before == len(series) - 1:
                return None
        else:
            begins = np.flatnonzero(beyond & ~np.r_[False, beyond[:-1]])
            if len(begins) < self.count:
                return None
            before = int(begins[self.count - 1]) - 1
        if before < 0:
            return float(time[0])
        gap, next_gap = excess[before], excess[before + 1]
        return float(time[before] + (time[before + 1] - time[before]) * (-gap / (next_gap - gap)))


@dataclass(frozen=True)
class Stage:
    """Something was learned. The same type for measured and predicted stages.

    index: 1, 2, ...  time: moment of the drop, None where no theory gives one.  loss: of the plateau that follows.
    label: what was learned.  extra: what one system alone says of its stages, by name.
    """

    index: int
    time: float | None
    loss: float | None
    label: str
    extra: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {"index": self.index, "time": self.time, "loss": self.loss, "label": self.label, **self.extra}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Stage:
        extra = {name: value for name, value in fields.items() if name not in ("index", "time", "loss", "label")}
        return cls(fields["index"], fields["time"], fields["loss"], fields["label"], extra)


@dataclass(frozen=True)
class Ending:
    """When a run is over whose Spec sets no horizon.

    horizon: its end; None: 1.3 x the last predicted time, if there is one.
    arrival: what it is prolonged for beyond its horizon; None: nothing.
    awaited: how many of the stages it must have shown to have seen everything; None: those that have a predicted time,
    or all if none has (a stage to which theory gives no time, while it does to others, is one that does not happen).
    at_once: whether it is over as soon as it has arrived, and its horizon only the longest that it may take.
    """

    horizon: float | None = None
    arrival: Mark | Literal["last plateau"] | None = "last plateau"
    awaited: int | None = None
    at_once: bool = False


@dataclass(frozen=True, repr=False)
class Prediction(Shown):
    """What theory says of one start.

    stages: with `marks`, one each, by which the other faces find the same stages.
    initial_loss: before the first stage.
    plateaus: a point on each predicted plateau, the initial one first; () where theory gives none.
    observables: at the end of the last stage.
    solver: how the numbers were obtained.  notes: what limits them.
    ending: when a run is over.
    staircase: whether the loss rests on a plateau between stages; else they are moments of a curve that falls on.
    """

    shown_by: ClassVar[str] = "saddlescope.show.of_prediction"

    stages: tuple[Stage, ...]
    marks: tuple[Mark, ...]
    initial_loss: float | None
    plateaus: tuple[Any, ...] = ()
    observables: Mapping[str, Any] = field(default_factory=dict)
    solver: str = "closed form"
    notes: tuple[str, ...] = ()
    ending: Ending = Ending()
    staircase: bool = True

    def __post_init__(self) -> None:
        count = len(self.stages)
        if len(self.marks) != count:
            raise ValueError(f"`marks` must have one mark for each stage: {len(self.marks)} marks, {count} stages")
        if self.plateaus and len(self.plateaus) != count + 1:
            raise ValueError(
                f"`plateaus` must be empty, or one before each stage and one after the last: {len(self.plateaus)} "
                f"plateaus, {count} stages"
            )

    @property
    def levels(self) -> list[float]:
        """Losses of all plateaus, the initial one first; NaN where theory gives none."""
        losses = [self.initial_loss, *(stage.loss for stage in self.stages)]
        return [float("nan") if loss is None else loss for loss in losses]

    @property
    def times(self) -> np.ndarray:
        """Moments of the stages; NaN where theory gives none."""
        return np.array([stage.time for stage in self.stages], float)

    @property
    def last_time(self) -> float | None:
        times = [stage.time for stage in self.stages if stage.time is not None]
        return max(times) if times else None

    @property
    def horizon(self) -> float | None:
        """End of a run whose Spec sets none; None where nobody knows."""
        known = self.last_time
        return self.ending.horizon if self.ending.horizon or known is None else 1.3 * known

    @property
    def arrival(self) -> Mark | None:
        """What such a run is prolonged for: unless said otherwise the last plateau, to one part in a million."""
        if self.ending.arrival != "last plateau":
            return self.ending.arrival
        last = self.stages[-1].loss if self.stages else None
        return None if last is None else Mark("loss", last + 1e-6 * abs(last))

    @property
    def awaited(self) -> tuple[Mark, ...]:
        """Marks that a run must have passed to have seen everything."""
        if self.ending.awaited is not None:
            return self.marks[: self.ending.awaited]
        timed = [stage.time is not None for stage in self.stages]
        return tuple(mark for mark, known in zip(self.marks, timed, strict=True) if known or not any(timed))
