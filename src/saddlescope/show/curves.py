"""Loss over time with the plateaus and drops that theory expects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from saddlescope.core.stage import Prediction

from .style import FACES


def draw_losses(
    axes: Any,
    curves: Sequence[tuple[str, Any, Any]],
    prediction: Prediction | None,
    title: str,
    drops: bool = True,
) -> None:
    """curves: (face, time, loss).  Time is logarithmic: the stages of a small start spread over decades."""
    named: set[str] = set()
    for number, (face, time, loss) in enumerate(curves):
        label = face if face not in named else None
        named.add(face)
        style = {"flow": "-", "train": "--"}.get(face, "-")
        axes.plot(
            time[1:],
            loss[1:],
            style,
            color=FACES[face],
            lw=1.4 if drops else 0.9,
            label=label,
            zorder=3 + number * 0.01,
        )
    if prediction is not None:
        _draw_prediction(axes, prediction, drops)
    if curves and curves[0][1][-1] > 1e-30:  # matplotlib's log ticks do not end below
        axes.set_xscale("log")
        first = min(float(time[1]) for _, time, _ in curves)
        last = max(float(time[-1]) for _, time, _ in curves)
        moments = [stage.time for stage in prediction.stages if stage.time] if prediction else []
        axes.set_xlim(max(first, min(moments, default=first) / 30), last)
    axes.set(xlabel="time (gradient-flow units)", ylabel="loss", title=title)
    axes.legend(loc="upper right", frameon=True, framealpha=0.9, edgecolor="none")


def _draw_prediction(axes: Any, prediction: Prediction, drops: bool) -> None:
    grey = FACES["predict"]
    levels = [prediction.initial_loss, *(stage.loss for stage in prediction.stages)]
    for number, level in enumerate(levels):
        if level is not None:
            axes.axhline(level, color=grey, lw=0.7, ls=":", label="predicted plateaus" if number == 0 else None)
    for number, stage in enumerate(prediction.stages):
        if drops and stage.time is not None:
            label = "predicted drops" if number == 0 else None
            axes.axvline(stage.time, color=grey, lw=0.7, alpha=0.6, label=label)
