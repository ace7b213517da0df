"""How a watched training shows itself, at any moment: it must neither fail nor wait while the training goes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from saddlescope.core.errors import told

from .by_layer import say
from .display import Card
from .growth import draw_small, head_rows, medians
from .words import number

if TYPE_CHECKING:
    import xarray

    from saddlescope.watch.run import WatchedRun

STEPS = 8
"""Steps whose medians are shown."""

DRAWN = 100
"""Steps that are drawn at most, so that a long run is looked at as fast as a short one."""

MEASURES = ("change", "stable rank")


def card(watch: WatchedRun) -> Card:
    name = type(watch).__name__
    try:
        if not watch.active:
            return Card(f"{name} on a process that does not measure: rank 0 of this run does")
        found, steps = watch.trajectory_so_far(STEPS), watch.steps_so_far()
        headline = f"{name} in {watch.folder}: "
        if found is None:
            return Card(f"{headline}nothing measured yet", lines=[watch.news] if watch.news else [])
        headline += f"{span_of(steps, 'measurement')}, of {model_of(found)}"
        lines = [*filter(None, [watch.news]), *_remarks(found)]
        return Card(headline, *table_of(found, STEPS), lines=[*lines, ".trajectory, .stages(), .report(path)"])
    except Exception as error:  # in the middle of a training nobody is to be stopped by a look at it
        return Card(f"{name}, which cannot be shown now: {told(error)}")


def table_of(found: xarray.Dataset, most: int) -> tuple[list[str], list[list[str]], list[str]]:
    """Columns, rows, and the columns that hold numbers."""
    rows = medians(found, most)
    names = ["step", *(f"{circuit} {what}" for circuit in found["circuit"].values for what in MEASURES)]
    cells = [[str(row["step"]), *(_cell(name, row[name]) for name in names[1:])] for row in rows]
    return names, cells, names


def _cell(name: str, value: float | None) -> str:
    if name.endswith("change") and value is not None:
        return f"{100 * value:.3g}%"
    return number(value, 3)


def span_of(steps: Sequence[int], what: str) -> str:
    if len(steps) == 1:
        return f"1 {what}, step {steps[0]}"
    return f"{len(steps)} {what}s, steps {steps[0]} to {steps[-1]}"


def model_of(found: xarray.Dataset) -> str:
    layers, heads = found.sizes["layer"], found.sizes["head"]
    return f"{found.attrs['family']}, {layers} layer{'s' * (layers > 1)} of {heads} head{'s' * (heads > 1)}"


def _remarks(found: xarray.Dataset) -> list[str]:
    remarks = ["medians over all heads"]
    loss = found["loss"].values
    if np.isfinite(loss).any():
        remarks[0] += f"; loss {number(float(loss[np.isfinite(loss)][-1]), 4)}"
    for name, words in (("diverged", "not finite at steps"), ("unwritten", "not on disk: steps")):
        if steps := found.attrs[name]:
            remarks.append(f"{words} {', '.join(map(str, steps[:6]))}{', ...' if len(steps) > 6 else ''}")
    return remarks + [f"note: {note}" for note in found.attrs["notes"][:2]]


def rows(watch: WatchedRun) -> list[dict[str, Any]]:
    """A row for each step, layer, circuit and head; waits for the measurement under way."""
    return head_rows(watch.trajectory)


def draw(watch: WatchedRun, axes: Any) -> None:
    """Stable ranks over the steps, as far as they are measured."""
    try:
        found = watch.trajectory_so_far(DRAWN) if watch.active else None
    except Exception as error:
        say(axes, told(error)[:80])
        return
    draw_dataset(axes, found)


def draw_dataset(axes: Any, found: xarray.Dataset | None, marked: Any = ()) -> None:
    if found is None or not (np.nan_to_num(found["stable_rank"].values) > 0).any():
        say(axes, "nothing measured yet" if found is None else "no head has moved yet")
    else:
        draw_small(axes, found, marked)
