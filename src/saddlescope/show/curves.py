"""Loss over time with the plateaus and drops that theory expects, or with the stages found without it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from saddlescope.core.stage import Prediction
from saddlescope.core.words import printable

from .style import FACES

if TYPE_CHECKING:
    from saddlescope.analysis.stages import FoundStage
    from saddlescope.lab.curves import Curve


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
        style = {"color": FACES[face], "ls": "--" if face == "train" else "-", "lw": 1.4 if drops else 0.9}
        axes.plot(time[1:], loss[1:], label=label, zorder=3 + number * 0.01, **style)
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


def draw_stages(axes: Any, curve: Curve, stages: Sequence[FoundStage], title: str) -> None:
    """A curve from outside with the stages found in it: shaded from start to end, a line where each is steepest."""
    shown = curve.time > 0 if curve.time[0] == 0 else slice(None)  # zero has no place on a logarithmic axis
    time, loss = curve.time[shown], curve.loss[shown]
    axes.plot(time, loss, color=FACES["flow"], lw=1.2, zorder=3)
    light, dark = 0.08, 0.18
    shade = light
    for number, stage in enumerate(stages):
        # Without noise one stage begins where the last one ends: two shades keep them apart.
        adjoins = number > 0 and stage.start <= stages[number - 1].end
        shade = light if adjoins and shade == dark else dark
        band = axes.axvspan(max(stage.start, time[0]), stage.end, color=FACES["train"], alpha=shade, lw=0)
        line = axes.axvline(stage.time, color=FACES["train"], lw=0.9, zorder=2)
        above = {"xy": (stage.time, 1), "xycoords": axes.get_xaxis_transform(), "textcoords": "offset points"}
        axes.annotate(str(number + 1), xytext=(0, 2), ha="center", color=FACES["train"], fontsize="small", **above)
        if number == 0:
            band.set_label("stage, from start to end")
            line.set_label("its steepest moment")
    if time[0] > 0 and time[-1] > 1e-30:  # matplotlib's log ticks do not end below
        axes.set_xscale("log")
    axes.set_xlim(time[0], time[-1])
    # Names from outside may hold a dollar sign, which is no formula.
    axes.set_xlabel(printable(curve.time_name), parse_math=False)
    axes.set_ylabel(printable(curve.loss_name), parse_math=False)
    axes.set_title(printable(title if stages else f"{title}: no stages"), pad=16, parse_math=False)
    if stages:
        axes.figure.legend(loc="outside lower center", ncols=2)
