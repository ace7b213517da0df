"""A weight change as one HTML file: how many directions it has, head by head and matrix by matrix."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from pprint import pformat
from statistics import median
from typing import Any, NamedTuple

from saddlescope.core.errors import BadArgument
from saddlescope.core.files import write_whole
from saddlescope.core.ink import BLACK, GREY, PALE, ramp

from .page import number, render
from .style import STYLE, svg_text

Found = Mapping[str, Any]

RANKS, SIZES = ("#f4f9d8", "#7fcdbb", "#2c8fbd", "#253494"), ("#fff3c4", "#fec44f", "#e2740f", "#8c2d04")
"""Colours of maps, from light to dark: their order survives colour blindness and grey print (ColorBrewer)."""

DEPTH = ("#440154", "#21918c", "#d6b81c")
"""Colours of layers, from the first to the last."""

PANELS = 24
"""Kinds of matrices whose spectra are drawn."""

MEDIANS = ("rank_above_floor", "stable_rank", "random_stable_rank", "relative_change")
"""What the headline says of the matrices that changed."""

LISTED = 40
"""Matrices that are shown in one table; more are folded by kind."""


def write_change_page(path: Path, found: Found) -> None:
    """The page at `path`.  found: what `saddlescope diff --json` prints."""
    if path.suffix not in (".html", ".htm"):
        raise BadArgument(f"cannot write the page {path}: its name must end in .html")
    page = change_page(found)
    write_whole(path, lambda whole: whole.write_text(page, encoding="utf-8"))


def change_page(found: Found, *, title: str | None = None) -> str:
    """The whole page; the same `found` gives the same bytes."""
    kinds = kinds_of(found["modules"])
    changed = [module for module in found["modules"] if has_changed(module)]
    moving = [kind for kind in kinds if any(map(has_changed, kind.modules))]
    lora = found.get("lora")
    adapter = any(module.get("rank") is not None for module in found["modules"])
    return render(
        {
            "title": title or ("What the adapter changes" if adapter else "What training changed"),
            "adapter": adapter,
            "found": found,
            "changed": changed,
            "hiding": [module for module in changed if module.get("hidden_at_least")],
            "medians": {name: _median(changed, name) for name in MEDIANS},
            "full": sorted({min(module["shape"]) for module in changed}),
            "maps": _head_maps(found["heads"]),
            "spectra": [_spectrum_panel(kind, layers_of(kinds)) for kind in moving[:PANELS]],
            "undrawn": moving[PANELS:],
            "still": [kind for kind in kinds if kind not in moving],
            "layers": layers_of(kinds),
            "depth": ramp(DEPTH, 5),
            "ranks": rank_grid({module["name"]: module["rank_above_floor"] for module in found["modules"]}, kinds),
            "lora": lora,
            "lora_ranks": _lora_grid(lora["rank_pattern"], kinds) if lora else None,
            "code": lora_code(lora) if lora else "",
            "size": sum(math.prod(module["shape"]) for module in found["modules"]),
            "groups": _groups(kinds),
            "folded": len(found["modules"]) > LISTED,
            "short": short,
            "percent": percent,
            "span": span,
        },
        "change.html.j2",
    )


def has_changed(module: Found) -> bool:
    return bool(module["singular_values"]) and module["singular_values"][0] > 0


# ---- words for numbers -----------------------------------------------------------------------------------


def short(value: float | None) -> str:
    """As in running text and in the cells of a map: 0.04, 0.29, 6.8, 16, 309."""
    if value is None or not math.isfinite(value) or value < 0.01:
        return number(value, 2)
    return f"{value:.{0 if value >= 9.95 else 1 if value >= 0.995 else 2}f}"


def percent(share: float | None) -> str:
    return "–" if share is None else f"{short(100 * share)}%"


def span(values: Iterable[float | None]) -> str:
    """From the least to the largest, or the one value that all have."""
    known = [value for value in values if value is not None]
    least, most = (number(min(known)), number(max(known))) if known else ("–", "–")
    return least if least == most else f"{least} to {most}"


def _median(rows: Sequence[Found], name: str) -> float | None:
    known = [row[name] for row in rows if row[name] is not None]
    return median(known) if known else None


# ---- matrices of a kind ----------------------------------------------------------------------------------


class Kind(NamedTuple):
    """Matrices with the same place in their layers.  name: theirs with * for the layer, and for the expert."""

    name: str
    modules: list[Found]
    layers: list[int | None]

    @property
    def short_name(self) -> str:
        return self.name.partition(".*.")[2].removesuffix(".weight") or self.name


def kind_of(name: str) -> tuple[str, int | None]:
    """`h.3.mlp.experts.7.up.weight` is of the kind `h.*.mlp.experts.*.up.weight` in layer 3."""
    layer = re.search(r"(?<![^.])[0-9]{1,4}(?=\.)", name)
    if layer is None:
        return re.sub(r"\[\d+\]$", "[*]", name), None
    kind = f"{name[: layer.start()]}*{name[layer.end() :]}"
    return re.sub(r"(?<=experts\.)\d+(?=\.)|(?<=\[)\d+(?=\]$)", "*", kind), int(layer[0])


def kinds_of(modules: Iterable[Found]) -> list[Kind]:
    kinds: dict[str, Kind] = {}
    for module in modules:
        name, layer = kind_of(module["name"])
        kind = kinds.setdefault(name, Kind(name, [], []))
        kind.modules.append(module)
        kind.layers.append(layer)
    return list(kinds.values())


def layers_of(kinds: Iterable[Kind]) -> list[int]:
    return sorted({layer for kind in kinds for layer in kind.layers if layer is not None})


def _groups(kinds: Sequence[Kind]) -> list[Kind]:
    """Kinds as the table shows them: those of one matrix only share a group."""
    alone = [kind.modules[0] for kind in kinds if len(kind.modules) == 1]
    several = [kind for kind in kinds if len(kind.modules) > 1]
    return [*several, Kind("", alone, [])] if alone else several


def rank_grid(ranks: Mapping[str, float | None], kinds: Sequence[Kind]) -> dict[str, Any]:
    """Rows of kinds, columns of layers; where a layer has several of a kind (experts), their median."""
    layered = [kind for kind in kinds if None not in kind.layers]
    layers, most = layers_of(layered), max((rank for rank in ranks.values() if rank is not None), default=0)
    # Encoder and decoder have parts of the same name.
    clear = len({kind.short_name for kind in layered}) == len(layered)
    rows = []
    for kind in layered:
        cells: dict[int | None, list[float]] = {}
        for module, layer in zip(kind.modules, kind.layers, strict=True):
            if (rank := ranks[module["name"]]) is not None:
                cells.setdefault(layer, []).append(rank)
        short_name = kind.short_name if clear else kind.name.removesuffix(".weight")
        found = [_cell(cells.get(layer), most) for layer in layers]
        rows.append({"name": kind.name, "short": short_name, "cells": found})
    alone = [module["name"] for kind in kinds if None in kind.layers for module in kind.modules]
    several = any(len(kind.layers) > len(set(kind.layers)) for kind in layered)
    return {"layers": layers, "rows": rows, "others": [(name, ranks[name]) for name in alone], "several": several}


def _lora_grid(ranks: Mapping[str, int], kinds: Sequence[Kind]) -> dict[str, Any]:
    """In the order of the matrices, whose names may lack what PEFT puts before them."""
    order = [kind.name.removesuffix(".weight") for kind in kinds]
    own = kinds_of([{"name": name} for name in ranks])
    own.sort(key=lambda kind: next((place for place, name in enumerate(order) if kind.name.endswith(name)), len(order)))
    return rank_grid(ranks, own)


def _cell(values: Sequence[float] | None, most: float) -> dict[str, str] | None:
    if values is None:
        return None
    value = median(values)
    colour, ink = tint(value / most if most else 0.0)
    return {"text": number(value), "colour": colour, "ink": ink}


def tint(share: float, colours: Sequence[str] = RANKS) -> tuple[str, str]:
    """Background for a share between 0 and 1, and the ink that can be read on it."""
    from matplotlib.colors import to_rgb

    shade = ramp(colours, 101)[round(100 * min(max(share, 0.0), 1.0))]
    red, green, blue = to_rgb(shade)
    return shade, BLACK if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.5 else "#ffffff"


# ---- pictures --------------------------------------------------------------------------------------------


def svg(draw: Callable[[Any], None], width: float, height: float) -> str:
    """What `draw` puts on axes of this size in inches."""
    import matplotlib
    from matplotlib.figure import Figure

    # Without pyplot: the user's own backend and figures are left alone.
    with matplotlib.rc_context(dict(STYLE)):
        figure = Figure(figsize=(width, height))
        draw(figure.subplots())
        return svg_text(figure)


def grid_of(rows: Iterable[Found], value: Callable[[Found], float | None]) -> tuple[Any, list[int]]:
    """[layer, head] with NaN where there is no such head, and the layers' numbers."""
    import numpy as np

    rows = list(rows)
    layers = sorted({row["layer"] for row in rows})
    grid = np.full((len(layers), 1 + max(row["head"] for row in rows)), np.nan)
    for row in rows:
        found = value(row)
        grid[layers.index(row["layer"]), row["head"]] = np.nan if found is None else found
    return np.where(np.isfinite(grid), grid, np.nan), layers


def heat_size(layers: int, heads: int) -> tuple[float, float]:
    """In inches: cells as large as two panels beside each other allow."""
    cell = min(0.48, 3.7 / heads)
    return max(0.95 + cell * heads, 2.4), max(0.6 + min(min(max(cell, 0.1), 0.34) * layers, 7.0), 1.5)


def draw_heat(axes: Any, grid: Any, layers: Sequence[int], scale: tuple[float, float], colours: Sequence[str]) -> None:
    """Layers down, heads across.  Grey: below the scale (no change); empty: no such head.  Few cells hold numbers."""
    import numpy as np
    from matplotlib.colors import ListedColormap
    from matplotlib.ticker import MaxNLocator

    shades = ListedColormap(ramp(colours, 256)).with_extremes(bad="none", under=PALE)
    image = axes.imshow(grid, cmap=shades, vmin=scale[0], vmax=scale[1], aspect="auto", interpolation="none")
    rows, columns = grid.shape
    axes.set_xticks(np.arange(columns + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(rows + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="white", lw=1.0 if max(rows, columns) <= 16 else 0.3)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)
    axes.set_xticks(range(0, columns, -(-columns // 12)))
    shown = range(0, rows, -(-rows // 16))
    axes.set_yticks(shown, [str(layers[row]) for row in shown])
    axes.set(xlabel="head", ylabel="layer", xlim=(-0.5, columns - 0.5))
    width = 0.14
    bar = axes.figure.colorbar(image, ax=axes, pad=0.03, aspect=axes.figure.get_figheight() / width)
    bar.outline.set_visible(False)
    bar.locator = MaxNLocator(5)
    texts = {(row, column): short(grid[row, column]) for row, column in np.argwhere(np.isfinite(grid))}
    if rows > 16 or columns * max(map(len, texts.values()), default=0) > 56:
        return
    for (row, column), text in texts.items():
        _, ink = tint((grid[row, column] - scale[0]) / (scale[1] - scale[0]), colours)
        axes.text(column, row, text, ha="center", va="center", color=ink, fontsize=7 if columns > 6 else 8)


def draw_spectra(axes: Any, spectra: Sequence[tuple[Sequence[float], str]], floors: Sequence[float | None]) -> None:
    """Singular values over their index, one line for each (values, colour), and where rounding begins."""
    import numpy as np

    drawn = [floor for floor in floors if floor]
    known = [value for values, _ in spectra for value in values if value > 0] + drawn
    # What lies far below the floor is dust of the arithmetic.
    bottom = max(min(known), min(drawn) / 8 if drawn else max(known) * 1e-8)
    for values, colour in spectra:
        few = {"marker": "o", "ms": 2.5} if len(values) <= 16 else {}
        seen = np.maximum(values, bottom / 1000)
        axes.plot(np.arange(1, len(seen) + 1), seen, color=colour, lw=0.8, alpha=0.9, **few)
    axes.set_yscale("log")
    axes.set_ylim(min(bottom / 1.5, max(known) / 10), max(known) * 2)
    if drawn:
        if max(drawn) > 1.02 * min(drawn):
            axes.axhspan(min(drawn), max(drawn), color=GREY, alpha=0.18, lw=0)
        axes.axhline(median(drawn), color=BLACK, ls="--", lw=0.9)
        place = {"xy": (1, max(drawn)), "xycoords": axes.get_yaxis_transform(), "textcoords": "offset points"}
        behind = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 0.8}
        axes.annotate("rounding floor", xytext=(-3, 3), ha="right", va="bottom", fontsize=8, bbox=behind, **place)
    longest = max(len(values) for values, _ in spectra)
    step = next(step for step in (1, 2, 4, 8, 16, 32, longest) if longest <= 6 * step)
    axes.set_xticks([1, *range(max(step, 2), longest + 1, step)])
    axes.set(xlabel="index", ylabel="singular value", xlim=(0.8 - 0.02 * longest, 0.2 + 1.02 * longest))


def _spectrum_panel(kind: Kind, layers: Sequence[int]) -> dict[str, Any]:
    colours = dict(zip(layers, ramp(DEPTH, len(layers)), strict=True))
    pairs = [pair for pair in zip(kind.modules, kind.layers, strict=True) if has_changed(pair[0])]
    lines = [(module["singular_values"], GREY if layer is None else colours[layer]) for module, layer in pairs]
    floors = [module["floor"] for module, _ in pairs]
    return {
        "name": kind.name,
        "count": len(kind.modules),
        "above": span([module["rank_above_floor"] for module, _ in pairs]),
        "most": span([module.get("rank") or min(module["shape"]) for module, _ in pairs]),
        "svg": svg(lambda axes: draw_spectra(axes, lines, floors), 4.4, 2.6),
    }


def _head_maps(heads: Sequence[Found]) -> dict[str, Any] | None:
    """Panels by measure and stack.  All panels of a measure share their scale."""
    if not any(head["stable_rank"] for head in heads):
        return None
    parts: dict[str, dict[str, list[Found]]] = {}
    for head in heads:
        parts.setdefault(head.get("stack", ""), {}).setdefault(head["circuit"], []).append(head)
    rows, gaps = [], False
    for measure, colours, start, value in (
        ("stable rank", RANKS, 1.0, lambda head: head["stable_rank"] and max(head["stable_rank"], 1.0)),
        ("relative change, %", SIZES, 0.0, lambda head: head["relative_change"] and 100 * head["relative_change"]),
    ):
        known = [found for head in heads if (found := value(head)) is not None and math.isfinite(found)]
        scale = (start, max([*known, start + 0.5 if start else 0.0]) or 1.0)
        for stack, circuits in parts.items():
            panels = []
            for circuit, own in circuits.items():
                grid, layers = grid_of(own, value)
                gaps = gaps or not (grid == grid).all()
                draw = partial(draw_heat, grid=grid, layers=layers, scale=scale, colours=colours)
                panels.append({"circuit": circuit, "svg": svg(draw, *heat_size(*grid.shape))})
            rows.append({"measure": measure, "stack": stack, "panels": panels})
    names = ("stable_rank", "random_stable_rank", "relative_change", "rank")
    middle = {
        circuit: {name: _median([head for head in heads if head["circuit"] == circuit], name) for name in names}
        for circuit in dict.fromkeys(head["circuit"] for head in heads)
    }
    still = any(head["stable_rank"] == 0 for head in heads)
    return {"rows": rows, "circuits": middle, "still": still, "gaps": gaps}


# ---- LoRA ------------------------------------------------------------------------------------------------


def lora_code(lora: Found) -> str:
    """The advice as Python that PEFT runs, with the ranks written once where they say it all."""
    ranks, names = lora["rank_pattern"], ("target_modules", "rank_pattern", "alpha_pattern")
    lines = ["from peft import LoraConfig", ""]
    if ranks == lora["alpha_pattern"] and set(ranks) == set(lora["target_modules"]):
        lines += ["ranks = {", *(f"    {name!r}: {rank!r}," for name, rank in ranks.items()), "}", ""]
        given = dict(zip(names, ("list(ranks)", "ranks", "dict(ranks)"), strict=True))
    else:
        given = {name: pformat(lora[name], sort_dicts=False) for name in names}
    settings = {name: repr(lora[name]) for name in ("r", "lora_alpha", "fan_in_fan_out")} | given
    return "\n".join([*lines, "config = LoraConfig(", *(f"    {name}={text}," for name, text in settings.items()), ")"])
