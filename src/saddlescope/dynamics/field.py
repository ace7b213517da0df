"""A system's flow as solvers want it: one flat vector, one function, optionally in log-time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from saddlescope.core.parts import HasJacobian
from saddlescope.core.stage import Mark
from saddlescope.core.start import Start
from saddlescope.core.system import System
from saddlescope.core.tree import TreeLayout, layout_of, ravel


@dataclass(frozen=True)
class Field:
    """The velocity field of one start. `scale`: None for plain time, else u = log(1 + t/scale) is integrated."""

    system: System
    frame: Any
    origin: np.ndarray
    layout: TreeLayout
    scale: float | None
    _last: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, system: System, start: Start) -> Field:
        flow, frame = system.flow, start.frame
        state = flow.state_of(start)
        if flow.arrays == "jax":
            from saddlescope.core.precision import on_device, start_with_one_thread

            start_with_one_thread()
            frame = on_device(frame)
        return cls(system, frame, ravel(state), layout_of(state), flow.log_time)

    @property
    def compiled(self) -> bool:
        return self.system.flow.arrays == "jax"

    @property
    def batched(self) -> bool:
        """Whether observables of many states are measured at once."""
        return self.system.flow.arrays == "batched"

    # ---- time and the variable that solvers integrate in

    def inner(self, time: Any) -> Any:
        return time if self.scale is None else np.log1p(time / self.scale)

    def outer(self, inner: Any) -> Any:
        return inner if self.scale is None else self.scale * np.expm1(inner)

    # ---- NumPy callables

    @cached_property
    def velocity(self) -> Callable[[float, np.ndarray], np.ndarray]:
        if self.compiled:
            from .compiled import flat_velocity

            fast = flat_velocity(self.system, self.layout)
            plain = lambda state: np.asarray(fast(state, self.frame))  # noqa: E731
        else:
            plain = lambda state: ravel(self.system.flow.velocity(self.layout.unravel(state), self.frame))  # noqa: E731
        return self._warped(plain)

    @cached_property
    def jacobian(self) -> Callable[[float, np.ndarray], np.ndarray] | None:
        if not isinstance(self.system.flow, HasJacobian):
            return None
        matrix = self.system.flow.jacobian(self.frame)
        return self._warped(lambda state: np.asarray(matrix(self.layout.unravel(state))))

    @property
    def product(self) -> Callable[[np.ndarray], Callable[[np.ndarray], np.ndarray]]:
        """State -> (x -> J x), for matrix-free solvers; in plain time only."""

        def linearize(state: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
            apply = self.system.flow.linearize(self.layout.unravel(state), self.frame)
            return lambda x: ravel(apply(self.layout.unravel(x)))

        return linearize

    def _warped(self, function):
        if self.scale is None:
            return lambda _, state: function(state)
        return lambda inner, state: self.scale * np.exp(inner) * function(state)

    def measure(self, state: np.ndarray) -> dict[str, np.ndarray]:
        """Observables at one flat state, or at many if `batched`."""
        if self.compiled:
            from .compiled import flat_measure

            found = flat_measure(self.system, self.layout)(state, self.frame)
        else:
            view = self.system.view(self.layout.unravel(state), self.frame)
            found = self.system.measure(view, self.frame)
        return {name: np.asarray(value) for name, value in found.items()}

    def measure_again(self, state: np.ndarray) -> dict[str, np.ndarray]:
        """The same, without computing it again if this is the state whose signals were computed last."""
        known = "state" in self._last and np.array_equal(self._last["state"], state)
        return self._last["observables"] if known else self.measure(state)

    def measure_many(self, states: np.ndarray) -> dict[str, np.ndarray]:
        """Observables at flat states (n, size), with the state's axis first."""
        if self.batched:
            return self.measure(states)
        points = [self.measure(state) for state in states]
        return {name: np.stack([point[name] for point in points]) for name in points[0]}

    def signals(self, marks: Sequence[Mark]) -> Callable[[np.ndarray], np.ndarray]:
        """Distance of each mark's number from its level, whose sign changes at the passage (..., len(marks))."""
        if self.compiled:
            from .compiled import flat_readings, split_signals

            names, places = split_signals([(mark.observable, mark.index) for mark in marks])
            read = flat_readings(self.system, self.layout, names)
            levels = np.array([mark.level for mark in marks])
            return lambda state: np.asarray(read(state, self.frame, places)) - levels

        def distances(state: np.ndarray) -> np.ndarray:
            observables = self._last["observables"] = self.measure(state)
            self._last["state"] = state.copy()
            return np.stack([mark.read(observables) - mark.level for mark in marks], axis=-1)

        return distances

    def largest_weight(self, states: np.ndarray) -> float:
        """In size, of flat states (n, size)."""
        points = [states] if self.batched else states
        return max(float(self.system.flow.largest_weight(self.layout.unravel(point), self.frame)) for point in points)

    def conserved_many(self, states: np.ndarray) -> np.ndarray:
        """Conserved quantities at flat states (n, size), with the state's axis first."""
        if self.batched:
            return np.asarray(self.system.flow.conserved(self.layout.unravel(states), self.frame))
        if self.compiled:
            from .compiled import flat_conserved

            kept = flat_conserved(self.system, self.layout)
            return np.stack([kept(state, self.frame) for state in states])
        return np.stack([self.system.flow.conserved(self.layout.unravel(state), self.frame) for state in states])
