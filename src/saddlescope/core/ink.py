"""What the figures of all rooms share: colours, and how a panel is finished."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

GREY, PALE, BLACK = "#777777", "#bbbbbb", "#222222"
ACCENT = "#CC79A7"
"""Of what theory says."""

BLUES = ("#08306b", "#2171b5", "#9ecae1")
"""Ends and middle of a ramp over whatever is varied."""

DASHES, DOTS = (0, (4, 2)), (0, (1, 1.5))


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


def logs(panel: Any, which: str, *between: int, words: Callable[[float], str]) -> None:
    """A logarithmic axis with labels at powers of ten, and at these multiples of them, in these words."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    panel.set(**{f"{which}scale": "log"})
    axis = getattr(panel, f"{which}axis")
    axis.set_major_locator(LogLocator(subs=(1, *between)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: words(value)))
    axis.set_minor_formatter(NullFormatter())


def at_top(panel: Any, place: float, text: str, height: float = 0.99, **look: Any) -> None:
    """Words beside a place on the x-axis, near the panel's upper edge: at this share of its height."""
    where = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "xytext": (2, 0), "va": "top"}
    panel.annotate(text, (place, height), **{**where, "fontsize": 8, "color": GREY, **look})
