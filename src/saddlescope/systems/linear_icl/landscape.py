"""Where the gradient vanishes, and how the loss is curved there."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from saddlescope.core.claim import Evidence

from . import prediction
from .data import Frame, Weights
from .measures import frame_of


def subsets(count: int) -> list[tuple[int, ...]]:
    return [chosen for size in range(count + 1) for chosen in itertools.combinations(range(count), size)]


def fixed_points(run: Evidence, idle: bool = False) -> Iterator[tuple[tuple[int, ...], Weights]]:
    """A point of every M(S) that the heads can hold. idle: with random keys and queries that satisfy (C3)."""
    frame, spec = frame_of(run), run.system.spec
    rng = np.random.default_rng(3) if idle else None
    for learned in subsets(spec.dim):
        if len(learned) <= spec.heads * spec.rank:
            point = prediction.fixed_point(
                frame.eigenvalues, frame.second_moments, learned, spec.heads, spec.rank, idle=rng
            )
            yield learned, point


def growth_rate(run: Evidence, point: Weights) -> float:
    """Largest eigenvalue of the linearised flow: positive where the loss has negative curvature."""
    return float(np.linalg.eigvalsh(run.system.jacobian(point, frame_of(run)))[-1])


def hunt_fixed_points(run: Evidence, starts: int = 400) -> tuple[set[tuple[int, ...]], int]:
    """Zeros of the velocity from random starts: the sets S that turned up, and how many zeros belong to no M(S)."""
    from scipy.optimize import least_squares

    from saddlescope.core.tree import layout_of, ravel

    system, frame = run.system, frame_of(run)
    rng = np.random.default_rng(5)
    layout = layout_of(system.random_weights(0))
    known = {learned: _diagonal(frame, learned) for learned in subsets(system.spec.dim)}
    found: set[tuple[int, ...]] = set()
    strangers = 0
    for _ in range(starts):
        # Sparse starts of different sizes lie in the basins of different fixed points.
        flat = (
            rng.normal(size=layout.size) * 10 ** rng.uniform(-1, 0.3) * (rng.random(layout.size) < rng.uniform(0.2, 1))
        )
        solved = least_squares(
            lambda x: ravel(system.velocity(layout.unravel(x), frame)),
            flat,
            jac=lambda x: system.jacobian(layout.unravel(x), frame),  # type: ignore[arg-type]
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
    return found, strangers


def _diagonal(frame: Frame, learned: Sequence[int]) -> np.ndarray:
    target = np.zeros((len(frame.eigenvalues),) * 2)
    chosen = list(learned)
    target[chosen, chosen] = prediction.learned_gain(frame.eigenvalues, frame.second_moments)[chosen]
    return target


def gradients(run: Evidence) -> list[float]:
    """Largest velocity at every fixed point, with idle heads that only satisfy (C3)."""
    frame = frame_of(run)
    return [
        max(float(np.abs(part).max()) for part in run.system.velocity(point, frame))
        for _, point in fixed_points(run, idle=True)
    ]


def landscape_losses(run: Evidence) -> list[float]:
    from .reduction import attention_map, loss_of_map

    frame = frame_of(run)
    points = (point for _, point in fixed_points(run, idle=True))
    return [float(loss_of_map(attention_map(point), frame.moments)) for point in points]


def theory_landscape(run: Evidence) -> list[float]:
    spec = run.system.spec
    lam, inverse = np.array(spec.eigenvalues), spec.inverse_length
    gain = 1 / (1 + (1 + lam.sum() / lam) * inverse)  # Eq. (29) with nothing of the frame in it
    return [lam.sum() - (lam * gain)[list(learned)].sum() for learned, _ in fixed_points(run)]


def curvature_split(run: Evidence) -> float:
    """Largest growth rate where there should be none, over the smallest where there should be one.

    None: at {1..m} with m a multiple of R, or at the end.  One: at every other fixed point.
    """
    spec = run.system.spec
    calm, wild = [], []
    for learned, point in fixed_points(run):
        m = len(learned)
        first = learned == tuple(range(m)) and (m % spec.rank == 0 or m == spec.stage_count)
        (calm if first else wild).append(growth_rate(run, point))
    return max(calm) / min(wild)


def growth_rates(run: Evidence) -> list[float]:
    return [growth_rate(run, point) for _, point in saddles(run)]


def theory_rates(run: Evidence) -> list[float]:
    spec = run.system.spec
    lam = np.array(spec.eigenvalues)
    a = lam**2 + spec.inverse_length * (lam + lam.sum()) * lam
    return [prediction.strict_saddle_rate(lam, a, learned) for learned, _ in saddles(run)]


def saddles(run: Evidence) -> list[tuple[tuple[int, ...], Any]]:
    """Fixed points that a small start does not visit."""
    return [(s, point) for s, point in fixed_points(run) if s != tuple(range(len(s)))]


def hunted(run: Evidence) -> list[int]:
    found, strangers = hunt_fixed_points(run)
    return [len(found), strangers + 1]
