"""What the figures of all rooms share: colours, and how a panel is finished."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

GREY, PALE, BLACK = "#777777", "#bbbbbb", "#222222"


def ramp(colours: Sequence[str], count: int) -> list[str]:
    """`count` colours from the first of these to the last, evenly spread."""
    from matplotlib.colors import LinearSegmentedColormap, to_hex

    between = LinearSegmentedColormap.from_list("ramp", colours)
    return [to_hex(between(share)) for share in np.linspace(0, 1, max(count, 2))[:count]]


def finish(panel: Any, title: str = "", legend: str = "", size: float = 8, **properties: Any) -> None:
    """Labels, limits and whatever else axes can be `set`; a title on the left; a legend in this place, of this size."""
    panel.set(**properties)
    if title:
        panel.set_title(title, loc="left")
    if legend:
        panel.legend(fontsize=size, loc=legend)


def at_top(panel: Any, place: float, text: str, height: float = 0.99, after: bool = True, **look: Any) -> None:
    """Words right of a place on the x-axis, or left of it, below the panel's upper edge."""
    side = {"xytext": (2, 0), "ha": "left"} if after else {"xytext": (-2, 0), "ha": "right"}
    usual = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "fontsize": 8, "color": GREY}
    panel.annotate(text, (place, height), **{**usual, **side, "va": "top", **look})
