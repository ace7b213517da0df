"""Weights with a change of known rank, stored in a float format: what the rank above the floor is tried on."""

from __future__ import annotations

from typing import NamedTuple

import ml_dtypes
import numpy as np

FORMATS = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16, "float32": np.float32}
KINDS = ("gaussian", "student 3", "student 2", "outlier columns", "outlier rows", "outlier both")


class Planted(NamedTuple):
    """values: the planted singular values, descending."""

    before: np.ndarray
    after: np.ndarray
    values: np.ndarray
    rank: int
    words: str


def planted(rng, *, shapes, ranks=(1, 4, 8, 32), formats=tuple(FORMATS), sizes=(3e-3, 3e-2), kinds=KINDS) -> Planted:
    """One draw: shape, rank, format, kind and relative size at random; both ends are rounded from exact weights."""
    m, n = shapes[rng.integers(len(shapes))]
    rank, kind, name = int(rng.choice(ranks)), str(rng.choice(kinds)), str(rng.choice(formats))
    size = float(np.exp(rng.uniform(*np.log(sizes))))
    if kind.startswith("student"):
        weights = rng.standard_t(float(kind.split()[1]), size=(m, n))
    else:
        weights = rng.normal(size=(m, n))
    if kind in ("outlier columns", "outlier both"):
        weights[:, rng.choice(n, max(1, n // 256), replace=False)] *= rng.choice([10, 50])
    if kind in ("outlier rows", "outlier both"):
        weights[rng.choice(m, max(1, m // 256), replace=False)] *= rng.choice([10, 50])
    weights *= 0.02
    left, right = (np.linalg.qr(rng.normal(size=(side, rank)))[0] for side in (m, n))
    values = np.sort(rng.uniform(0.5, 1.5, rank))[::-1]
    values *= size * np.linalg.norm(weights) / np.linalg.norm(values)
    before, after = (array.astype(FORMATS[name]) for array in (weights, weights + (left * values) @ right.T))
    return Planted(before, after, values, rank, f"{m}x{n} {kind} {name} rank {rank} size {size:.1e}")


def plain(rng, shape: tuple[int, int], rank: int, size: float) -> Planted:
    """One draw of a Gaussian matrix in bfloat16."""
    given = {"formats": ("bfloat16",), "kinds": ("gaussian",)}
    return planted(rng, shapes=(shape,), ranks=(rank,), sizes=(size, size), **given)
