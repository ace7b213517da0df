"""Compiled forms of a system's functions: systems with equal code share them, so a second call compiles nothing."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, wraps
from typing import Any

import jax
import jax.numpy as jnp

from saddlescope.core import precision  # noqa: F401  (64 bits before the first trace)
from saddlescope.core.system import System
from saddlescope.core.tree import TreeLayout


def flatten(tree: Any) -> jax.Array:
    return jnp.concatenate([jnp.reshape(leaf, -1) for leaf in tree])


@dataclass(frozen=True)
class _Code:
    """A system as a key: equal where its code is."""

    key: Hashable
    system: System = field(compare=False)


def by_code(make: Callable[..., Any]) -> Callable[..., Any]:
    """Cache make(system, ...) for all systems with the same code."""
    made = cache(lambda code, *others: make(code.system, *others))
    return wraps(make)(lambda system, *others: made(_Code(system.flow.code, system), *others))


@by_code
def flat_velocity(system: System, layout: TreeLayout):
    """(flat state, frame) -> flat velocity."""
    return jax.jit(lambda flat, frame: flatten(system.flow.velocity(layout.unravel(flat), frame)))


@by_code
def flat_measure(system: System, layout: TreeLayout):
    """(flat state, frame) -> observables."""

    def measure(flat, frame):
        return system.measure(system.view(layout.unravel(flat), frame), frame)

    return jax.jit(measure)


@by_code
def flat_conserved(system: System, layout: TreeLayout):
    """(flat state, frame) -> what the flow keeps."""
    return jax.jit(lambda flat, frame: system.flow.conserved(layout.unravel(flat), frame))


Signal = tuple[str, tuple[int, ...]]
"""A number that a mark looks at: an observable and the place in it."""


def split_signals(signals: Sequence[Signal]) -> tuple[tuple[str, ...], tuple[tuple[int, ...], ...]]:
    """Names, which code is compiled for, and places, which are data: other stages of another seed compile nothing."""
    return tuple(name for name, _ in signals), tuple(where for _, where in signals)


def read_signals(observables: Mapping[str, Any], names: tuple[str, ...], places: Any) -> jax.Array:
    return jnp.stack([observables[name][tuple(where)] for name, where in zip(names, places, strict=True)])


@by_code
def flat_readings(system: System, layout: TreeLayout, names: tuple[str, ...]):
    """(flat state, frame, places) -> the numbers that marks look at; other observables are not computed."""

    def read(flat, frame, places):
        observables = system.measure(system.view(layout.unravel(flat), frame), frame)
        return read_signals(observables, names, places)

    return jax.jit(read)
