"""Solvers by name: SciPy's and diffrax's behind one call."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from saddlescope.core.errors import unknown
from saddlescope.numerics.integrate import METHODS as SCIPY_METHODS

DIFFRAX_METHODS = {"tsit5": "Tsit5", "dopri8": "Dopri8", "kvaerno5": "Kvaerno5"}


@dataclass(frozen=True)
class Solver:
    """method: lsoda, radau, bdf, dop853 (SciPy), tsit5, dopri8 (explicit) or kvaerno5 (implicit; diffrax).

    rtol, atol: error per step. `atol` is an upper bound: it shrinks with the initial state, whose smallness decides
    when stages come.
    """

    method: str = "lsoda"
    rtol: float = 1e-8
    atol: float = 1e-11
    max_steps: int = 1_000_000

    def __post_init__(self) -> None:
        if self.method not in SCIPY_METHODS and self.method not in DIFFRAX_METHODS:
            raise unknown("method", self.method, [*SCIPY_METHODS, *DIFFRAX_METHODS])

    @property
    def backend(self) -> str:
        return "scipy" if self.method in SCIPY_METHODS else "diffrax"

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
