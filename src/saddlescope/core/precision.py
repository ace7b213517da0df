"""The one place that switches jax to 64 bits: plateaus are resolved to 1e-9, which 32 bits cannot hold."""

from __future__ import annotations

import jax

jax.config.update("jax_enable_x64", True)
