"""How a run shows itself."""

from __future__ import annotations

from typing import Any

from saddlescope.core.run import Run

from .curves import draw_runs, settings_of
from .display import Card
from .words import closing_lines, number

COLUMNS = ("stage", "label", "time", "loss after")


def card(run: Run) -> Card:
    found = [(str(stage.index), stage.label, number(stage.time), number(stage.loss, 9)) for stage in run.stages]
    headline = f"{run.face} {run.system.name}, seed {run.seed}: {settings_of(run.system)}"
    return Card(headline, COLUMNS, found, ("stage", "time", "loss after"), closing_lines(run))


def rows(run: Run) -> list[dict[str, Any]]:
    """A row for each stage; `run.trajectory.to_dataframe()` has every moment."""
    return [{"seed": run.seed, **stage.to_dict()} for stage in run.stages]


def draw(run: Run, axes: Any) -> None:
    draw_runs(axes, [run])
