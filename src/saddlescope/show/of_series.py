"""How a series of checkpoints shows itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .display import Card
from .growth import head_rows
from .of_watch import draw_dataset, model_of, span_of, table_of

if TYPE_CHECKING:
    from saddlescope.watch.series import Series

STEPS, FINDINGS = 10, 4
"""Shown in a table, and below it."""


def card(series: Series) -> Card:
    steps = [step for step, _ in series.checkpoints]
    headline = f"{span_of(steps, 'checkpoint')}, of {model_of(series.trajectory)}"
    lines = [f"{finding.kind}: {finding.message}" for finding in series.findings[:FINDINGS]]
    if len(series.findings) > FINDINGS:
        lines.append(f"and {len(series.findings) - FINDINGS} more in .findings")
    lines = lines or ["no duplicates, jumps, gaps or NaN"]
    learned = f"medians over all heads; {len(series.stages)} directions grew, .stages says when"
    notes = [f"note: {note}" for note in series.notes[:2]]
    return Card(headline, *table_of(series.trajectory, STEPS), lines=[learned, *lines, *notes])


def rows(series: Series) -> list[dict[str, Any]]:
    """A row for each step, layer, circuit and head."""
    return head_rows(series.trajectory)


def draw(series: Series, axes: Any) -> None:
    """Stable ranks over the steps; those with findings are marked."""
    marked = sorted({step for finding in series.findings for step in finding.steps})
    draw_dataset(axes, series.trajectory, marked)
