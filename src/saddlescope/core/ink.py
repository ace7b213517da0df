"""Colours that the figures of all rooms share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

GREY, PALE, BLACK = "#777777", "#bbbbbb", "#222222"


def ramp(colours: Sequence[str], count: int) -> list[str]:
    """`count` colours from the first of these to the last, evenly spread."""
    from matplotlib.colors import LinearSegmentedColormap, to_hex

    between = LinearSegmentedColormap.from_list("ramp", colours)
    return [to_hex(between(share)) for share in np.linspace(0, 1, max(count, 2))[:count]]
