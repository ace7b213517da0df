"""The one place that switches jax to 64 bits: plateaus are resolved to 1e-9, which 32 bits cannot hold.

Whoever imports jax imports this too, before the first trace.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import jax

jax.config.update("jax_enable_x64", True)


def on_device(tree: Any) -> Any:
    """Its arrays as jax's own, so that calls need not copy them."""
    return jax.tree.map(jax.numpy.asarray, tree)


@cache
def for_small_steps() -> dict[str, bool]:
    """Compiler options for a loop over many small operations on a CPU; none where this version of XLA knows none.

    The older of XLA's two ways to emit fused operations compiles such a loop in two thirds of the time, and runs it in
    three quarters.
    """
    options = {"xla_cpu_use_fusion_emitters": False}
    try:
        jax.jit(lambda x: x, compiler_options=options)(0.0)
    except Exception:  # whatever a compiler says to an option that it does not know
        return {}
    return options
