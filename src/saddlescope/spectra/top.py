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
            # Each QR repeats the work on the triangle: it waits for as many new rows as make that a smaller part.
            if where.stop == m or sum(map(len, waiting)) >= (4 * n if n <= 1024 else n):
                triangle = np.linalg.qr(np.concatenate([triangle, *waiting]), mode="r")
                waiting = []
    return np.linalg.svd(triangle, compute_uv=False)


def top_triplets(
    sweep: Callable[[], Sweep],
    shape: tuple[int, int],
    enough: Callable[[np.ndarray], bool],
    *,
    first: int = 32,
    scaling: tuple[np.ndarray, np.ndarray] | None = None,
) -> Triplets | None:
    """The largest singular values by randomised subspace iteration (Halko, Martinsson, Tropp 2011, Algorithm 4.4).

    first: how many are looked for at first; their number is doubled until `enough` says so of them. None where that
    would be more than a quarter of all: then all cost no more.  scaling: factors of rows and columns, which act on the
    thin side of each product. Values are those of the matrix within a subspace: none exceeds the true one by more than
    rounding of the sweep (3e-8 of the largest in float32), and what they do not hold of the exact Frobenius norm bounds
    all that was left out.
    """
    least = min(shape)
    matrix = _Matrix(sweep, shape, scaling)
    count = min(first, least)
    found = np.zeros((shape[1], 0))
    rng = np.random.default_rng(0)
    while True:
        if count + SPARE > least // 4 and count != first:
            return None
        width = min(count + SPARE, least)
        block = np.concatenate([found, rng.normal(size=(shape[1], width - found.shape[1]))], 1)
        for _ in range(ROUNDS):
            block, _ = np.linalg.qr(block)
            image, _ = np.linalg.qr(matrix.times(block))
            block = matrix.transposed_times(image)
        block, _ = np.linalg.qr(block)
        left, values, right = np.linalg.svd(matrix.times(block), full_matrices=False)
        found = block @ right.T
        if count == least or enough(values[:count]):
            return Triplets(left[:, :count], values[:count], found[:, :count])
        count = min(2 * count, least)


class _Matrix:
    """Products of a swept, scaled matrix with thin blocks."""

    def __init__(
        self,
        sweep: Callable[[], Sweep],
        shape: tuple[int, int],
        scaling: tuple[np.ndarray, np.ndarray] | None,
    ):
        self.sweep, self.shape = sweep, shape
        row, column = scaling if scaling is not None else (np.ones(shape[0]), np.ones(shape[1]))
        self.row, self.column = row[:, None], column[:, None]

    def times(self, block: np.ndarray) -> np.ndarray:
        block = self.column * block
        image = np.empty((self.shape[0], block.shape[1]))
        for where, piece in self.sweep():
            image[where] = piece @ block.astype(piece.dtype)
        return self.row * image

    def transposed_times(self, image: np.ndarray) -> np.ndarray:
        image = self.row * image
        total = np.zeros((self.shape[1], image.shape[1]))
        for where, piece in self.sweep():
            total += piece.T @ image[where].astype(piece.dtype)
        return self.column * total
