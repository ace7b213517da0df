"""Roots of one variable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scipy.optimize import brentq


def root_between(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function whose sign differs at both ends is zero, to rounding of the larger end."""
    found: Any = brentq(function, low, high, xtol=1e-13 * max(1.0, abs(high)))
    return float(found)
