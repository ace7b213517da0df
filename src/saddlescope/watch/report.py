"""A watched run as a picture, or as a page around it."""

from __future__ import annotations

import html
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from saddlescope.core.errors import BadArgument
from saddlescope.core.files import write_whole
from saddlescope.core.ink import BLACK, GREY, ramp
from saddlescope.show.growth import BESIDE, MODES, SHOWN_MODES, TITLES, draw_ranks, draw_steps, layer_lines, layer_name
from saddlescope.show.style import STYLE, SUFFIXES, save_picture, svg_text

from .trajectory import head_stages

if TYPE_CHECKING:
    import xarray

LISTED_STAGES = 60

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Watched heads</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 62rem; margin: 2rem auto; padding: 0 1rem }}
svg {{ width: 100%; height: auto }}
table {{ border-collapse: collapse }} th, td {{ padding: .15rem .9rem .15rem 0; text-align: right }}
th {{ border-bottom: 1px solid #999; font-weight: 600 }}
</style></head><body>
<h1>Watched heads</h1>
<p>{summary}</p>
{figure}
{notes}
<h2>Directions by the time they were learned</h2>
<p>A direction is there from the step on at which its singular value stays above a tenth of the largest that its head
ends at. Layers and heads are counted from 0, as in names of checkpoints.</p>
{table}
</body></html>
"""


def write_report(found: xarray.Dataset, path: Path) -> Path:
    if path.suffix not in (".html", *SUFFIXES):
        raise BadArgument(f"cannot write {path}: the name must end in {', '.join(('.html', *SUFFIXES))}")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix != ".html":
        save_picture(_figure(found), path)
        return path
    svg = svg_text(_figure(found))
    page = PAGE.format(
        summary=html.escape(_summary(found)),
        figure=svg[svg.index("<svg") :],
        notes="".join(f"<p>{html.escape(note)}</p>" for note in _notes(found)),
        table=_table(found),
    )
    write_whole(path, lambda partial: partial.write_text(page, encoding="utf-8"))
    return path


def _summary(found: xarray.Dataset) -> str:
    steps = found["time"].values
    return (
        f"{found.attrs['family']}: {found.sizes['layer']} layers of up to {found.sizes['head']} heads, {len(steps)} "
        f"measurements from step {steps[0]:.0f} to {steps[-1]:.0f}. Changes count from step {found.attrs['start']}; "
        f"method: {found.attrs['method']}."
    )


def _notes(found: xarray.Dataset) -> list[str]:
    notes = list(found.attrs["notes"])
    for name, words in (("diverged", "Weights were not finite at steps"), ("unwritten", "Not on disk: steps")):
        if steps := found.attrs[name]:
            notes.append(f"{words} {', '.join(map(str, steps[:12]))}{', ...' if len(steps) > 12 else ''}.")
    return notes


def _table(found: xarray.Dataset) -> str:
    stages = head_stages(found)
    cells = []
    for layer, circuit, head, stage in stages[:LISTED_STAGES]:
        size = f"{stage.extra['singular_value']:.3g}"
        cells.append((f"{stage.time:.0f}", layer_name(layer), circuit, head, stage.extra["mode"], size))
    heads = ("step", "layer", "circuit", "head", "direction", "singular value at the end")
    rows = [f"<tr>{''.join(f'<td>{html.escape(str(cell))}</td>' for cell in row)}</tr>" for row in cells]
    more = f"<p>And {len(stages) - LISTED_STAGES} later ones.</p>" if len(stages) > LISTED_STAGES else ""
    return f"<table><tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr>{''.join(rows)}</table>{more}"


def _figure(found: xarray.Dataset) -> Any:
    import matplotlib
    from matplotlib.figure import Figure

    # Without pyplot: the user's own backend and figures are left alone.
    lora = ["lora"] if "lora_stable_rank" in found else []
    loss = ["loss"] if np.isfinite(found["loss"].values).any() else []
    rows: list[Any] = [[f"{kind}{circuit}" for circuit in ("QK", "OV")] for kind in ("rank", "values")]
    if extra := [*loss, *lora]:
        rows.append(extra if len(extra) == 2 else extra * 2)
    with matplotlib.rc_context(dict(STYLE)):
        heights = [1.0, 1.0, 0.8][: len(rows)]
        figure = Figure(figsize=(9.0, 2.9 * sum(heights)), layout="constrained")
        axes = figure.subplot_mosaic(rows, height_ratios=heights)
        for number, circuit in enumerate(("QK", "OV")):
            draw_ranks(axes[f"rank{circuit}"], found.isel(circuit=number), (10, 90))
            axes[f"rank{circuit}"].set_title(TITLES[circuit])
            _draw_values(axes[f"values{circuit}"], found, number, circuit)
        axes["rankOV"].legend(*layer_lines(found), title="layer\n(mean, 10–90%\nof its heads)", **BESIDE)
        if loss:
            _draw_loss(axes["loss"], found)
        if lora:
            _draw_lora(axes["lora"], found)
        for panel in axes.values():
            draw_steps(panel, found)
    return figure


def _draw_values(axes: Any, found: xarray.Dataset, number: int, circuit: str) -> None:
    """Of the head that has changed most."""
    values = found["singular_values"].values[:, :, number]  # (time, layer, head, mode)
    change = np.nan_to_num(found["relative_change"].values[:, :, number], posinf=0.0)
    layer, head = np.unravel_index(np.argmax(change.max(0)), change.shape[1:])
    curves = values[:, layer, head, :SHOWN_MODES]
    curves = np.where(curves > 0, curves, np.nan)  # a logarithm has no place for the start
    there = np.isfinite(curves[:, 0])
    for mode, colour in enumerate(ramp(MODES, curves.shape[1])):
        axes.plot(found["time"].values[there], curves[there, mode], color=colour)
    label = layer_name(found["layer"].values[layer])
    axes.set_title(f"largest change: layer {label}, head {head}")
    axes.set_ylabel(f"{curves.shape[1]} largest singular values of Δ{circuit}")
    if there.any():
        top = np.nanmax(curves)
        axes.set_yscale("log")
        axes.set_ylim(max(np.nanmin(curves), top * 1e-4) * 0.8, top * 1.25)


def _draw_loss(axes: Any, found: xarray.Dataset) -> None:
    known = np.isfinite(found["loss"].values)
    axes.plot(found["time"].values[known], found["loss"].values[known], color=GREY, marker=".", markersize=3)
    axes.set_title("training loss")
    axes.set_ylabel("loss")


def _draw_lora(axes: Any, found: xarray.Dataset) -> None:
    ranks = found["lora_stable_rank"].values
    ranks = np.where(ranks > 0, ranks, np.nan)
    steps = found["time"].values
    for module in range(ranks.shape[1]):
        axes.plot(steps, ranks[:, module], color=GREY, alpha=0.35, linewidth=0.8)
    there = np.isfinite(ranks).any(-1)
    axes.plot(steps[there], np.nanmean(ranks[there], -1), color=BLACK)
    size = int(np.isfinite(found["lora_singular_values"].values).sum(-1).max())
    axes.set_title(f"LoRA: directions in use, of {size}")
    axes.set_ylabel("stable rank of scaling·BA")
    axes.set_ylim(bottom=1)
