"""The exactly reduced state and how it moves."""

from __future__ import annotations

from typing import Any

from saddlescope import source

from .data import State, Weights


def reduce(weights: Weights) -> State:
    return State(weights.u**2)


@source("nobody2026", "Eq. (2)")
def velocity(state: State, targets: Any) -> State:
    """dp_i/dt = 2 p_i (s_i − p_i), from du/dt = −dL/du."""
    return State(2 * state.p * (targets - state.p))


def descend(state: State, targets: Any, learning_rate: Any) -> State:
    """The image of u ← u − η dL/du."""
    return State(state.p * (1 - learning_rate * (state.p - targets)) ** 2)
