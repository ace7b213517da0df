"""System: one paper's problem, stated once, so that it can be trained, flowed and predicted."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from .observable import Observable
from .parts import HasInvariants
from .spec import Spec
from .start import Start
from .subject import Subject


class System(Subject):
    """The contract. Points, frames, states and views are named tuples of arrays.

    A system has no loop of its own: `dynamics` moves what its parts state. Its methods, and those of its parts, are
    written for jax arrays, or for any (see `Flow.arrays`). Its presets are at least tiny, quick and paper; each
    "tiny..." is checked by the conformance suite.
    """

    spec_type: ClassVar[type[Spec]]
    time: ClassVar[Observable] = Observable("time of the gradient flow", symbol="t")

    @abstractmethod
    def start(self, seed: int) -> Start:
        """The shared beginning of all faces, drawn with NumPy; `seed` moves the initial weights only."""

    @abstractmethod
    def view(self, point: Any, frame: Any) -> Any:
        """The arrays that fix the network's function, from weights or from a state."""

    @abstractmethod
    def measure(self, view: Any, frame: Any) -> dict[str, Any]:
        """Named observables, "loss" among them, with the dimensions that `observables` declares."""

    def clock(self, frame: Any) -> float:
        """Time of this system per unit of gradient-flow time: a step of GD advances clock * learning_rate."""
        return 1.0

    @property
    def invariants(self) -> HasInvariants | None:
        """The part that knows what the gradient flow keeps."""
        return next((part for part in (self.flow, self.training) if isinstance(part, HasInvariants)), None)
