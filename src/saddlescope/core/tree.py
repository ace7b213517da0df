"""Points, states and frames are named tuples of arrays: pytrees to jax, plain tuples to everything else.

These helpers do for NumPy what jax's tree utilities do for jax, so that predictions need no jax.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np

T = TypeVar("T")


class Layout(NamedTuple):
    """How a flat vector folds back into a named tuple of arrays."""

    kind: type
    shapes: tuple[tuple[int, ...], ...]

    @property
    def size(self) -> int:
        return sum(int(np.prod(shape)) for shape in self.shapes)

    def unravel(self, flat: Any) -> Any:
        """Inverse of `ravel`; a leading batch axis stays where it is."""
        parts, start = [], 0
        for shape in self.shapes:
            stop = start + int(np.prod(shape))
            parts.append(flat[..., start:stop].reshape(flat.shape[:-1] + shape))
            start = stop
        return self.kind(*parts)


def layout_of(tree: Any) -> Layout:
    return Layout(type(tree), tuple(np.shape(leaf) for leaf in tree))


def ravel(tree: Any) -> np.ndarray:
    return np.concatenate([np.reshape(np.asarray(leaf), -1) for leaf in tree])


def map_leaves(function: Callable, tree: T) -> T:
    return type(tree)(*(function(leaf) for leaf in tree))  # type: ignore[call-arg]
