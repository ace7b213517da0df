"""The learning rate: linear warm-up, then a cosine to zero."""

from __future__ import annotations

import math

from saddlescope.core.source import source


@source("boix2023", "Appendix B, learning rate")
def learning_rate(step: int, steps: int, warmup: float, highest: float) -> float:
    """Of step 0, 1, ..., steps - 1. warmup: steps of linear rise, which need not be whole."""
    if step < warmup:
        return highest * (step + 1) / (warmup + 1)
    return highest * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup)))
