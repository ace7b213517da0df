"""Points, states and frames are named tuples of arrays: pytrees to jax, plain tuples to everything else.

These helpers do for NumPy what jax's tree utilities do for jax, so that predictions need no jax.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np


@dataclass(frozen=True)
class TreeLayout:
    """How a flat vector folds back into a named tuple of arrays."""

    kind: type
    shapes: tuple[tuple[int, ...], ...]

    @cached_property
    def _pieces(self) -> list[tuple[slice, tuple[int, ...]]]:
        ends = list(accumulate((math.prod(shape) for shape in self.shapes), initial=0))
        return [(slice(a, b), shape) for a, b, shape in zip(ends, ends[1:], self.shapes, strict=False)]

    @property
    def size(self) -> int:
        return sum(math.prod(shape) for shape in self.shapes)

    def unravel(self, flat: Any) -> Any:
        """Inverse of `ravel`; a leading batch axis stays where it is."""
        lead = flat.shape[:-1]
        return self.kind(*(flat[..., piece].reshape(lead + shape) for piece, shape in self._pieces))


def layout_of(tree: Any) -> TreeLayout:
    return TreeLayout(type(tree), tuple(np.shape(leaf) for leaf in tree))


def ravel(tree: Any) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in tree])
