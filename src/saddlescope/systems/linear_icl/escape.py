"""When each drop comes, from the initial weights alone: a stage algorithm.

On a plateau the small heads do not feel each other, and each is a single particle (`Drift`): the plateau is crossed
by one scalar equation per head. When the first head has grown to a set share of its final size, the heads that
are left, and only they, are integrated through the drop. Then their map is added to what is learned, and the same
problem starts anew with fewer heads and fewer directions. The cost does not depend on the initial scale.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

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
"""The same for finite P, whose plateaus are never quite reached (see `plateau_weights`)."""


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


class Escape(NamedTuple):
    """times of the drops, None from the first that was not reached; evaluations of a velocity that they took."""

    times: tuple[float | None, ...]
    evaluations: int


@source("zhang2025", "Eq. (31)", "Eq. (32)", "Eq. (39)")
def drift_until(weights: Weights, pull: np.ndarray, size: float, longest: float) -> tuple[float, Weights, int, bool]:
    """Move small heads along a plateau until the first |v| reaches `size`.

    weights: population shape (value (H, 1), key (H, R, D)).  pull: residual matrix E (D, D) of the plateau.
    Returns the time taken, the weights then, the evaluations, and whether `size` was reached before `longest`.
    """
    left, rate, right = np.linalg.svd(pull)
    k, q = weights.key @ left, weights.query @ right.T
    drift = Drift(weights.value[:, 0], k + q, k - q, rate)
    H = len(drift.value)

    def motion(_: float, sv: np.ndarray) -> np.ndarray:
        return np.concatenate([sv[H:], drift.force(sv[:H])])

    def reached(sv: np.ndarray) -> np.ndarray:
        return np.array([np.abs(sv[H:]).max() - size])

    start = np.concatenate([np.zeros(H), drift.value])
    path = integrate(
        motion,
        start,
        0.0,
        longest,
        method="dop853",
        rtol=1e-10,
        atol=1e-11 * np.abs(drift.value).max(),
        watch=reached,
        stop=lambda _, sv: reached(sv)[0] >= 0,
    )
    hit = path.outcome == STOPPED
    at = path.time.searchsorted(path.crossings[0][0]) if path.crossings else -1
    s, v = path.state[at, :H], path.state[at, H:]
    plus, minus = drift.pairs(s)
    moved = Weights(v[:, None], (plus + minus) / 2 @ left.T, (plus - minus) / 2 @ right)
    return float(path.time[at]), moved, path.evaluations, hit


def escape_times(weights: Weights, frame: Frame, levels: np.ndarray, plateaus: Sequence[Weights], rank: int) -> Escape:
    """Times at which the loss crosses the midpoints between successive `levels`, from `weights` alone.

    levels (K+1,): plateau losses, the initial one first.  plateaus: weights on each of them.
    """
    stages = len(levels) - 1
    small = HAND_OVER * np.cbrt(prediction.learned_gain(frame.eigenvalues, frame.second_moments)[0])
    longest = _longest(frame, stages) / np.abs(weights.value).max()
    times: list[float | None] = []
    time, evaluations = 0.0, 0
    moments, learned = frame.moments, 0.0
    while len(times) < stages and len(weights.value):
        if _size(weights).max() < small:
            drift = _drift_population if isinstance(moments, PopulationMoments) else _drift_sample
            taken, weights, cost, reached = drift(weights, moments, small, longest)
            time, evaluations = time + taken, evaluations + cost
            if not reached:
                break
        crossed, weights, time, cost = _drop(weights, moments, frame, levels, len(times), small, rank, time)
        evaluations += cost
        if not crossed:
            break
        times += crossed
        grown = _size(weights) >= small
        learned = learned + attention_map(Weights(*(part[grown] for part in weights)))
        moments = _remaining(frame, learned, plateaus[len(times)], len(times))
        weights = Weights(*(part[~grown] for part in weights))
    return Escape(tuple(times) + (None,) * (stages - len(times)), evaluations)


@source("zhang2025", "Eq. (26)", "Eq. (27)")
def _remaining(frame: Frame, T: np.ndarray, plateau: Weights, count: int):
    """The problem that the small heads face once the grown ones fit `count` directions; T is the map of those.

    Grown heads answer whatever else pulls on their directions, so nothing is left to be learned there: Eq. (26). With
    distinct eigenvalues these are the first eigenvectors; among equal ones, whatever the initial weights chose.
    """
    if not isinstance(frame.moments, PopulationMoments):
        return shift(frame.moments, attention_map(plateau))
    lam = frame.eigenvalues
    off = np.eye(len(lam))
    for value in np.unique(lam[:count]):
        group = np.flatnonzero(lam == value)
        left, _, _ = np.linalg.svd(T[0][np.ix_(group, group)])
        learned = left[:, : np.searchsorted(-lam[:count], -value, side="right") - group[0]]
        off[np.ix_(group, group)] -= learned @ learned.T
    level = prediction.plateau_loss(lam, frame.second_moments, count)
    return frame.moments._replace(constant=np.array(level), linear=off @ frame.moments.linear @ off)


def _longest(frame: Frame, stages: int) -> float:
    """A time after which a head of order one that has not grown never will."""
    return 1e4 / frame.eigenvalues[stages - 1] ** 2


def _size(weights: Weights) -> np.ndarray:
    """|v| of each head; by Eq. (50) its keys and queries are of the same size once they have grown."""
    return np.abs(weights.value[:, -1])


def _drift_population(weights, moments, size, longest):
    dim = weights.query.shape[-1]
    return drift_until(weights, residual(np.zeros((1, dim, dim)), moments)[0], size, longest)


def _drift_sample(weights, moments, size, longest):
    """The same plateau with the blocks that leave zero on a sample: small heads under a constant pull."""
    layout = layout_of(weights)
    shape = weights.value.shape[1], weights.key.shape[2], weights.query.shape[2]
    pull = residual(np.zeros(shape), moments)

    def reached(flat: np.ndarray) -> np.ndarray:
        return np.array([_size(layout.unravel(flat)).max() - size])

    path = integrate(
        lambda _, flat: ravel(pull_back(pull, layout.unravel(flat))),
        ravel(weights),
        0.0,
        longest,
        method="dop853",
        rtol=1e-9,
        atol=1e-10 * np.abs(weights.value).max(),
        watch=reached,
        stop=lambda _, flat: reached(flat)[0] >= 0,
    )
    return float(path.time[-1]), layout.unravel(path.state[-1]), path.evaluations, path.outcome == STOPPED


def _drop(weights, moments, frame, levels, done, small, rank, time):
    """Integrate the heads that are left until what has grown has nothing left to take."""
    layout = layout_of(weights)
    stages = len(levels) - 1
    midpoints = ((levels[:-1] + levels[1:]) / 2)[done:]
    population = isinstance(moments, PopulationMoments)
    near = SETTLED if population else SETTLED_SAMPLE
    apart = frame.eigenvalues[:, None] != frame.eigenvalues
    tilt = ALIGNED * prediction.learned_gain(frame.eigenvalues, frame.second_moments)[0]

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
        if population and np.abs(attention_map(layout.unravel(flat))[0] * apart).max() > tilt:
            return False
        # A grown head with a free pair takes its next direction at once: no plateau to cross.
        return count == stages or gained == rank * int((_size(layout.unravel(flat)) >= small).sum())

    span = ravel(weights), time, time + _longest(frame, stages)
    settings: dict[str, Any] = {"watch": lambda flat: loss(flat) - midpoints, "stop": settled}
    if layout.size <= DENSE:
        path = integrate(flow, *span, rtol=1e-9, atol=1e-12, jacobian=bend, **settings)
    else:
        path = integrate_free(flow, product, *span, rtol=1e-8, atol=1e-11, **settings)
    crossed = [when for when, _ in path.crossings]
    return crossed, layout.unravel(path.state[-1]), float(path.time[-1]), path.evaluations


def plateau_weights(frame: Frame, stages: int, heads: int, rank: int) -> list[Weights]:
    """A point on every plateau 0..K. Population: M_m of Eq. (6). Finite P: where M_m relaxes to on the sample.

    On the sample, plateau m is the best that the first m key-query pairs can do, to a tolerance: each is found from
    the one before by adding the population's next pair. The tolerance matters. M_m fixes only the sum over heads,
    which m heads can share in a continuum of ways; the sample lifts this freedom by O(P^-1/2), so that neither a
    minimiser nor the flow itself ever quite arrives.
    """
    points = [
        prediction.fixed_point(frame.eigenvalues, frame.second_moments, range(count), heads, rank)
        for count in range(stages + 1)
    ]
    if isinstance(frame.moments, PopulationMoments):
        return points
    dim = len(frame.eigenvalues)
    gain = prediction.learned_gain(frame.eigenvalues, frame.second_moments)
    found = [Weights(np.zeros((heads, dim + 1)), np.zeros((heads, rank, dim + 1)), np.zeros((heads, rank, dim)))]
    for direction in range(stages):
        head, pair = divmod(direction, rank)
        value, key, query = (part.copy() for part in found[-1])
        if pair == 0:
            value[head, -1] = points[direction + 1].value[head, 0]
        key[head, pair, direction] = query[head, pair, direction] = np.sqrt(gain[direction] / value[head, -1])
        found.append(_lowest(Weights(value, key, query), frame.moments, direction + 1))
    return found


def _lowest(weights: Weights, moments: SampleMoments, count: int) -> Weights:
    """The nearest minimum over the first `count` pairs: with idle pairs free it would run on to the next plateau."""
    heads, rank, _ = weights.key.shape
    used = np.arange(heads * rank).reshape(heads, rank) < count
    masks = used[:, :1], used[..., None], used[..., None]
    free = np.concatenate([np.broadcast_to(m, part.shape).ravel() for m, part in zip(masks, weights, strict=True)])
    layout, flat = layout_of(weights), ravel(weights)

    def weights_of(x: np.ndarray) -> Weights:
        moved = flat.copy()
        moved[free] = x
        return layout.unravel(moved)

    def loss(x: np.ndarray) -> float:
        return float(loss_of_map(attention_map(weights_of(x)), moments))

    def slope(x: np.ndarray) -> np.ndarray:
        return -2 * ravel(velocity(weights_of(x), moments))[free]

    options = {"maxiter": 2000, "maxfun": 4000, "ftol": 1e-14, "gtol": 1e-9}
    return weights_of(minimize(loss, flat[free], jac=slope, method="L-BFGS-B", options=options).x)
