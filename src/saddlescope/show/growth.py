"""How the change of every head grew: stable ranks by layer, and the spectra of the heads that changed most.

The panels are those of Boix-Adserà et al. (2023), Figs. 11 and 12.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from saddlescope.core.errors import BadArgument
from saddlescope.core.ink import BLACK, GREY, PALE, ramp

from .style import FACES, STYLE, SUFFIXES, save_picture

if TYPE_CHECKING:
    import xarray

LAYERS = ("#0072B2", "#56B4E9", "#E69F00", "#D55E00")
"""First to last layer; colour-blind safe (Okabe-Ito)."""

MODES = (BLACK, "#0072B2", "#9fc9e6")
MARK: dict[str, Any] = {"color": GREY, "linewidth": 1.0, "linestyle": ":"}
DOTS: dict[str, Any] = {"marker": ".", "markersize": 4, "clip_on": False}
BESIDE: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5), "fontsize": 8, "title_fontsize": 8}
"""Where legends stand: at the right of their panel."""

SHOWN_MODES = 8
SHOWN_LAYERS = 8
TITLES = {"QK": "QK, what heads look at", "OV": "OV, what heads move"}


def draw_growth(found: xarray.Dataset, path: Path, marked: Sequence[int] = ()) -> Path:
    """marked: steps to be pointed at, because something is wrong with them."""
    import matplotlib
    from matplotlib.figure import Figure

    if path.suffix not in SUFFIXES:
        raise BadArgument(f"cannot draw {path}: the name must end in {', '.join(SUFFIXES)}")
    rows = [[f"{kind}{circuit}" for circuit in TITLES] for kind in ("rank", "values", "spectrum")]
    # Without pyplot: the user's own backend and figures are left alone.
    with matplotlib.rc_context(dict(STYLE)):
        figure = Figure(figsize=(9.0, 8.6), layout="constrained")
        figure.get_layout_engine().set(h_pad=0.1)  # type: ignore[union-attr]
        axes = figure.subplot_mosaic(rows)  # type: ignore[arg-type]
        for number, circuit in enumerate(TITLES):
            one = found.isel(circuit=number)
            layer, head = largest_change(one)
            name = f"layer {layer_name(one['layer'].values[layer])}, head {head}"
            draw_ranks(axes[f"rank{circuit}"], one, (0, 100), **DOTS)
            _draw_values(axes[f"values{circuit}"], one.isel(layer=layer, head=head))
            _draw_spectra(axes[f"spectrum{circuit}"], one.isel(layer=layer, head=head))
            axes[f"rank{circuit}"].set_title(TITLES[circuit])
            axes[f"values{circuit}"].set_title(f"{circuit} that changed most: {name}")
            axes[f"spectrum{circuit}"].set_title(f"{circuit} of that head, start and end")
            for kind in ("rank", "values"):
                draw_steps(axes[f"{kind}{circuit}"], found, marked)
        _draw_legends(axes, found, bool(marked))
        path.parent.mkdir(parents=True, exist_ok=True)
        save_picture(figure, path)
    return path


def layer_name(label: str) -> str:
    """Counted from 0, as in the names of checkpoints; stacks by their name."""
    return str(label).replace(".", " ")


def largest_change(found: xarray.Dataset) -> tuple[int, int]:
    """Layer and head of the largest relative change at the last step where there is one."""
    change = np.nan_to_num(found["relative_change"].values, nan=-1.0, posinf=-1.0)  # (time, layer, head)
    measured = np.flatnonzero((change >= 0).any((1, 2)))
    last = change[measured[-1]] if len(measured) else change[-1]
    layer, head = np.unravel_index(np.argmax(last), last.shape)
    return int(layer), int(head)


def draw_ranks(axes: Any, found: xarray.Dataset, band: tuple[float, float], **line: Any) -> None:
    """Of one circuit: each layer's mean over heads, and between which percentiles of its heads it is shaded."""
    ranks = found["stable_rank"].values  # (time, layer, head)
    # Before it has moved, a head has no direction; a rank of zero would only stretch the axis.
    ranks = np.where(ranks > 0, ranks, np.nan)
    steps = found["time"].values
    for layer, colour in enumerate(ramp(LAYERS, ranks.shape[1])):
        there = np.isfinite(ranks[:, layer]).any(-1)
        some = ranks[there, layer]
        if there.any():
            low, high = np.nanpercentile(some, band, axis=-1)
            axes.fill_between(steps[there], low, high, color=colour, alpha=0.15, linewidth=0)
            axes.plot(steps[there], np.nanmean(some, -1), color=colour, **line)
    axes.set_ylabel("stable rank of the change")
    axes.set_ylim(bottom=1)


def layer_lines(found: xarray.Dataset) -> tuple[list[Any], list[str]]:
    """Lines and words for a legend of layers; of many layers, some."""
    from matplotlib.lines import Line2D

    labels = [layer_name(label) for label in found["layer"].values]
    colours = ramp(LAYERS, len(labels))
    shown = np.unique(np.linspace(0, len(labels) - 1, min(len(labels), SHOWN_LAYERS)).round().astype(int))
    return [Line2D([], [], color=colours[place]) for place in shown], [labels[place] for place in shown]


def _draw_values(axes: Any, head: xarray.Dataset) -> None:
    values = head["singular_values"].values[:, :SHOWN_MODES]  # (time, mode)
    there = np.isfinite(values[:, 0])
    for mode, colour in enumerate(ramp(MODES, values.shape[1])):
        axes.plot(head["time"].values[there], values[there, mode], color=colour, **DOTS)
    axes.set_ylabel("singular values of the change")
    axes.set_ylim(bottom=0)


def _draw_spectra(axes: Any, head: xarray.Dataset) -> None:
    """The end of the change beside the start that was changed."""
    from matplotlib.ticker import MaxNLocator

    values = head["singular_values"].values
    measured = np.flatnonzero(np.isfinite(values[:, 0]))
    last = measured[-1] if len(measured) else -1
    curves = (
        ("start", head["start_singular_values"].values, PALE),
        (f"change at step {head['time'].values[last]:,.0f}", values[last], FACES["flow"]),
    )
    for label, curve, colour in curves:
        shown = curve > 0
        axes.plot(np.flatnonzero(shown) + 1, curve[shown], color=colour, marker=".", markersize=5, label=label)
    if any((curve > 0).any() for _, curve, _ in curves):
        axes.set_yscale("log")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("direction")
    axes.set_ylabel("singular value")
    axes.legend(loc="best")


def draw_steps(axes: Any, found: xarray.Dataset, marked: Sequence[int] = ()) -> None:
    from matplotlib.ticker import FuncFormatter, NullLocator

    steps = found["time"].values
    if found.attrs["schedule"] == "log" and len(steps) > 2:
        # Linear up to the first step after the start, so that the start has its place.
        first = float(max(steps[1], 1))
        axes.set_xscale("symlog", linthresh=first, linscale=0.4)
        powers = [10.0**power for power in range(16) if first <= 10.0**power <= steps[-1]]
        axes.set_xticks([steps[0], *powers])
        axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda step, _: f"{step:,.0f}"))
    axes.set_xlim(steps[0], max(steps[-1], steps[0] + 1))
    axes.set_xlabel("step")
    for step in marked:
        if steps[0] <= step <= steps[-1]:
            axes.axvline(step, zorder=0, **MARK)


def _draw_legends(axes: Any, found: xarray.Dataset, marked: bool) -> None:
    from matplotlib.lines import Line2D

    lines, words = layer_lines(found)
    if marked:
        lines, words = [*lines, Line2D([], [], **MARK)], [*words, "a finding"]
    title = "layer\n(mean and range\nof its heads)"
    axes["rankOV"].legend(lines, words, title=title, alignment="left", **BESIDE)
    modes = min(SHOWN_MODES, found.sizes["mode"])
    lines = [Line2D([], [], color=colour) for colour in ramp(MODES, modes)]
    axes["valuesOV"].legend(
        lines, [str(mode + 1) for mode in range(modes)], title="direction", alignment="left", **BESIDE
    )


# ---- small, and as rows ------------------------------------------------------------------------------------


def draw_small(axes: Any, found: xarray.Dataset, marked: Sequence[int] = ()) -> None:
    """Mean stable rank over the heads of each layer, QK and OV in one panel."""
    from matplotlib.lines import Line2D

    styles = dict(zip(TITLES, ("-", (0, (3, 1.5))), strict=True))
    for number, style in enumerate(styles.values()):
        draw_ranks(axes, found.isel(circuit=number), (50, 50), linestyle=style, linewidth=1.2, **DOTS)
    draw_steps(axes, found, marked)
    lines, words = layer_lines(found)
    lines = [*lines, *(Line2D([], [], color=BLACK, linestyle=style) for style in styles.values())]
    words = [*(f"layer {word}" for word in words), *styles]
    if marked:
        lines, words = [*lines, Line2D([], [], **MARK)], [*words, "a finding"]
    axes.legend(lines, words, **BESIDE | {"fontsize": 7})


def medians(found: xarray.Dataset, most: int) -> list[dict[str, Any]]:
    """A row for each of at most so many steps: medians over all heads that have moved."""
    places = np.linspace(0, found.sizes["time"] - 1, min(found.sizes["time"], most)).round().astype(int)
    rows = []
    for place in dict.fromkeys(places):
        row: dict[str, Any] = {"step": int(found["time"].values[place])}
        for number, circuit in enumerate(found["circuit"].values):
            change = found["relative_change"].values[place, :, number]
            ranks = found["stable_rank"].values[place, :, number]
            known, moved = change[np.isfinite(change)], ranks[np.nan_to_num(change) > 0]
            row[f"{circuit} change"] = float(np.median(known)) if len(known) else None
            row[f"{circuit} stable rank"] = float(np.median(moved)) if len(moved) else None
        rows.append(row)
    return rows


def head_rows(found: xarray.Dataset) -> list[dict[str, Any]]:
    """A row for each step, layer, circuit and head that was measured."""
    fields = [name for name in ("relative_change", "stable_rank", "entropy_rank") if name in found]
    values = [found[name].values for name in fields]
    top = found["singular_values"].values[..., 0]
    steps, labels, circuits = (found[name].values for name in ("time", "layer", "circuit"))
    rows = []
    for moment, place, circuit, head in np.argwhere(np.isfinite(top)):
        at = (moment, place, circuit, head)
        stack, _, layer = str(labels[place]).rpartition(".")
        rows.append(
            {
                "step": int(steps[moment]),
                **({"stack": stack} if stack else {}),
                "layer": int(layer),
                "circuit": str(circuits[circuit]),
                "head": int(head),
                **{name: float(value[at]) for name, value in zip(fields, values, strict=True)},
                "top_singular_value": float(top[at]),
                **({"loss": float(found["loss"].values[moment])} if "loss" in found else {}),
            }
        )
    return rows
