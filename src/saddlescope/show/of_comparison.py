"""How a comparison of the faces shows itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .curves import draw_runs, settings_of
from .display import Card
from .words import gap_lines, number

if TYPE_CHECKING:
    from saddlescope.lab.compare import Comparison


def card(result: Comparison) -> Card:
    faces = list(result.runs)
    numbers = [*(f"{face} time" for face in faces), *(f"{face} loss" for face in faces)]
    found = [
        (
            str(row["index"]),
            row["label"],
            *(number(row[face]["time"]) for face in faces),
            *(number(row[face]["loss"], 5) for face in faces),
        )
        for row in result.rows()
    ]
    headline = f"{result.system.name}, seed {result.seed}, {', '.join(faces)}: {settings_of(result.system)}"
    return Card(headline, ("stage", "label", *numbers), found, ("stage", *numbers), gap_lines([result]))


def rows(result: Comparison) -> list[dict[str, Any]]:
    """A row for each stage: its time and loss in each face."""
    return [
        {
            "seed": result.seed,
            "index": row["index"],
            "label": row["label"],
            **{f"{face}_{name}": row[face][name] for face in result.runs for name in ("time", "loss")},
        }
        for row in result.rows()
    ]


def draw(result: Comparison, axes: Any) -> None:
    draw_runs(axes, list(result.runs.values()))
