"""What moves, what does not, and how a start is drawn: with NumPy, so that all faces share it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .spec import SquaresSpec


class Weights(NamedTuple):
    u: Any


class State(NamedTuple):
    """p = u²: the reduced state; and, as the frame, the targets s."""

    p: Any


def initial_weights(spec: SquaresSpec, seed: int) -> Weights:
    """u_i = ε exp(0.3 z_i), z standard normal."""
    rng = np.random.default_rng(seed)
    return Weights(spec.init_scale * np.exp(0.3 * rng.normal(size=len(spec.targets))))
