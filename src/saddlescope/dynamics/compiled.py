"""Compiled forms of a system's functions: equal systems share them, so a second call compiles nothing."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp

from saddlescope.core.system import System
from saddlescope.core.tree import Layout

from . import precision  # noqa: F401  (64 bits before the first trace)


def flatten(tree: Any) -> jax.Array:
    return jnp.concatenate([jnp.reshape(leaf, -1) for leaf in tree])


@cache
def flat_velocity(system: System, layout: Layout):
    """(flat state, frame) -> flat velocity."""
    return jax.jit(lambda flat, frame: flatten(system.velocity(layout.unravel(flat), frame)))
