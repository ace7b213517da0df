"""Solvers by name: SciPy's and diffrax's behind one call."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from saddlescope.core.errors import unknown
from saddlescope.numerics.free import DENSE
from saddlescope.numerics.integrate import METHODS as SCIPY_METHODS

DIFFRAX_METHODS = {"tsit5": "Tsit5", "dopri8": "Dopri8", "kvaerno5": "Kvaerno5"}

FREE_METHOD = "rodas5p-cg"

LARGEST_DIFFERENCED = 2000
"""Numbers of a state beyond which a Jacobian by differences, which lsoda may want, costs too much."""


@dataclass(frozen=True)
class Solver:
    """method: lsoda, radau, bdf, dop853 (SciPy), tsit5, dopri8 (explicit) or kvaerno5 (implicit; diffrax), rodas5p-cg
    (matrix-free, for large gradient flows), or auto: lsoda; where the state is large, rodas5p-cg if products with the
    Jacobian can be had; dop853 where nothing is known of it and the state is large or runs in log-time.

    rtol, atol: error per step. `atol` is an upper bound: it shrinks with the initial state, whose smallness decides
    when stages come.
    """

    method: str = "auto"
    rtol: float = 1e-8
    atol: float = 1e-11
    max_steps: int = 1_000_000

    def __post_init__(self) -> None:
        known = ["auto", *SCIPY_METHODS, *DIFFRAX_METHODS, FREE_METHOD]
        if self.method not in known:
            raise unknown("method", self.method, known)

    @property
    def backend(self) -> str:
        return "scipy" if self.method in SCIPY_METHODS else "diffrax"

    def for_state(self, size: int, free: bool, jacobian: bool, warped: bool = False) -> Solver:
        """With `auto` decided for a state of `size` numbers; free: whether products with the Jacobian can be had.

        jacobian: whether it is known; differences would take as many evaluations as there are numbers.  warped: whether
        the flow runs in log-time, in which one that settles as a power of time is not stiff.
        """
        if self.method != "auto":
            return self
        if free and size > DENSE:
            return replace(self, method=FREE_METHOD)
        explicit = not jacobian and (warped or size > LARGEST_DIFFERENCED)
        return replace(self, method="dop853" if explicit else "lsoda")

    def atol_for(self, states: np.ndarray) -> float:
        """Absolute tolerance for runs from these states."""
        size = float(np.sqrt(np.mean(states**2)))
        return min(self.atol, self.rtol * size) if size > 0 else self.atol

    def __str__(self) -> str:
        return f"{self.method} rtol={self.rtol:g} atol={self.atol:g}"


PRESETS = {
    "default": Solver(),
    "loose": Solver(rtol=1e-6, atol=1e-9),
    "tight": Solver(rtol=1e-11, atol=1e-14),
    "second": Solver("radau"),
    "explicit": Solver("dopri8"),
    "implicit": Solver("kvaerno5"),
}


def solver(name: str | Solver = "default", **changes: Any) -> Solver:
    """The preset called `name` (or a Solver), with some settings changed."""
    if isinstance(name, str):
        if name not in PRESETS:
            raise unknown("solver", name, PRESETS)
        name = PRESETS[name]
    return replace(name, **changes)
