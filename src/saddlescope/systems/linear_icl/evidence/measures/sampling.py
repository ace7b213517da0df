"""Formulas about averages over data, against data."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from saddlescope.core.run import Run

from ...data import PopulationMoments, Weights
from .common import frame_of, levels, theory_levels, theory_of


def sampled_moments(run: Run, lengths: Mapping[int, float], count: int) -> np.ndarray:
    """Diagonal of E(Λ̂²) by sampling `count` contexts of each length; lengths: with their probabilities."""
    spec = run.system.spec
    rng = np.random.default_rng(9)
    total = np.zeros(spec.dim)
    for length, share in lengths.items():
        x = rng.standard_normal((count, length, spec.dim)) * np.sqrt(spec.eigenvalues)
        covariance = x.swapaxes(1, 2) @ x / length
        total += share * (covariance**2).sum(-1).mean(0)
    return total


def of_one_length(run: Run) -> np.ndarray:
    return sampled_moments(run, {run.system.spec.context_length: 1.0}, 40_000)


def of_all_lengths(run: Run) -> np.ndarray:
    """Lengths 1..N, all equally likely."""
    longest = run.system.spec.context_length
    return sampled_moments(run, {length: 1 / longest for length in range(1, longest + 1)}, 4000)


def of_two_lengths(run: Run) -> np.ndarray:
    """Two lengths only, mixed so that E(1/N) is what it is for 1..N."""
    short, long = 4, 31
    share = (run.system.spec.inverse_length - 1 / long) / (1 / short - 1 / long)
    return sampled_moments(run, {short: share, long: 1 - share}, 60_000)


def gradient_gap(run: Run) -> float:
    """Mean square distance of the flow of a data set's loss from the printed Eq. (24), at weights of order one.

    Both are projected on the weights that Eq. (24) moves; relative to the latter.
    """
    from ...reduction import velocity

    theory, frame = theory_of(run), frame_of(run)
    whole = run.system.training.random_weights(run.seed)
    D = len(theory.eigenvalues)
    value, key = whole.value.copy(), whole.key.copy()
    value[:, :D], key[..., D] = 0.0, 0.0
    found = velocity(Weights(value, key, whole.query), frame.moments)
    lam = theory.eigenvalues
    moments = PopulationMoments(lam.sum(), np.diag(lam**2), theory.second, lam)
    printed = velocity(Weights(value[:, D:], key[..., :D], whole.query), moments)
    pairs = ((found.value[:, D:], printed.value), (found.key[..., :D], printed.key), (found.query, printed.query))
    return sum(((a - b) ** 2).sum() for a, b in pairs) / sum((b**2).sum() for _, b in pairs)


def stray_levels(run: Run) -> list[float]:
    """Distance of each conspicuous plateau of a data set from Eq. (5), over tr Λ."""
    return list(np.abs(np.array(levels(run)) - theory_levels(run)) / theory_of(run).eigenvalues.sum())


def pull_on_zero_blocks(run: Run) -> float:
    """Mean square velocity of the blocks that start at zero, over that of all weights, at the start."""
    start = run.system.start(run.seed)
    value, key, query = run.system.flow.velocity(start.point, start.frame)
    blocks = [value[:, :-1], key[..., query.shape[-1] :]]
    return sum((part**2).sum() for part in blocks) / sum((part**2).sum() for part in (value, key, query))
