"""One number per coordinate moves: the flow in log(u+v) and log(u−v), in which alpha is an ordinary number.

Lemma 4.1 conserves u² − v² = (u+v)(u−v), and Eq. (6) makes d log|u+v|/dt = g = −d log|u−v|/dt. Both logarithms are
kept though one would do: signs of u and v, u = v and the discrete steps then need no case of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from saddlescope.core import precision  # noqa: F401  (64 bits before the first trace)
from saddlescope.core.source import source

from .data import Weights
from .network import PAPER

NOTHING = -1e9
"""log of zero: exp of it is zero, and no run of a smallest alpha of 1e-1000000 moves it by a noticeable share."""

LARGEST = 30.0
"""log of 4|p| beyond which p no longer grows with the state: trial steps of solvers stay finite."""


class LogState(NamedTuple):
    """rise = log|u+v|, fall = log|u−v|, (p,) each."""

    rise: Any
    fall: Any


class View(NamedTuple):
    """product: p = u*v.  log_size: log(|u| + |v|), which no cancellation spoils.  squares: |u|² + |v|²."""

    product: Any
    log_size: Any
    squares: Any


def reduce(weights: Weights) -> LogState:
    return LogState(_log(weights.u + weights.v), _log(weights.u - weights.v))


def _log(value: Any) -> Any:
    size = jnp.abs(value)
    return jnp.where(size > 0, jnp.log(jnp.where(size > 0, size, 1.0)), NOTHING)


def log_weights(unit: Weights, log_inverse_alpha: float) -> LogState:
    """The reduced start alpha * theta_0, whatever alpha."""
    return state_of(np.asarray(part) - log_inverse_alpha for part in reduce(unit))


def state_of(logs: Iterable[np.ndarray]) -> LogState:
    """Of log|u+v| and log|u−v|, which may be −inf: solvers want numbers."""
    return LogState(*(np.maximum(part, NOTHING) for part in logs))


def product(state: LogState) -> Any:
    """p = u*v = ((u+v)² − (u−v)²)/4, without overflow, and without cancellation where p is small."""
    high, low = 2 * jnp.maximum(state.rise, state.fall), 2 * jnp.minimum(state.rise, state.fall)
    size = -jnp.exp(jnp.minimum(high, LARGEST)) * jnp.expm1(low - high) / 4
    return jnp.where(state.rise >= state.fall, size, -size)


def view_of_state(state: LogState) -> View:
    return View(product(state), jnp.maximum(state.rise, state.fall), _squares(state).sum())


def _squares(state: LogState) -> Any:
    """u² + v², which is also dp/ds along the flow ds/dt = g."""
    return (jnp.exp(jnp.minimum(2 * state.rise, LARGEST)) + jnp.exp(jnp.minimum(2 * state.fall, LARGEST))) / 2


def view_of_weights(weights: Weights) -> View:
    u, v = weights
    return View(u * v, _log(jnp.abs(u) + jnp.abs(v)), (u**2 + v**2).sum())


@source(PAPER, "Eq. (3)", "Eq. (6)", "Eq. (12)", "Eq. (13)")
def velocity(force: Any, log_inverse_alpha: Any, decay: float = 0.0) -> LogState:
    """d log|u±v|/d(t/B) = B (±g − decay): alpha enters through B = log(1/alpha) alone."""
    return LogState(log_inverse_alpha * (force - decay), log_inverse_alpha * (-force - decay))


@source(PAPER, "Lemma 4.1", "Eq. (5)")
def conserved(point: Any) -> Any:
    """u² − v², of either sign of the weights."""
    if isinstance(point, LogState):
        return jnp.exp(jnp.minimum(point.rise + point.fall, 2 * LARGEST))
    return jnp.abs(point.u**2 - point.v**2)


def descend(state: LogState, force: Any, learning_rate: Any, decay: float = 0.0) -> LogState:
    """One step of GD on u and v: u±v is multiplied by 1 ± lr g − lr decay, so that u² − v² is not quite conserved."""
    return LogState(
        state.rise + _log_factor(learning_rate * (force - decay)),
        state.fall + _log_factor(learning_rate * (-force - decay)),
    )


def _log_factor(change: Any) -> Any:
    """log|1 + change|."""
    return jnp.log1p(jnp.maximum(change, -2 - change))


def jacobian(state: LogState, columns: Any, log_inverse_alpha: float) -> np.ndarray:
    """d velocity / d state (2p, 2p), from the Hessian's columns (p, p), zero where p does not answer to the state."""
    rising, falling = (np.exp(np.minimum(2 * np.asarray(part), LARGEST)) / 2 for part in state)
    slope = -log_inverse_alpha * np.hstack([columns * rising, -columns * falling])
    return np.vstack([slope, -slope])


def answers(state: LogState) -> np.ndarray:
    """Coordinates whose p moves noticeably with the state: those columns of the Jacobian are not zero."""
    return np.flatnonzero(np.maximum(np.asarray(state.rise), np.asarray(state.fall)) > np.log(SLIGHT) / 2)


class Columns:
    """The Hessian's columns of coordinates that answer, computed anew only where p has moved since.

    compute: (p, which) -> columns (p, len(which)).
    """

    def __init__(self, size: int, compute: Callable[[np.ndarray, np.ndarray], np.ndarray]):
        self.compute = compute
        self.columns = np.zeros((size, size))
        self.known = np.zeros(size, bool)
        self.place = np.zeros(size)

    def at(self, state: LogState) -> np.ndarray:
        p = np.asarray(product(state))
        if np.abs(p - self.place).max() > REUSE * np.abs(p).max():
            self.known[:] = False
        missing = np.setdiff1d(answers(state), np.flatnonzero(self.known))
        if missing.size:
            if not self.known.any():
                self.place, self.columns = p, np.zeros_like(self.columns)
            self.columns[:, missing] = self.compute(p, missing)
            self.known[missing] = True
        return self.columns


REUSE = 0.1
"""Share of the largest |p| by which entries may move before the Hessian is computed anew."""

SLIGHT = 1e-8
"""u² + v² below which a coordinate's column of the Jacobian is left out: it is noise to an implicit step."""
