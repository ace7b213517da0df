"""The small pictures of weight changes: a number for each kind of matrix and each layer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from saddlescope.core.ink import GREY, ramp
from saddlescope.core.words import printable

from .change import RANKS, Kind, kinds_of, short, tint

MOST = 14
"""Kinds, or matrices, that are drawn."""

NUMBERED = 16
"""Layers up to which cells hold their numbers."""


def draw_by_layer(axes: Any, rows: Sequence[Mapping[str, Any]], field: str, label: str) -> None:
    """A map of kinds of matrices and layers; where no kind has several layers, a bar for each matrix.

    rows: with the `name` of a matrix and a number under `field`.
    """
    kinds = [kind for kind in kinds_of(rows) if len(set(kind.layers)) > 1]
    if kinds:
        _draw_map(axes, kinds, field, label)
    else:
        _draw_bars(axes, rows, field, label)


def say(axes: Any, words: str) -> None:
    """Words in the place of a picture."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, words, ha="center", va="center", color=GREY, transform=axes.transAxes)


def _draw_map(axes: Any, kinds: Sequence[Kind], field: str, label: str) -> None:
    import numpy as np
    from matplotlib.colors import ListedColormap
    from matplotlib.ticker import MaxNLocator

    shown = kinds[:MOST]
    layers = sorted({layer for kind in shown for layer in kind.layers if layer is not None})
    grid = np.full((len(shown), len(layers)), np.nan)
    for row, kind in enumerate(shown):
        for column, layer in enumerate(layers):
            # Where a layer has several of a kind (experts), their median.
            own = [one[field] for one, at in zip(kind.modules, kind.layers, strict=True) if at == layer]
            grid[row, column] = median(own) if own else np.nan
    low, high = 1.0, max(float(np.nanmax(grid)), 2.0)
    shades = ListedColormap(ramp(RANKS, 256)).with_extremes(bad="none")
    image = axes.imshow(grid, cmap=shades, vmin=low, vmax=high, aspect="auto", interpolation="none")
    names = [kind.short_name for kind in shown]
    # Encoder and decoder have parts of the same name.
    if len(set(names)) < len(names):
        names = [kind.name.removesuffix(".weight") for kind in shown]
    axes.set_yticks(range(len(shown)), [shortened(name, 28) for name in names], fontsize=7, parse_math=False)
    step = -(-len(layers) // 12)
    axes.set_xticks(range(0, len(layers), step), [str(layer) for layer in layers[::step]])
    axes.set_xlabel("layer")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    bar = axes.figure.colorbar(image, ax=axes, pad=0.02, aspect=30, label=label)
    bar.outline.set_visible(False)
    bar.locator = MaxNLocator(5, integer=field == "rank")
    if len(kinds) > MOST:
        axes.set_title(f"{MOST} of {len(kinds)} kinds of matrices", fontsize=8, loc="left")
    if len(layers) > NUMBERED:
        return
    for (row, column), value in np.ndenumerate(grid):
        if np.isfinite(value):
            _, ink = tint((value - low) / (high - low))
            axes.text(column, row, short(value) if field != "rank" else f"{value:g}", color=ink, fontsize=6, **CENTRED)


CENTRED: dict[str, Any] = {"ha": "center", "va": "center"}


def _draw_bars(axes: Any, rows: Sequence[Mapping[str, Any]], field: str, label: str) -> None:
    shown = list(reversed(rows[:MOST]))
    axes.barh(range(len(shown)), [row[field] for row in shown], color=RANKS[2], height=0.6)
    names = [shortened(row["name"].removesuffix(".weight"), 28) for row in shown]
    axes.set_yticks(range(len(shown)), names, fontsize=7, parse_math=False)
    axes.tick_params(axis="y", length=0)
    axes.set(xlabel=label, ylim=(-0.6, max(len(shown) - 0.4, 2.4)))
    if len(rows) > MOST:
        axes.set_title(f"{MOST} of {len(rows)} matrices", fontsize=8, loc="left")


def shortened(name: str, length: int = 32) -> str:
    """A name with its middle left out: its first word, and the end, which tells a matrix from others."""
    name = printable(name)
    if len(name) <= length:
        return name
    first = re.split(r"[./]", name)[0][: length // 3]
    last = name[3 + len(first) - length :]
    return f"{first}...{re.sub('^[^._/]*[._/](?=.)', '', last)}"
