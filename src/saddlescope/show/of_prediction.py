"""How a prediction shows itself."""

from __future__ import annotations

from typing import Any

from saddlescope.core.stage import Prediction

from .curves import draw_prediction
from .display import Card
from .words import number

COLUMNS = ("stage", "label", "time", "loss after")


def card(prediction: Prediction) -> Card:
    rows = [(str(stage.index), stage.label, number(stage.time), number(stage.loss, 9)) for stage in prediction.stages]
    count = len(rows)
    headline = (
        f"prediction: {count} {'stage' if count == 1 else 'stages'}, from loss {number(prediction.initial_loss, 9)}"
    )
    lines = [*prediction.notes, prediction.solver]
    return Card(headline, COLUMNS, rows, ("stage", "time", "loss after"), lines)


def rows(prediction: Prediction) -> list[dict[str, Any]]:
    """A row for each stage."""
    return [stage.to_dict() for stage in prediction.stages]


def draw(prediction: Prediction, axes: Any) -> None:
    draw_prediction(axes, prediction)
