"""The one place that sets jax up, with 64 bits: plateaus are resolved to 1e-9, which 32 bits cannot hold.

Whoever imports jax imports this too, before the first trace.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import jax

jax.config.update("jax_enable_x64", True)


THREADS = ("NPROC", "PJRT_NPROC")
"""Variables of the environment that say how many threads jax's CPU backend starts."""


@cache
def start_with_one_thread() -> None:
    """Start jax's CPU backend with one thread, unless it runs already or the user has said how many.

    A step of a flow or of a prediction takes less than a millisecond, so other threads cost more than they give; on a
    busy machine they double the time. Once it runs, jax cannot change the number.
    """
    if not any(name in os.environ for name in THREADS):
        os.environ[THREADS[1]] = "1"
        try:
            jax.devices()
        finally:
            del os.environ[THREADS[1]]


def on_device(tree: Any) -> Any:
    """Its arrays as jax's own, so that calls need not copy them."""
    return jax.tree.map(jax.numpy.asarray, tree)
