"""The network and its loss, in operations that NumPy and jax share."""

from __future__ import annotations

from typing import Any

from saddlescope import source

from .data import Weights


@source("nobody2026", "Eq. (1)")
def loss(weights: Weights, targets: Any) -> Any:
    """L(u) = 1/4 Σ (u_i² − s_i)²."""
    return ((weights.u**2 - targets) ** 2).sum() / 4
