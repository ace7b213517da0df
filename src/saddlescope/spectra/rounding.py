"""What rounding alone puts into the spectrum of W₁ − W₀, and which singular values rise above it.

Storing a weight rounds it by an error that is spread evenly over one unit in the last place. The errors of both ends
add a full-rank matrix to the change, whose entries have the variance V = (ulp₀² + ulp₁²)/12. Rows and columns of large
weights are rounded more coarsely, so V is first made flat: with the Sinkhorn scalings r and q every row and column of
r V q has mean 1, and √r dW √q has the rank of dW. Its noise then ends at √m + √n, up to two corrections:

- the largest singular value of an m x n noise matrix fluctuates by the Tracy-Widom law (Johnstone 2001, for β = 1);
- a few entries may hold most of their row's and column's variance (a single huge weight). Their errors are drawn, as a
  sparse matrix with largest singular value θ; if its vectors leave energies a and b to the rest of their rows and
  columns, the whole matrix has a singular value √((θ² + a)(θ² + b))/θ (Benaych-Georges and Nadakuditi 2012).

The change itself was computed before it was added, with an error of its own: one rounding where 16-bit weights are
changed by wider arithmetic, the errors of a sum where arithmetic is as coarse as storage. It counts only for a change
nearly as large as the weights.

Assumed: errors of different entries, and of the two ends, are independent and even. Where the change is far below one
ulp most entries do not change at all; the noise is then smaller than assumed, and the floor too high, not too low.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import ml_dtypes
import numpy as np

from .arrays import ulp

TRACY_WIDOM = 4.4
"""Its 99.99% point (β = 1): a model has hundreds of matrices, and none should gain a direction by chance."""

HEAVY = 0.02
"""Share of the variance of the shorter of row and column above which an entry counts as heavy."""

DRAWS = 64
"""Of the heavy entries' errors."""

MARGIN = 1.05
"""Over the largest of these draws, beyond which one more draw would come once in 65 times. Over 1400 matrices of
Student-t entries with 1.5 to 3 degrees of freedom the true noise passed the largest draw by 4% at most."""

COMPUTED_WIDER, COMPUTED_ALIKE = 1, 32
"""Squared ulps of the change that computing it may add. A product of r terms in its own precision was seen to add r/3
to r/2: 32 covers the merging of adapters up to r = 64."""

SWEEPS = 12
EVEN = 1e-3
"""Largest deviation of a row's or column's mean variance from 1; the edge moves by half of it."""

Piece = tuple[slice, np.ndarray, np.ndarray]
"""Rows, and of these rows the change and the variance of its rounding."""


class Whitening(NamedTuple):
    """Scalings that make rounding errors even, and where their spectrum ends.

    row, column: factors √r [m], √q [n] of the change; 0 for rows and columns in which nothing changed.
    edge: singular values of the scaled change above it are no rounding.  floor: the same in units of the change, for a
    direction spread over all rows and columns.  shape: rows and columns that changed.  coarsest: norm of the errors of
    the coarsest row or column, a singular value that rounding may have by itself.
    """

    row: np.ndarray
    column: np.ndarray
    edge: float
    floor: float
    shape: tuple[int, int]
    coarsest: float


def rounding_variance(before: np.ndarray, after: np.ndarray, exact_base: bool = False) -> np.ndarray:
    """Variance of the rounding error of after − before, entry by entry.

    exact_base: training started from the stored `before`, which then has no error.
    """
    total = ulp(after)
    total *= total
    if not exact_base:
        own = ulp(before)
        total += own * own
    most = float(ml_dtypes.finfo(after.dtype).max)
    change = np.clip(after.astype(np.float64) - before.astype(np.float64), -most, most)
    own = ulp(change.astype(after.dtype))
    total += (COMPUTED_WIDER if after.dtype.itemsize == 2 else COMPUTED_ALIKE) * own * own
    total /= 12
    return total


def rounding_error(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One draw of the error that storing `values` made."""
    return ulp(values) * rng.uniform(-0.5, 0.5, size=values.shape)


def whiten(pieces: Callable[[], Iterable[Piece]], shape: tuple[int, int]) -> Whitening:
    """The scalings for a matrix that comes in pieces of rows; `pieces` is called for every sweep.

    Rows and columns that did not change at all (unused words of an embedding) hold no rounding errors, and are left
    out.
    """
    rows, columns = np.zeros(shape[0], bool), np.zeros(shape[1], bool)
    for where, change, _ in pieces():
        changed = change != 0
        rows[where] = changed.any(1)
        columns |= changed.any(0)
    m, n = int(rows.sum()), int(columns.sum())
    if not m:
        return Whitening(np.zeros(shape[0]), np.zeros(shape[1]), 0.0, 0.0, (0, 0), 0.0)

    r, q = rows.astype(float), columns.astype(float)
    of_columns, most = np.zeros(shape[1]), 0.0
    for _, _, variance in pieces():
        of_columns += variance.sum(0)
        most = max(most, float(variance.sum(1).max()))
    coarsest = float(np.sqrt(max(most, float(of_columns.max()))))
    for _ in range(SWEEPS):
        column_sums = np.zeros(shape[1])
        uneven = 0.0
        for where, _, variance in pieces():
            # Rows are set first, from the columns of the sweep before; what they are off by then is what is left to do.
            means = variance @ q / n
            inside = rows[where]
            uneven = max(uneven, float(np.abs(r[where] * means - 1)[inside].max(initial=0.0)))
            r[where] = np.divide(1.0, means, out=np.zeros(len(means)), where=inside)
            column_sums += r[where] @ variance
        q = np.divide(m, column_sums, out=np.zeros(shape[1]), where=columns)
        if uneven < EVEN:
            break
    edge = max(noise_edge(m, n), _edge_by_few_entries(pieces(), r, q, m, n))
    spread = np.sqrt(r.sum() / m * q.sum() / n)
    return Whitening(np.sqrt(r), np.sqrt(q), edge, float(edge / spread), (m, n), coarsest)


def noise_edge(m: int, n: int) -> float:
    """Where singular values of an m x n matrix of independent errors of variance 1 end."""
    a, b = np.sqrt(m), np.sqrt(n)
    return float(np.sqrt((a + b) ** 2 + TRACY_WIDOM * (a + b) * (1 / a + 1 / b) ** (1 / 3)))


def _edge_by_few_entries(pieces: Iterable[Piece], r: np.ndarray, q: np.ndarray, m: int, n: int) -> float:
    """Where entries that hold a large part of their row's or column's variance push the edge, in nearly all draws."""
    found: list[tuple[np.ndarray, ...]] = []
    for where, _, variance in pieces:
        even = r[where, None] * variance * q
        row, column = np.nonzero(even > HEAVY * min(m, n))
        found.append((row + where.start, column, even[row, column]))
    row, column, variance = (np.concatenate(part) for part in zip(*found, strict=True))
    if not len(row):
        return 0.0
    rows, row = np.unique(row, return_inverse=True)
    columns, column = np.unique(column, return_inverse=True)
    rest_row = n - np.bincount(row, variance)  # variance of a row's other entries
    rest_column = m - np.bincount(column, variance)
    rng = np.random.default_rng(0)
    edges = []
    for _ in range(DRAWS):
        errors = np.sqrt(6 * variance) * (rng.uniform(size=len(row)) - rng.uniform(size=len(row)))
        left, value, right = _top_of_sparse(row, column, errors, len(rows), len(columns), rng)
        a, b = float(left**2 @ rest_row), float(right**2 @ rest_column)
        edges.append(np.sqrt((value**2 + a) * (value**2 + b)) / value if value**4 > a * b else 0.0)
    return MARGIN * max(*edges, noise_edge(m, n))


def _top_of_sparse(row, column, entries, m: int, n: int, rng) -> tuple[np.ndarray, float, np.ndarray]:
    """The largest singular value of a sparse matrix and its vectors, by power iteration."""
    right = rng.normal(size=n)
    for _ in range(30):
        left = np.bincount(row, entries * right[column], m)
        left /= np.linalg.norm(left) or 1.0
        right = np.bincount(column, entries * left[row], n)
        value = float(np.linalg.norm(right))
        right /= value or 1.0
    return left, value, right
