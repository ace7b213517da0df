"""The attention head of gradual_rank written out in NumPy, apart from the package: for comparison and for tests."""

from __future__ import annotations

import numpy as np


def head(p: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Eq. (1) of boix2023 with diagonal weights, for tokens x (samples, tokens, dim)."""
    return _mixed(p, x)[1] * np.split(p, 2)[1]


def force(p: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Minus the gradient of the mean squared error over 2, derived by hand."""
    vo = np.split(p, 2)[1]
    weights, mixed = _mixed(p, x)
    rest = (y - mixed * vo) / y.size
    pull = np.einsum("aid,d,ajd->aij", rest, vo, x)
    pull = weights * (pull - (weights * pull).sum(axis=-1, keepdims=True))
    return np.r_[np.einsum("aij,aid,ajd->d", pull, x, x), (rest * mixed).sum(axis=(0, 1))]


def _mixed(p: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Attention weights, and the tokens that they mix."""
    scores = np.einsum("aid,d,ajd->aij", x, np.split(p, 2)[0], x)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights, np.einsum("aij,ajd->aid", weights, x)
