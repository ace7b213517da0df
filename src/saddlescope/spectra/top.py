"""Singular values and vectors of a matrix that comes in pieces of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

Sweep = Iterator[tuple[slice, np.ndarray]]
"""Rows of a matrix and where they stand in it, from the first to the last."""

SPARE = 8
"""Vectors beyond those asked for: they take up what the iteration has not yet turned away from the top."""

ROUNDS = 3


class Triplets(NamedTuple):
    """left [m, k], values [k] descending, right [n, k]."""

    left: np.ndarray
    values: np.ndarray
    right: np.ndarray


def all_singular_values(sweep: Callable[[], Sweep], shape: tuple[int, int]) -> np.ndarray:
    """By QR of the tall side, a piece at a time, and an SVD of what is left."""
    m, n = shape
    if m < n:
        wide = np.concatenate([piece for _, piece in sweep()]).astype(np.float64)
        triangle = np.linalg.qr(wide.T, mode="r")
    else:
        triangle = np.zeros((0, n))
        waiting: list[np.ndarray] = []
        for where, piece in sweep():
            waiting.append(piece.astype(np.float64))
            # Each QR repeats the work on the triangle: it waits for as many new rows as make that a small part.
            if where.stop == m or sum(map(len, waiting)) >= 4 * n:
                triangle = np.linalg.qr(np.concatenate([triangle, *waiting]), mode="r")
                waiting = []
    return np.linalg.svd(triangle, compute_uv=False)


def top_triplets(
    sweep: Callable[[], Sweep],
    shape: tuple[int, int],
    enough: Callable[[np.ndarray], bool],
    *,
    first: int = 16,
    rounds: int = ROUNDS,
) -> Triplets:
    """The largest singular values by randomised subspace iteration (Halko, Martinsson, Tropp 2011, Algorithm 4.4).

    The number of values is doubled until `enough` says so of them; beyond a quarter of all, all are computed instead.
    Values are those of the matrix within a subspace, so none exceeds the true one, and what they do not hold of the
    exact Frobenius norm bounds all that was left out.
    """
    m, n = shape
    count = min(first, min(shape))
    found = np.zeros((n, 0))
    rng = np.random.default_rng(0)
    while True:
        if count + SPARE > min(shape) // 4 and count != first:
            return _dense(sweep)
        width = min(count + SPARE, min(shape))
        block = np.concatenate([found, rng.normal(size=(n, width - found.shape[1]))], 1)
        for _ in range(rounds):
            block, _ = np.linalg.qr(block)
            image, _ = np.linalg.qr(_times(sweep(), block, m))
            block = _transposed_times(sweep(), image, n)
        block, _ = np.linalg.qr(block)
        left, values, right = np.linalg.svd(_times(sweep(), block, m), full_matrices=False)
        found = block @ right.T
        if count == min(shape) or enough(values[:count]):
            return Triplets(left[:, :count], values[:count], found[:, :count])
        count = min(2 * count, min(shape))


def _dense(sweep: Callable[[], Sweep]) -> Triplets:
    whole = np.concatenate([piece for _, piece in sweep()]).astype(np.float64)
    left, values, right = np.linalg.svd(whole, full_matrices=False)
    return Triplets(left, values, right.T)


def _times(sweep: Sweep, block: np.ndarray, m: int) -> np.ndarray:
    image = np.empty((m, block.shape[1]))
    for where, piece in sweep:
        image[where] = piece @ block.astype(piece.dtype)
    return image


def _transposed_times(sweep: Sweep, image: np.ndarray, n: int) -> np.ndarray:
    total = np.zeros((n, image.shape[1]))
    for where, piece in sweep:
        total += piece.T @ image[where].astype(piece.dtype)
    return total
