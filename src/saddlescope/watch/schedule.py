"""Which steps are measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from saddlescope.core.errors import BadArgument, unknown

LAST_POWER = 512
"""The last power of two that "log" adds: Pythia's checkpoints are 0, 1, 2, 4, ..., 512, 1000, 2000, ..."""


@dataclass(frozen=True)
class Schedule:
    """ "every": 0, n, 2n, ...  "log": these, and 1, 2, 4, ..., 512 among them, since much is learned early."""

    every: int = 100
    kind: Literal["log", "every"] = "log"

    def __post_init__(self) -> None:
        if not isinstance(self.every, int) or isinstance(self.every, bool) or self.every < 1:
            raise BadArgument(f"`every` must be a whole number of steps, at least 1, got {self.every!r}")
        if self.kind not in ("log", "every"):
            raise unknown("`schedule`", str(self.kind), ("log", "every"))

    def next_after(self, step: int) -> int:
        """The first measured step above `step`; -1 stands before all."""
        multiple = (step // self.every + 1) * self.every
        power = 1 << step.bit_length() if step > 0 else 1
        return min(multiple, power) if self.kind == "log" and power <= LAST_POWER else multiple

    def __contains__(self, step: int) -> bool:
        return step >= 0 and self.next_after(step - 1) == step
