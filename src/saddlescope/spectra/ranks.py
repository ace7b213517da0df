"""How many directions a spectrum has: every definition by its own name, since they differ by orders of magnitude.

`singular_values` are descending along the last axis; leading axes (heads, times) are kept. `energy` is the sum of all
squares, for a spectrum of which only the top is known.
"""

from __future__ import annotations

import numpy as np


def stable_rank(singular_values: np.ndarray, energy: np.ndarray | float | None = None) -> np.ndarray:
    """‖A‖_F² / ‖A‖₂², of descending `singular_values`; zero for a zero matrix.

    Leading axes are kept. energy: the sum of all squares, where only the top is given.
    """
    s, total = _with_energy(singular_values, energy)
    top = s[..., 0] ** 2 if s.shape[-1] else np.zeros(s.shape[:-1])
    return np.divide(total, top, out=np.zeros_like(total), where=top > 0)


def entropy_rank(singular_values: np.ndarray) -> np.ndarray:
    """exp of the entropy of the shares sᵢ²/Σs² (Roy and Vetterli's effective rank of the squares)."""
    s, total = _with_energy(singular_values, None)
    shares = np.divide(s**2, total[..., None], out=np.zeros_like(s), where=total[..., None] > 0)
    entropy = -(shares * np.log(np.where(shares > 0, shares, 1.0))).sum(-1)
    return np.where(total > 0, np.exp(entropy), 0.0)


def numerical_rank(singular_values: np.ndarray, relative: float) -> np.ndarray:
    """How many exceed `relative` times the largest."""
    s = np.asarray(singular_values)
    return ((s > relative * s[..., :1]) & (s > 0)).sum(-1)


def energy_rank(singular_values: np.ndarray, share: float, energy: np.ndarray | float | None = None) -> np.ndarray:
    """How many hold `share` of the summed squares; one more than are known where those do not suffice."""
    if not 0 < share <= 1:
        raise ValueError(f"`share` must be above 0 and at most 1, got {share}")
    s, total = _with_energy(singular_values, energy)
    held = np.cumsum(s**2, -1)
    # A sum of squares in another order may differ in its last digits.
    missing = held < share * total[..., None] * (1 - 1e-12)
    return np.where(total > 0, missing.sum(-1) + 1, 0)


def entropy_rank_bounds(singular_values: np.ndarray, energy: float, size: int) -> tuple[float, float]:
    """Least and largest entropy rank of a spectrum whose top is known.

    The rest of the energy lies in at most `size` − k values of at most s_k: entropy is least where they are as large as
    that allows, and largest where they are equal.
    """
    s = np.asarray(singular_values, float)
    if energy <= 0 or not len(s):
        return 0.0, 0.0
    rest, others = max(energy - float((s**2).sum()), 0.0) / energy, size - len(s)
    shares = s[s > 0] ** 2 / energy
    known = -float((shares * np.log(shares)).sum())
    if rest <= 0 or others <= 0:
        return float(np.exp(known)), float(np.exp(known))
    largest = rest * np.log(others / rest)
    least = min(-rest * np.log(min(float(s[-1] ** 2) / energy, 1.0)) if s[-1] > 0 else largest, largest)
    return float(np.exp(known + least)), float(np.exp(known + largest))


def _with_energy(singular_values: np.ndarray, energy: np.ndarray | float | None) -> tuple[np.ndarray, np.ndarray]:
    s = np.asarray(singular_values, float)
    return s, np.asarray((s**2).sum(-1) if energy is None else energy, float)
