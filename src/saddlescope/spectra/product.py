"""The spectrum of one product scaling · B A, the form in which a LoRA adapter holds its change."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from .arrays import LARGEST_WEIGHT, numpy_of, stored_precision
from .factored import change_factors, largest, own_error, spectrum
from .matrix import Spectrum
from .rounding import rounding_error
from .top import Triplets

LARGEST = 1e140
"""Up to which squares of entries, and sums of many, are numbers."""

DRAWS, MARGIN = 4, 1.3
"""Draws of the rounding errors of a product's factors, and how far above the largest of them the floor is put: power
iteration stops up to 5% short, and where one huge weight dominates, its error may be 1.25 times what four draws
show."""


class ProductChange:
    """scaling · B A with B [m, r] and A [r, n] as stored; answers what a MatrixChange answers."""

    def __init__(self, b: np.ndarray, a: np.ndarray, scaling: float = 1.0):
        b, a = numpy_of(b), numpy_of(a)
        if b.ndim != 2 or a.ndim != 2 or b.shape[1] != a.shape[0]:
            raise ValueError(f"B A needs [m, r] and [r, n], got {b.shape} and {a.shape}")
        for name, values in (("A", a), ("B", b)):
            if not stored_precision(values.dtype):
                raise ValueError(f"{name} is stored as {values.dtype}, which is no float format known here")
            if not (np.abs(values.astype(np.float64)) <= LARGEST_WEIGHT).all():
                raise ValueError(f"{name} holds numbers that are not finite")
        sizes = [float(np.abs(values.astype(np.float64)).max(initial=0.0)) for values in (b, a)]
        if abs(scaling) * sizes[0] * max(1.0, sizes[1]) > LARGEST:
            raise ValueError(
                f"scaling {scaling:.3g} times B A, with entries up to {sizes[0]:.3g} and {sizes[1]:.3g}, "
                "is too large for numbers of 64 bits"
            )
        self.stored = b, a.T
        self.left, self.right = scaling * b.astype(np.float64), a.T.astype(np.float64)
        self.scaling = scaling
        self.shape = b.shape[0], a.shape[1]

    @cached_property
    def spectrum(self) -> Spectrum:
        values = spectrum(self.left, self.right)
        return Spectrum(values, float((values**2).sum()), len(values))

    @cached_property
    def floor(self) -> float:
        """Largest singular value that rounding of the stored factors alone gives the product."""
        rng = np.random.default_rng(0)
        found = [float(own_error(self.left, self.right))]
        for _ in range(DRAWS):
            left = self.left + self.scaling * rounding_error(self.stored[0], rng)
            right = self.right + rounding_error(self.stored[1], rng)
            found.append(MARGIN * float(largest(*change_factors(self.left, self.right, left, right), rng)))
        return max(found)

    @cached_property
    def rank_above_floor(self) -> int:
        return int((self.spectrum.singular_values > self.floor).sum())

    def triplets(self, rank: int) -> Triplets:
        """The best approximation of this rank, as left [m, k], values [k], right [n, k]."""
        (q, r), (other_q, other_r) = np.linalg.qr(self.left), np.linalg.qr(self.right)
        u, values, v = np.linalg.svd(r @ other_r.T)
        return Triplets((q @ u)[:, :rank], values[:rank], (other_q @ v.T)[:, :rank])
