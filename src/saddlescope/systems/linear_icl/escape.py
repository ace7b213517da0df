"""When each drop comes, from the initial weights alone: a stage algorithm.

On a plateau the small heads do not feel each other, and each is a single particle (`Drift`): the plateau is crossed
by one scalar equation per head. When the first head has grown to a set share of its final size, the heads that
are left, and only they, are integrated through the drop. Then their map is added to what is learned, and the same
problem starts anew with fewer heads and fewer directions. The cost does not depend on the initial scale.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from saddlescope.core.source import source
from saddlescope.core.tree import layout_of, ravel
from saddlescope.numerics.integrate import STOPPED, integrate

from . import prediction
from .data import Frame, PopulationMoments, Weights
from .reduction import attention_map, jacobian, loss_of_map, residual, shift, velocity

HAND_OVER = 0.05
"""A head is small below this share of its final value: it then adds 0.05³ ~ 1e-4 of a learned mode to the map."""

SETTLED = 1e-6
"""A drop is over when the loss is this share of the drop from the next plateau."""

JACOBIAN_SIZE = 600
"""Largest number of weights for which a dense Jacobian is formed: above it, explicit steps are cheaper."""


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
def drift_until(
    weights: Weights, pull: np.ndarray, size: float, longest: float
) -> tuple[float, Weights, int, bool]:
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
        atol=1e-13 * size,
        watch=reached,
        stop=lambda _, sv: reached(sv)[0] >= 0,
    )
    hit = path.outcome == STOPPED
    at = path.time.searchsorted(path.crossings[0][0]) if path.crossings else -1
    s, v = path.state[at, :H], path.state[at, H:]
    plus, minus = drift.pairs(s)
    moved = Weights(v[:, None], (plus + minus) / 2 @ left.T, (plus - minus) / 2 @ right)
    return float(path.time[at]), moved, path.evaluations, hit


def escape_times(weights: Weights, frame: Frame, levels: np.ndarray, plateaus: list[Weights], rank: int) -> Escape:
    """Times at which the loss crosses the midpoints between successive `levels`, from `weights` alone.

    levels (K+1,): plateau losses, the initial one first.  plateaus: weights on each of them.
    """
    stages = len(levels) - 1
    small = HAND_OVER * np.cbrt(prediction.learned_gain(frame.eigenvalues, frame.second_moments)[0])
    longest = 1e4 / (frame.eigenvalues[stages - 1] ** 2 * np.abs(weights.value).max())
    times: list[float | None] = []
    time, evaluations = 0.0, 0
    moments = frame.moments
    while len(times) < stages and len(weights.value):
        if _size(weights).max() < small:
            taken, weights, cost, reached = _drift(weights, moments, small, longest)
            time, evaluations = time + taken, evaluations + cost
            if not reached:
                break
        crossed, weights, time, cost = _drop(weights, moments, levels, len(times), small, rank, time, time + longest)
        evaluations += cost
        if not crossed:
            break
        times += crossed
        # What has grown is taken off the problem; what is left starts anew.
        weights = Weights(*(part[_size(weights) < small] for part in weights))
        moments = shift(frame.moments, attention_map(plateaus[len(times)]))
    return Escape(tuple(times) + (None,) * (stages - len(times)), evaluations)


def _size(weights: Weights) -> np.ndarray:
    """|v| of each head; by Eq. (50) its keys and queries are of the same size once they have grown."""
    return np.abs(weights.value[:, -1])


def _drift(weights, moments, size, longest):
    """`drift_until` on the part of the weights that the population keeps; the stray blocks wait."""
    dim = weights.query.shape[-1]
    pull = residual(np.zeros((weights.value.shape[1], weights.key.shape[2], dim)), moments)[-1, :dim]
    inner = Weights(weights.value[:, -1:], weights.key[..., :dim], weights.query)
    taken, moved, cost, reached = drift_until(inner, pull, size, longest)
    value = np.concatenate([weights.value[:, :-1], moved.value], axis=1)
    key = np.concatenate([moved.key, weights.key[..., dim:]], axis=2)
    return taken, Weights(value, key, moved.query), cost, reached


def _drop(weights, moments, levels, done, small, rank, time, latest):
    """Integrate the heads that are left until what has grown has nothing left to take."""
    layout = layout_of(weights)
    stages = len(levels) - 1
    midpoints = ((levels[:-1] + levels[1:]) / 2)[done:]

    def flow(_: float, flat: np.ndarray) -> np.ndarray:
        return ravel(velocity(layout.unravel(flat), moments))

    def loss(flat: np.ndarray) -> float:
        return loss_of_map(attention_map(layout.unravel(flat)), moments)

    def settled(_: float, flat: np.ndarray) -> bool:
        now = loss(flat)
        gained = int((now < midpoints).sum())
        count = done + gained
        if not gained or abs(now - levels[count]) > SETTLED * (levels[count - 1] - levels[count]):
            return False
        # A grown head with a free pair takes its next direction at once: no plateau to cross.
        return count == stages or gained == rank * int((_size(layout.unravel(flat)) >= small).sum())

    with_jacobian = layout.size <= JACOBIAN_SIZE
    path = integrate(
        flow,
        ravel(weights),
        time,
        latest,
        method="lsoda" if with_jacobian else "dop853",
        rtol=1e-9,
        atol=1e-12,
        jacobian=(lambda _, flat: jacobian(layout.unravel(flat), moments)) if with_jacobian else None,
        watch=lambda flat: loss(flat) - midpoints,
        stop=settled,
    )
    crossed = [when for when, _ in path.crossings]
    return crossed, layout.unravel(path.state[-1]), float(path.time[-1]), path.evaluations


def plateau_weights(frame: Frame, stages: int, heads: int, rank: int) -> list[Weights]:
    """A point on every plateau 0..K. Population: M_m of Eq. (6). Finite P: the sample's own critical points.

    On the sample, plateau m is the best that the first m key-query pairs can do, found from the population's M_m.
    """
    points = [
        prediction.fixed_point(frame.eigenvalues, frame.second_moments, range(count), heads, rank)
        for count in range(stages + 1)
    ]
    if isinstance(frame.moments, PopulationMoments):
        return points
    return [_sample_plateau(point, frame.moments, count, rank) for count, point in enumerate(points)]


def _sample_plateau(population: Weights, moments, count: int, rank: int) -> Weights:
    whole = Weights(
        np.pad(population.value, ((0, 0), (population.query.shape[-1], 0))),
        np.pad(population.key, ((0, 0), (0, 0), (0, 1))),
        population.query,
    )
    if count == 0:
        return whole
    # Only pairs that hold a direction may move: with idle pairs free, this would run on to the next plateau.
    used = np.arange(whole.key.shape[0] * rank).reshape(-1, rank) < count
    free = ravel(
        Weights(
            np.broadcast_to(used[:, :1], whole.value.shape),
            np.broadcast_to(used[..., None], whole.key.shape),
            np.broadcast_to(used[..., None], whole.query.shape),
        )
    ).astype(bool)
    layout, flat = layout_of(whole), ravel(whole)

    def weights_of(x: np.ndarray) -> Weights:
        moved = flat.copy()
        moved[free] = x
        return layout.unravel(moved)

    def loss_and_slope(x: np.ndarray) -> tuple[float, np.ndarray]:
        w = weights_of(x)
        return float(loss_of_map(attention_map(w), moments)), -2 * ravel(velocity(w, moments))[free]

    found = minimize(
        loss_and_slope, flat[free], jac=True, method="L-BFGS-B", options={"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-16, "gtol": 1e-11, "maxcor": 40}
    )
    return weights_of(found.x)
