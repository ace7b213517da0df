"""When each drop comes, from the initial weights alone: a stage algorithm.

On a plateau the small heads do not feel each other, and each is a single particle (`Drift`): the plateau is crossed
by one scalar equation per head. When the first head has grown to a set share of its final size, the heads that
are left, and only they, are integrated through the drop. Then their map is added to what is learned, and the same
problem starts anew with fewer heads and fewer directions. The cost does not depend on the initial scale.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from saddlescope.core.source import source
from saddlescope.core.tree import layout_of, ravel
from saddlescope.numerics.free import DENSE, integrate_free
from saddlescope.numerics.integrate import STOPPED, integrate

from . import prediction
from .data import Frame, PopulationMoments, SampleMoments, Weights
from .reduction import attention_map, jacobian, linearized, loss_of_map, pull_back, residual, shift, velocity

HAND_OVER = 0.05
"""A head is small below this share of its final value: it then adds 0.05³ ~ 1e-4 of a learned mode to the map."""

SETTLED = 1e-6
"""A drop is over when the loss is within this share of it of the plateau."""

ALIGNED = 3e-3
"""And no entry of the map between different eigenvalues exceeds this share of a learned one: where eigenvalues nearly
tie, the loss feels no tilt."""

SETTLED_SAMPLE = 1e-3
"""The same for finite P, whose plateaus are never quite reached (see plateaus.py)."""


class Drift(NamedTuple):
    """Heads on a plateau. With s = ∫ v dt, keys and queries are explicit: c± = Uᵀk ± Vᵀq grow as e^{±σ s}.

    value (H,); plus, minus (H, R, D): c± at the plateau's beginning; rate (D,): σ, singular values of the residual
    U diag(σ) Vᵀ (λ_d² for unlearned d on the population).
    """

    value: np.ndarray
    plus: np.ndarray
    minus: np.ndarray
    rate: np.ndarray

    @source("zhang2025", "Eq. (33)", "Eq. (40)")
    def pairs(self, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """c± of each head after its own s (H,). Eq. (40)'s third term should be the frozen [e eᵀ k; e eᵀ q]."""
        growth = np.exp(self.rate * s[:, None])[:, None, :]
        return self.plus * growth, self.minus / growth

    def force(self, s: np.ndarray) -> np.ndarray:
        """d²s/dt² = dv/dt = ¼ Σ σ (c₊² − c₋²)."""
        plus, minus = self.pairs(s)
        return 0.25 * (self.rate * (plus**2 - minus**2)).sum((1, 2))

    def speed_squared(self, s: np.ndarray) -> np.ndarray:
        """v² as a function of s: energy conservation of the particle, so t = ∫ ds/|v|."""
        plus, minus = self.pairs(s)
        gained = (plus**2 + minus**2 - self.plus**2 - self.minus**2).sum((1, 2))
        return self.value**2 + 0.25 * gained


class Leg(NamedTuple):
    """A stretch of the way: its duration, the weights at its end, the drops passed on it (from its beginning), the
    evaluations it took, and whether it ended where it should.
    """

    duration: float
    weights: Weights
    drops: list[float]
    evaluations: int
    arrived: bool


class Escape(NamedTuple):
    """times of the drops, None from the first that was not reached; evaluations of a velocity that they took."""

    times: tuple[float | None, ...]
    evaluations: int


@dataclass(frozen=True)
class Way:
    """What does not change from stage to stage.

    levels (K+1,): plateau losses, the initial one first.  plateaus: weights on each of them.  rank: R.
    """

    frame: Frame
    levels: np.ndarray
    plateaus: Sequence[Weights]
    rank: int

    @property
    def stages(self) -> int:
        return len(self.levels) - 1

    @property
    def population(self) -> bool:
        return isinstance(self.frame.moments, PopulationMoments)

    @property
    def gain(self) -> float:
        """The smallest coefficient of a learned direction."""
        return float(prediction.learned_gain(self.frame.eigenvalues, self.frame.second_moments)[0])

    @property
    def small(self) -> float:
        """|v| below which a head is on a plateau."""
        return HAND_OVER * float(np.cbrt(self.gain))

    @property
    def longest(self) -> float:
        """A time after which a head of order one that has not grown never will."""
        return 1e4 / float(self.frame.eigenvalues[self.stages - 1]) ** 2


def escape_times(weights: Weights, way: Way) -> Escape:
    """Times at which the loss crosses the midpoints between successive levels, from `weights` alone."""
    times: list[float | None] = []
    time, evaluations = 0.0, 0
    moments, learned = way.frame.moments, 0.0
    longest = way.longest / _size(weights).max()
    while len(times) < way.stages and len(weights.value):
        if _size(weights).max() < way.small:
            drift = _drift_population if way.population else _drift_sample
            leg = drift(weights, moments, way.small, longest)
            time, weights, evaluations = time + leg.duration, leg.weights, evaluations + leg.evaluations
            if not leg.arrived:
                break
        leg = _drop(weights, moments, way, len(times))
        times += [time + moment for moment in leg.drops]
        time, weights, evaluations = time + leg.duration, leg.weights, evaluations + leg.evaluations
        if not leg.arrived:
            break
        grown = _size(weights) >= way.small
        learned = learned + attention_map(Weights(*(part[grown] for part in weights)))
        moments = _remaining(way, learned, len(times))
        weights = Weights(*(part[~grown] for part in weights))
    return Escape(tuple(times) + (None,) * (way.stages - len(times)), evaluations)


def _size(weights: Weights) -> np.ndarray:
    """|v| of each head; by Eq. (50) its keys and queries are of the same size once they have grown."""
    return np.abs(weights.value[:, -1])


@source("zhang2025", "Eq. (31)", "Eq. (32)", "Eq. (39)")
def drift_until(weights: Weights, pull: np.ndarray, size: float, longest: float) -> Leg:
    """Move small heads along a plateau until the first |v| reaches `size`, or until `longest`.

    weights: population shape (value (H, 1), key (H, R, D)).  pull: residual matrix E (D, D) of the plateau.
    """
    left, rate, right = np.linalg.svd(pull)
    k, q = weights.key @ left, weights.query @ right.T
    drift = Drift(weights.value[:, 0], k + q, k - q, rate)
    H = len(drift.value)

    def motion(sv: np.ndarray) -> np.ndarray:
        return np.concatenate([sv[H:], drift.force(sv[:H])])

    def back(sv: np.ndarray) -> Weights:
        plus, minus = drift.pairs(sv[:H])
        return Weights(sv[H:, None], (plus + minus) / 2 @ left.T, (plus - minus) / 2 @ right)

    start = np.concatenate([np.zeros(H), drift.value])
    return _until(size, motion, start, lambda sv: np.abs(sv[H:]).max(), back, longest)


def _drift_population(weights: Weights, moments: Any, size: float, longest: float) -> Leg:
    dim = weights.query.shape[-1]
    return drift_until(weights, residual(np.zeros((1, dim, dim)), moments)[0], size, longest)


def _drift_sample(weights: Weights, moments: Any, size: float, longest: float) -> Leg:
    """The same plateau with the blocks that leave zero on a sample: small heads under a constant pull."""
    layout = layout_of(weights)
    pull = residual(np.zeros((weights.value.shape[1], weights.key.shape[2], weights.query.shape[2])), moments)

    def motion(flat: np.ndarray) -> np.ndarray:
        return ravel(pull_back(pull, layout.unravel(flat)))

    def largest(flat: np.ndarray) -> float:
        return _size(layout.unravel(flat)).max()

    return _until(size, motion, ravel(weights), largest, layout.unravel, longest)


def _until(
    size: float,
    motion: Callable[[np.ndarray], np.ndarray],
    start: np.ndarray,
    largest: Callable[[np.ndarray], float],
    back: Callable[[np.ndarray], Weights],
    longest: float,
) -> Leg:
    """Follow a plateau's motion until the largest value reaches `size`."""
    path = integrate(
        lambda _, state: motion(state),
        start,
        0.0,
        longest,
        method="dop853",
        rtol=1e-10,
        atol=1e-11 * largest(start),
        watch=lambda state: np.array([largest(state) - size]),
        stop=lambda _, state: largest(state) >= size,
    )
    at = path.time.searchsorted(path.crossings[0][0]) if path.crossings else -1
    return Leg(float(path.time[at]), back(path.state[at]), [], path.evaluations, path.outcome == STOPPED)


@source("zhang2025", "Eq. (26)", "Eq. (27)")
def _remaining(way: Way, T: Any, count: int) -> PopulationMoments | SampleMoments:
    """The problem that the small heads face once the grown ones fit `count` directions; T is the map of those.

    Grown heads answer whatever else pulls on their directions, so nothing is left to be learned there: Eq. (26). With
    distinct eigenvalues these are the first eigenvectors; among equal ones, whatever the initial weights chose.
    """
    frame = way.frame
    if not way.population:
        return shift(frame.moments, attention_map(way.plateaus[count]))
    lam = frame.eigenvalues
    off = np.eye(len(lam))
    for value in np.unique(lam[:count]):
        group = np.flatnonzero(lam == value)
        left, _, _ = np.linalg.svd(T[0][np.ix_(group, group)])
        learned = left[:, : np.searchsorted(-lam[:count], -value, side="right") - group[0]]
        off[np.ix_(group, group)] -= learned @ learned.T
    level = prediction.plateau_loss(lam, frame.second_moments, count)
    return frame.moments._replace(constant=np.array(level), linear=off @ frame.moments.linear @ off)


def _drop(weights: Weights, moments: Any, way: Way, done: int) -> Leg:
    """Integrate the heads that are left, `done` drops being over, until what has grown has nothing left to take."""
    layout, levels = layout_of(weights), way.levels
    midpoints = ((levels[:-1] + levels[1:]) / 2)[done:]
    near = SETTLED if way.population else SETTLED_SAMPLE
    apart = way.frame.eigenvalues[:, None] != way.frame.eigenvalues

    def flow(_: float, flat: np.ndarray) -> np.ndarray:
        return ravel(velocity(layout.unravel(flat), moments))

    def bend(_: float, flat: np.ndarray) -> np.ndarray:
        return jacobian(layout.unravel(flat), moments)

    def product(flat: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        apply = linearized(layout.unravel(flat), moments)
        return lambda x: ravel(apply(layout.unravel(x)))

    def loss(flat: np.ndarray) -> float:
        return loss_of_map(attention_map(layout.unravel(flat)), moments)

    def settled(_: float, flat: np.ndarray) -> bool:
        now = loss(flat)
        gained = int((now < midpoints).sum())
        count = done + gained
        if not gained or now - levels[count] > near * (levels[count - 1] - levels[count]):
            return False
        heads = layout.unravel(flat)
        if way.population and np.abs(attention_map(heads)[0] * apart).max() > ALIGNED * way.gain:
            return False
        # A grown head with a free pair takes its next direction at once: no plateau to cross.
        return count == way.stages or gained == way.rank * int((_size(heads) >= way.small).sum())

    # From zero: at the time of a late plateau, steps of a drop would drown in rounding.
    span = ravel(weights), 0.0, way.longest
    settings: dict[str, Any] = {"watch": lambda flat: loss(flat) - midpoints, "stop": settled}
    if layout.size <= DENSE:
        path = integrate(flow, *span, rtol=1e-9, atol=1e-12, jacobian=bend, **settings)
    else:
        path = integrate_free(flow, product, *span, rtol=1e-8, atol=1e-11, **settings)
    drops = [when for when, _ in path.crossings]
    end = layout.unravel(path.state[-1])
    return Leg(float(path.time[-1]), end, drops, path.evaluations, bool(drops) and path.outcome == STOPPED)
