"""Heads of attention as two products: what a head looks at (QK) and what it moves (OV), and how both changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .arrays import numpy_of
from .factored import change_factors, gram_spectrum, largest, norm, own_error, spectrum
from .layouts import HeadWeights
from .product import DRAWS, MARGIN
from .ranks import stable_rank
from .rounding import rounding_error

CIRCUITS = ("QK", "OV")

WIDE_BYTES = 64 << 20
"""Of the four weights of heads that are widened to 64 bits at a time; measuring takes some ten times as much."""


class Product(NamedTuple):
    """left @ rightᵀ for each head: [heads, d, r] both."""

    left: Any
    right: Any


class HeadChange(NamedTuple):
    """Change of one circuit of one layer, [heads] or [heads, modes].

    floor: largest singular value that rounding of the stored weights alone gives this product.  rank: how many are
    above. random_stable_rank: of a random change of the weights with the same norms.
    """

    circuit: str
    singular_values: np.ndarray
    relative_change: np.ndarray
    floor: np.ndarray
    random_stable_rank: np.ndarray

    @property
    def rank(self) -> np.ndarray:
        return (self.singular_values > self.floor[:, None]).sum(-1)

    @property
    def stable_rank(self) -> np.ndarray:
        return stable_rank(self.singular_values)


def circuits(weights: HeadWeights) -> dict[str, Product]:
    """QK = W_Q W_Kᵀ and OV = W_V W_O of every query head; heads that share keys and values share their factors."""
    query, key, value, output = weights
    groups = np.arange(query.shape[0]) // (query.shape[0] // key.shape[0])
    return {"QK": Product(query, key[groups]), "OV": Product(value[groups], output.swapaxes(-1, -2))}


def widened(weights: HeadWeights) -> HeadWeights:
    """As NumPy arrays of 64 bits, in which products of stored numbers are formed."""
    return HeadWeights(*(numpy_of(array).astype(np.float64) for array in weights))


def few_heads(*ends: HeadWeights) -> Iterator[tuple[HeadWeights, ...]]:
    """The same few heads of every end at a time, so that wide models fit: keys and values with all queries that
    read them."""
    first = ends[0]
    shared = first.query.shape[0] // first.key.shape[0]
    one = sum(array.shape[-1] * array.shape[-2] * 8 for array in first)
    count = max(1, WIDE_BYTES // (one * shared))
    for start in range(0, first.key.shape[0], count):
        own, queries = slice(start, start + count), slice(start * shared, (start + count) * shared)
        yield tuple(HeadWeights(w.query[queries], w.key[own], w.value[own], w.output[queries]) for w in ends)


def changed_spectra(before: HeadWeights, after: HeadWeights) -> dict[str, Any]:
    """Singular values [heads, modes] of each circuit's change, on the device of the arrays.

    NumPy arrays go through QR, to the last digits; torch and jax arrays through Gram matrices (see `gram_spectrum`).
    """
    find = spectrum if isinstance(before.query, np.ndarray) else gram_spectrum
    start, end = circuits(before), circuits(after)
    return {name: find(*change_factors(*start[name], *end[name])) for name in CIRCUITS}


def head_changes(
    before: HeadWeights, after: HeadWeights, *, exact_base: bool = False, seed: int = 0
) -> Iterator[HeadChange]:
    """Both circuits' changes with their rounding floors and random baselines, from arrays as they are stored."""
    rng = np.random.default_rng(seed)
    wide_before, wide_after = widened(before), widened(after)
    chance = HeadWeights(*(random_change(a, b, rng) for a, b in zip(wide_before, wide_after, strict=True)))
    start, end, random = circuits(wide_before), circuits(wide_after), circuits(chance)
    factors = {name: change_factors(*start[name], *end[name]) for name in CIRCUITS}
    floors = {name: own_error(*factors[name]) for name in CIRCUITS}
    ends = [(end, wide_after, after), *([] if exact_base else [(start, wide_before, before)])]
    for _ in range(DRAWS):
        # Errors change the products at both ends; both changes side by side are the change's own error.
        parts: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {name: [] for name in CIRCUITS}
        for products, wide, stored in ends:
            rounded = HeadWeights(*(w + rounding_error(s, rng) for w, s in zip(wide, stored, strict=True)))
            for name, product in circuits(rounded).items():
                parts[name].append(change_factors(*products[name], *product))
        for name, found in parts.items():
            left, right = (np.concatenate(side, -1) for side in zip(*found, strict=True))
            floors[name] = np.maximum(floors[name], MARGIN * largest(left, right, rng))
    for name in CIRCUITS:
        values = spectrum(*factors[name])
        size = norm(*start[name])
        change = np.sqrt((values**2).sum(-1))
        relative = np.divide(change, size, out=np.full_like(change, np.inf), where=size > 0)
        by_chance = stable_rank(gram_spectrum(*change_factors(*start[name], *random[name])))
        yield HeadChange(name, values, np.where(change > 0, relative, 0.0), floors[name], by_chance)


def random_change(before: np.ndarray, after: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """`before` with a Gaussian change that has, matrix by matrix, the norm of the true one."""
    change = np.linalg.norm(after - before, axis=(-2, -1), keepdims=True)
    draw = rng.normal(size=before.shape)
    return before + draw * (change / np.linalg.norm(draw, axis=(-2, -1), keepdims=True))
