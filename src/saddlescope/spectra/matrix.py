"""The spectrum of one matrix's change: all of it where the matrix is small, the top with a certified rest where it is
not.

A matrix comes in pieces of rows, so that one of any size (an embedding of gigabytes) is measured in bounded memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .arrays import BFLOAT16, LARGEST_WEIGHT, grid_of, stored_precision, ulp
from .ranks import entropy_rank, entropy_rank_bounds, stable_rank
from .rounding import Piece, Whitening, rounding_variance, whiten
from .top import Sweep, Triplets, all_singular_values, top_triplets

SMALL = 1024
"""Smaller side up to which all singular values are computed."""

PIECE = 1 << 21
"""Entries of a piece: 16 MB in float64."""

KEPT_BYTES = 640 << 20
"""Pieces of a matrix are kept between sweeps if they fit in here; else they are made again from what they come from."""

NEGLIGIBLE = 1e-4
"""Share of the energy outside the top singular values below which no more are looked for."""

UNSURE = 0.15
"""Share by which the energy of rounding errors may exceed what independence gives: where the change is about half a
unit in the last place, its two errors are not independent. Planted changes were seen to exceed it by 7% at most."""

Rows = Callable[[int, int], np.ndarray]
"""Rows start..stop of a stored matrix."""


@dataclass(frozen=True)
class Spectrum:
    """Singular values, descending: all `size` of them, or the top; `energy` is the sum of all squares, exact."""

    singular_values: np.ndarray
    energy: float
    size: int

    @property
    def complete(self) -> bool:
        return len(self.singular_values) == self.size

    @property
    def stable_rank(self) -> float:
        return float(stable_rank(self.singular_values, self.energy))

    @property
    def entropy_rank_bounds(self) -> tuple[float, float]:
        if self.complete:
            exact = float(entropy_rank(self.singular_values))
            return exact, exact
        return entropy_rank_bounds(self.singular_values, self.energy, self.size)

    def residual(self, rank: int) -> float:
        """‖A − its best approximation of this rank‖_F; of a top it is certified: exact norm minus captured energy."""
        if self.complete:
            return float(np.sqrt((self.singular_values[rank:] ** 2).sum()))
        return float(np.sqrt(max(self.energy - float((self.singular_values[:rank] ** 2).sum()), 0.0)))


class Summary(NamedTuple):
    """One sweep's findings.  grids: the formats on which the stored values lie, which may be coarser than their own."""

    energy: float
    base_energy: float
    unchanged: float
    grids: tuple[np.dtype, np.dtype]
    unit: float

    @property
    def relative_change(self) -> float:
        """‖W₁ − W₀‖_F / ‖W₀‖_F, infinite for a start from zero."""
        if not self.energy:
            return 0.0
        return float(np.sqrt(self.energy / self.base_energy)) if self.base_energy else float("inf")


def _finest(grids: set[np.dtype]) -> np.dtype:
    """The format that holds all of these: of the two 16-bit ones neither holds the other."""
    if not grids:
        return BFLOAT16
    finest = max(grids, key=lambda kind: kind.itemsize)
    return np.dtype(np.float32) if finest.itemsize == 2 and len(grids) > 1 else finest


class MatrixChange:
    """W₁ − W₀ of a matrix [m, n] whose two ends can be read by rows.

    exact_base: training started from the stored base, so only the tuned end was rounded.  exact: all singular values at
    any size.
    """

    def __init__(
        self, before: Rows, after: Rows, shape: tuple[int, int], *, exact_base: bool = False, exact: bool = False
    ):
        self.before, self.after, self.shape = before, after, (int(shape[0]), int(shape[1]))
        self.exact_base = exact_base
        self.whole = exact or min(shape) <= SMALL
        self._kept: list[Piece] | None = None

    @classmethod
    def of(cls, before: np.ndarray, after: np.ndarray, **options: bool) -> MatrixChange:
        """The change between two arrays."""
        if before.ndim != 2 or before.shape != after.shape:
            raise ValueError(f"two matrices of one shape are compared, got {before.shape} and {after.shape}")
        return cls(lambda a, b: before[a:b], lambda a, b: after[a:b], before.shape, **options)

    @cached_property
    def summary(self) -> Summary:
        """Norms, the share of entries that did not change, the grids; ValueError for what is no finite float."""
        grids: tuple[set, set] = (set(), set())
        energy = base_energy = largest = 0.0
        unchanged = 0
        for start, stop in self._ranges():
            ends = self.before(start, stop), self.after(start, stop)
            for name, values, found in zip(("base", "tuned"), ends, grids, strict=True):
                if not stored_precision(values.dtype):
                    raise ValueError(f"the {name} is stored as {values.dtype}, which is no float format known here")
                # Zeros lie on every grid, and do not say which.
                if values.any():
                    found.add(grid_of(values))
            first, second = (values.astype(np.float64) for values in ends)
            for name, values in (("base", first), ("tuned", second)):
                sound = np.abs(values) <= LARGEST_WEIGHT
                if not sound.all():
                    row, column = np.argwhere(~sound)[0]
                    raise ValueError(f"the {name} holds {values[row, column]} at row {start + row}, column {column}")
            largest = max(largest, float(np.abs(first).max()), float(np.abs(second).max()))
            second -= first
            energy += float(np.vdot(second, second))
            base_energy += float(np.vdot(first, first))
            unchanged += second.size - int(np.count_nonzero(second))
        finest = (_finest(grids[0]), _finest(grids[1]))
        unit = max(float(ulp(np.array([largest], kind))[0]) for kind in finest)
        return Summary(energy, base_energy, unchanged / (self.shape[0] * self.shape[1]), finest, unit)

    @cached_property
    def spectrum(self) -> Spectrum:
        """Of the change itself: all, or the top until what is left is negligible or below the floor."""
        if not self.summary.energy:
            values = np.zeros(min(self.shape))
        else:
            top = self._top()
            values = all_singular_values(self._plain, self.shape) if top is None else top.values
        return Spectrum(values, self.summary.energy, min(self.shape))

    def triplets(self, rank: int) -> Triplets:
        """The best approximation of this rank, as left [m, k], values [k], right [n, k]; values are those of
        `spectrum`."""
        top = self._top()
        if top is None:
            dense = np.concatenate([piece for _, piece in self._plain()]).astype(np.float64)
            left, values, turned = np.linalg.svd(dense, full_matrices=False)
            top = Triplets(left, values, turned.T)
        return Triplets(top.left[:, :rank], top.values[:rank], top.right[:, :rank])

    def _top(self) -> Triplets | None:
        """The largest; None where all are to be computed, or so many are above the floor that all cost no more."""
        if self.whole or 4 * self.rank_above_floor > min(self.shape):
            return None
        # No fewer than are above the floor, even where few of them hold nearly all energy.
        energy, least, floor = self.summary.energy, self.rank_above_floor, self.floor

        def enough(s: np.ndarray) -> bool:
            return len(s) >= least and (s[-1] < floor or energy - float((s**2).sum()) <= NEGLIGIBLE * energy)

        return top_triplets(self._plain, self.shape, enough, first=max(16, least + 4))

    @property
    def floor(self) -> float:
        """Singular value below which a direction, spread over all rows and columns, is hidden by rounding."""
        return self.whitening.floor

    @cached_property
    def whitening(self) -> Whitening:
        if not self.summary.energy:
            return Whitening(np.zeros(self.shape[0]), np.zeros(self.shape[1]), 0.0, 0.0, (0, 0), 0.0)
        found, unit = whiten(self.pieces, self.shape), self.summary.unit
        return found._replace(row=found.row / unit, floor=found.floor * unit, coarsest=found.coarsest * unit)

    @cached_property
    def _above(self) -> np.ndarray:
        """Singular values of the scaled change that no rounding reaches."""
        edge = self.whitening.edge
        if not edge:
            return np.zeros(0)
        if self.whole:
            values = all_singular_values(self._scaled, self.shape)
        else:
            scaling = self.whitening.row, self.whitening.column
            found = top_triplets(self._plain, self.shape, lambda s: s[-1] < edge, scaling=scaling)
            values = all_singular_values(self._scaled, self.shape) if found is None else found.values
        return values[values > edge]

    @property
    def outliers_dominate(self) -> bool:
        """Whether rounding of the coarsest row or column may be stronger than a direction that was found."""
        found = self.rank_above_floor
        return bool(found and self.spectrum.singular_values[found - 1] < self.whitening.coarsest)

    @property
    def rank_above_floor(self) -> int:
        """How many directions of the change cannot be rounding."""
        return len(self._above)

    @cached_property
    def hidden_at_least(self) -> int:
        """A number of further directions that must be there below the floor, if the change has more energy than errors.

        Each of them holds at most edge². Rounding errors hold one unit for each entry outside the directions that were
        found, within UNSURE of it and four standard deviations: the square of a difference of two even errors of
        variance v has the variance 1.4 v².
        """
        (m, n), edge, found = self.whitening.shape, self.whitening.edge, self.rank_above_floor
        if not edge:
            return 0
        energy = sum(float(np.vdot(piece, piece)) for _, piece in self._scaled())
        row, column = self.whitening.row * self.summary.unit, self.whitening.column
        squares = sum(
            float(((row[where, None] * np.sqrt(variance) * column) ** 4).sum()) for where, _, variance in self.pieces()
        )
        errors = (1 + UNSURE) * (m - found) * (n - found) + 4 * math.sqrt(1.4 * squares)
        proven = math.ceil(max(energy - float((self._above**2).sum()) - errors, 0.0) / edge**2)
        return min(proven, min(m, n) - found)

    @property
    def unchanged_inside(self) -> float:
        """Share of entries that are equal at both ends, among rows and columns in which something changed."""
        (m, n), size = self.whitening.shape, self.shape[0] * self.shape[1]
        return (self.summary.unchanged * size - (size - m * n)) / (m * n) if m * n else 0.0

    def pieces(self) -> Iterator[Piece]:
        """Rows, their change, and the variance of its rounding in units of the coarsest ulp of the matrix."""
        if self._kept is not None:
            yield from self._kept
            return
        _, _, _, grids, unit = self.summary
        # The difference of two 16-bit numbers fits into a float32 but for digits far below their own rounding.
        narrow = max(grid.itemsize for grid in grids) == 2 and 1e-30 < unit < 1e30
        kind = np.dtype(np.float32 if narrow else np.float64)
        fits = self.shape[0] * self.shape[1] * (4 + kind.itemsize) <= KEPT_BYTES
        made: list[Piece] = []
        for start, stop in self._ranges():
            before, after = (
                rows(start, stop).astype(g) for rows, g in zip((self.before, self.after), grids, strict=True)
            )
            change = after.astype(kind) - before.astype(kind)
            variance = rounding_variance(before, after, self.exact_base) / unit**2
            # An entry of nothing but a subnormal must not make its row's variance vanish.
            piece = (slice(start, stop), change, np.maximum(variance, 1e-30).astype(np.float32))
            if fits:
                made.append(piece)
            yield piece
        if fits:
            self._kept = made

    def release(self) -> None:
        """Forget the pieces; what was found stays, and a later question reads them again."""
        self._kept = None

    def _plain(self) -> Sweep:
        for where, change, _ in self.pieces():
            yield where, change

    def _scaled(self) -> Sweep:
        row, column, *_ = self.whitening
        for where, change, _ in self.pieces():
            yield where, row[where, None].astype(change.dtype) * change * column.astype(change.dtype)

    def _ranges(self) -> Iterator[tuple[int, int]]:
        step = max(1, PIECE // max(self.shape[1], 1))
        for start in range(0, self.shape[0], step):
            yield start, min(start + step, self.shape[0])
