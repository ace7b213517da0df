"""How runs from several seeds show themselves: by when each stage came."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

from saddlescope.core.run import Run

from . import of_run
from .curves import draw_runs, settings_of, title_of
from .display import Card
from .words import number

MOST = 60
"""Runs that are drawn: more would not be told apart."""

COLUMNS = ("stage", "label", "seen", "earliest", "median", "latest")


def card(runs: Sequence[Run]) -> Card:
    if not runs:
        return Card("no runs")
    one = runs[0]
    seeds = f"{len(runs)} {'seed' if len(runs) == 1 else 'seeds'}"
    headline = f"{one.face} {one.system.name}, {seeds}: {settings_of(one.system)}"
    ended = Counter(run.result.split(":")[0] for run in runs)
    return Card(
        f"{headline}; time of each stage",
        COLUMNS,
        distribution(runs),
        ("stage", *COLUMNS[2:]),
        ["; ".join(f"{count} {result}" for result, count in ended.items())],
    )


def distribution(runs: Sequence[Run]) -> list[tuple[str, ...]]:
    """Of every stage, how many runs saw it, and when: the earliest, the median, the latest."""
    stages = {stage.index: stage.label for run in runs for stage in run.stages}
    found = []
    for index, label in sorted(stages.items()):
        times = sorted(s.time for run in runs for s in run.stages if s.index == index and s.time is not None)
        picks = [times[0], statistics.median(times), times[-1]] if times else [None] * 3
        found.append((str(index), label, str(len(times)), *map(number, picks)))
    return found


def rows(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """A row for each stage of each seed."""
    return [row for run in runs for row in of_run.rows(run)]


def draw(runs: Sequence[Run], axes: Any) -> None:
    if runs:
        title = None if len(runs) <= MOST else f"{title_of(runs[:MOST])}\nthe first {MOST} of {len(runs)} runs"
        draw_runs(axes, runs[:MOST], title)
