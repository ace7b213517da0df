"""The parameters of a problem, each with its symbol in the paper, its default, and what it may be."""

from __future__ import annotations

from dataclasses import dataclass

from saddlescope import Spec, require


@dataclass(frozen=True, kw_only=True)
class SquaresSpec(Spec):
    """targets: s_i, what p_i = u_i² should become; positive.
    init_scale: ε, size of u at the start.
    """

    targets: tuple[float, ...] = (3.0, 2.0, 1.0)
    init_scale: float = 1e-4

    def check(self) -> None:
        super().check()
        require(len(self.targets) > 0, "targets", self.targets, "at least one number")
        require(all(0 < target < 1e6 for target in self.targets), "targets", self.targets, "positive, and below 1e6")
        require(self.init_scale > 0, "init_scale", self.init_scale, "positive", "u = 0 never moves")
        largest = 0.1 * min(self.targets) ** 0.5
        require(self.init_scale <= largest, "init_scale", self.init_scale, f"at most {largest:.3g}, far below u² = s")
