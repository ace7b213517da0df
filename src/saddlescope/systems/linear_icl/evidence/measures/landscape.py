"""Where the gradient vanishes, and how the loss is curved there."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from saddlescope.core.run import Run
from saddlescope.core.source import source

from ... import prediction
from ...data import Weights
from .common import frame_of, theory_of


def subsets(count: int) -> list[tuple[int, ...]]:
    return [chosen for size in range(count + 1) for chosen in itertools.combinations(range(count), size)]


def fixed_points(run: Run, idle: bool = False) -> Iterator[tuple[tuple[int, ...], Weights]]:
    """A point of every M(S) that the heads can hold. idle: with random keys and queries that satisfy (C3)."""
    spec = run.system.spec
    rng = np.random.default_rng(3) if idle else None
    for learned in subsets(spec.dim):
        if len(learned) <= spec.heads * spec.rank:
            yield learned, prediction.fixed_point(*theory_of(run), learned, spec.heads, spec.rank, idle=rng)


class Kind(NamedTuple):
    """A random point of M(S). calm: whether the theorem of the room's README says that no curvature is negative."""

    learned: tuple[int, ...]
    point: Weights
    calm: bool


def random_fixed_points(run: Run) -> Iterator[Kind]:
    """Points of every M(S) with n active heads, for every n that can hold S: directions mixed over heads and pairs,
    and one point more where an idle head keeps a key outside the span of S.
    """
    spec, theory = run.system.spec, theory_of(run)
    H, R, D = spec.heads, spec.rank, spec.dim
    rng = np.random.default_rng(4)
    for learned in subsets(D):
        m, chosen = len(learned), list(learned)
        first = learned == tuple(range(m))
        for active in range(-(-m // R), H + 1 if m else 1):
            value, key, query = np.zeros((H, 1)), np.zeros((H, R, D)), np.zeros((H, R, D))
            n = active * R
            value[:active, 0] = rng.uniform(0.5, 1.5, active) * rng.choice([-1, 1], active)
            keys = np.linalg.qr(rng.normal(size=(n, m)))[0]  # no nearly parallel columns, whose weights would be huge
            weighted = keys.T * np.repeat(value[:active, 0], R)  # (m, n): what times the queries is diag(gain)
            free = rng.normal(size=(n, m))
            solve = np.linalg.pinv(weighted)
            queries = solve @ np.diag(theory.gain[chosen]) + free - solve @ (weighted @ free)
            key[:active][..., chosen] = keys.reshape(active, R, m)
            query[:active][..., chosen] = queries.reshape(active, R, m)
            yield Kind(learned, Weights(value, key, query), m == D or (first and n == m))
            if active < H and m < D:
                stray = key.copy()
                stray[-1, 0, np.setdiff1d(np.arange(D), chosen)] = 1.0
                yield Kind(learned, Weights(value, stray, query), False)


def calm_rates(run: Run) -> list[float]:
    """Growth rates where the theorem allows none: M_m as small starts approach it, and random points of that kind."""
    return _rates(run, calm=True)


def wild_rates(run: Run) -> list[float]:
    """Growth rates at all other fixed points."""
    return _rates(run, calm=False)


def _rates(run: Run, calm: bool) -> list[float]:
    spec = run.system.spec
    reached = {tuple(range(m)) for m in range(spec.dim + 1) if m % spec.rank == 0 or m == spec.dim}
    points = [point for learned, point in fixed_points(run) if (learned in reached) == calm]
    points += [kind.point for kind in random_fixed_points(run) if kind.calm == calm]
    return [growth_rate(run, point) for point in points]


def growth_rate(run: Run, point: Weights) -> float:
    """Largest eigenvalue of the linearised flow: positive where the loss has negative curvature."""
    return float(np.linalg.eigvalsh(run.system.flow.jacobian(frame_of(run))(point))[-1])


def hunted(run: Run) -> list[int]:
    """Zeros of the velocity from 400 random starts: how many sets S turned up; one more than zeros of no M(S)."""
    from scipy.optimize import least_squares

    from saddlescope.core.tree import layout_of, ravel

    system, frame = run.system, frame_of(run)
    rng = np.random.default_rng(5)
    layout = layout_of(system.training.random_weights(0))
    gain = theory_of(run).gain
    known = {learned: np.diag(gain * np.isin(range(len(gain)), learned)) for learned in subsets(len(gain))}
    found: set[tuple[int, ...]] = set()
    strangers = 0
    for _ in range(400):
        # Sparse starts of different sizes lie in the basins of different fixed points.
        flat = rng.normal(size=layout.size) * 10 ** rng.uniform(-1, 0.3)
        flat *= rng.random(layout.size) < rng.uniform(0.2, 1)
        solved = least_squares(
            lambda x: ravel(system.flow.velocity(layout.unravel(x), frame)),
            flat,
            jac=lambda x: system.flow.jacobian(frame)(layout.unravel(x)),  # type: ignore[arg-type]
            xtol=1e-15,
            ftol=1e-15,
            gtol=1e-15,
            max_nfev=400,
        )
        if np.abs(solved.fun).max() > 1e-10:  # the search ended in a dip of the speed that is no zero
            continue
        value, key, query = layout.unravel(solved.x)
        made = np.einsum("h,hri,hrj->ij", value[:, 0], key, query)
        match = [learned for learned, target in known.items() if np.abs(made - target).max() < 1e-3]
        found.update(match)
        strangers += not match
    return [len(found), strangers + 1]


def gradients(run: Run) -> list[float]:
    """Largest velocity at every fixed point, with idle heads that only satisfy (C3)."""
    frame = frame_of(run)
    speeds = [run.system.flow.velocity(point, frame) for _, point in fixed_points(run, idle=True)]
    return [max(float(np.abs(part).max()) for part in speed) for speed in speeds]


@source("zhang2025", "Eq. (30)")
def landscape_losses(run: Run) -> list[float]:
    """The network's own loss at every fixed point, with idle heads that only satisfy (C3)."""
    from ...reduction import attention_map, loss_of_map

    frame = frame_of(run)
    points = (point for _, point in fixed_points(run, idle=True))
    return [float(loss_of_map(attention_map(point), frame.moments)) for point in points]


def theory_landscape(run: Run) -> list[float]:
    return [prediction.fixed_point_loss(*theory_of(run), learned) for learned, _ in fixed_points(run)]


def slope_at_the_end(run: Run) -> float:
    """Largest entry of the loss's slope in the map at M_D: zero at the minimum over all maps, the loss being convex."""
    from ...reduction import attention_map, residual

    spec = run.system.spec
    end = prediction.fixed_point(*theory_of(run), range(spec.dim), spec.heads, spec.rank)
    return float(np.abs(residual(attention_map(end), frame_of(run).moments)).max())


def growth_rates(run: Run) -> list[float]:
    return [growth_rate(run, point) for _, point in saddles(run)]


def theory_rates(run: Run) -> list[float]:
    return [prediction.strict_saddle_rate(*theory_of(run), learned) for learned, _ in saddles(run)]


def saddles(run: Run) -> list[tuple[tuple[int, ...], Any]]:
    """Fixed points that a small start does not visit."""
    return [(s, point) for s, point in fixed_points(run) if s != tuple(range(len(s)))]


def all_and_no_others(run: Run) -> list[int]:
    """What `hunted` gives if there are 2^D sets."""
    return [2**run.system.spec.dim, 1]
