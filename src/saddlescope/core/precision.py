"""The one place that switches jax to 64 bits: plateaus are resolved to 1e-9, which 32 bits cannot hold.

Whoever imports jax imports this too, before the first trace.
"""

from __future__ import annotations

from typing import Any

import jax

jax.config.update("jax_enable_x64", True)


def on_device(tree: Any) -> Any:
    """Its arrays as jax's own, so that calls need not copy them."""
    return jax.tree.map(jax.numpy.asarray, tree)
