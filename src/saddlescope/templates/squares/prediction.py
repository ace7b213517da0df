"""Closed forms: when each coordinate is learned, and what the loss is after it."""

from __future__ import annotations

import numpy as np

from saddlescope import source


@source("nobody2026", "Eq. (3)")
def drop_times(start: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """When p_i passes s_i/2: t_i = log(s_i/p_i(0) − 1) / (2 s_i)."""
    return np.log(targets / start - 1) / (2 * targets)


def printed_times(start: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Eq. (3) as the paper prints it, without the factor 2."""
    return 2 * drop_times(start, targets)


def plateau(targets: np.ndarray, learned: np.ndarray) -> np.ndarray:
    """p on the plateau where exactly these coordinates are learned."""
    return np.where(np.isin(np.arange(len(targets)), learned), targets, 0.0)
