"""Loss over time with the plateaus and drops that theory expects, or with the stages found without it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from saddlescope.core.run import Run
from saddlescope.core.spec import Spec
from saddlescope.core.stage import Prediction, Stage
from saddlescope.core.words import printable

from .style import FACES

if TYPE_CHECKING:
    from saddlescope.analysis.stages import FoundStage
    from saddlescope.lab.curves import Curve


SMALLEST = 1e-30
"""Matplotlib's ticks on a logarithmic axis do not end below."""

BEFORE = (1.5, 10.0)
"""How far before the first predicted drop a picture of a prediction begins, as a factor: as far as it goes on, within
these limits."""

AFTER = 1.3
"""How far beyond the last predicted drop its plateau is drawn, as a factor: as long as a run takes by default."""

SEVERAL = 4
"""Curves of one face from which on they are drawn thinner."""

ENTRIES = 4
"""Of a legend, in one row."""


def draw_runs(axes: Any, runs: Sequence[Run], title: str | None = None) -> None:
    """Losses of runs of one system over time, the plateaus that theory predicts, and drops whose times it knows.

    Runs of an optimizer that does not follow the gradient flow are drawn over steps, where the flow's predicted times
    mean nothing. Where theory knows no times, its plateaus are drawn over the number of the stage.
    """
    system = runs[0].system
    measured = [run for run in runs if run.trajectory is not None]
    predictions = [run.prediction for run in runs if run.prediction is not None]
    by_steps = bool(measured) and not any(run.on_flow_time for run in measured)
    seeds = {run.seed for run in runs}
    if measured:
        limits = _draw_curves(axes, measured, by_steps, thin=len(seeds) >= SEVERAL)
        _draw_levels(axes, predictions)
        if len(seeds) == 1 and predictions and not by_steps:
            _draw_moments(axes, predictions[0], limits)
    else:
        by_stage = _draw_predictions(axes, predictions)
        axes.set_xlabel("stage" if by_stage else time_label(system))
    if measured:
        axes.set_xlabel("steps of the optimizer" if by_steps else time_label(system))
        if not by_steps:
            _add_steps(axes, measured)
    axes.set_ylabel("loss")
    axes.set_title(title_of(runs) if title is None else title, loc="left")
    legend_below(axes)


def draw_prediction(axes: Any, prediction: Prediction) -> None:
    """What theory says of one start: its staircase."""
    by_stage = _draw_predictions(axes, [prediction])
    axes.set(xlabel="stage" if by_stage else "time", ylabel="loss")
    legend_below(axes)


def time_label(system: Any) -> str:
    return system.time.label


def title_of(runs: Sequence[Run]) -> str:
    """What was run, from which seeds, and on a second line by which parameters."""
    faces = list(dict.fromkeys(run.face for run in runs))
    seeds = sorted({run.seed for run in runs})
    which = f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds, {seeds[0]} to {seeds[-1]}"
    return f"{runs[0].system.name}: {', '.join(faces)}, {which}\n{settings_of(runs[0].system)}"


def settings_of(system: Any, most: int = 78) -> str:
    """The preset that is nearest to these parameters, what differs from it, and the system's own sizes and scales, as
    far as they fit into so many letters."""
    spec = system.spec.to_dict()

    def differing(preset: str) -> dict[str, Any]:
        usual = system.preset(preset).to_dict()
        return {name: value for name, value in spec.items() if usual[name] != value}

    # Of two that are equally near, the everyday one.
    names = sorted(system.presets, key=lambda name: name != "quick")
    preset, changed = min(((name, differing(name)) for name in names), key=lambda found: len(found[1]))
    shared = {field.name for field in dataclasses.fields(Spec)}
    own = {name: value for name, value in spec.items() if name not in shared and _tells(value)}
    words = f"preset {preset}"
    for name, value in {**changed, **own}.items():
        longer = f"{words}, {name}={_short(value)}"
        if len(longer) > most:
            return f"{words}, ..."
        words = longer
    return words


def _tells(value: Any) -> bool:
    """Numbers and lists of them tell more than switches, most of which are off."""
    return not isinstance(value, bool | str) and value not in (None, 0)


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).replace(" ", "")


def legend_below(axes: Any) -> None:
    """A legend that covers no curve: below the panel where the figure is this panel's own."""
    entries, labels = axes.get_legend_handles_labels()
    if not entries:
        return
    figure = axes.figure
    if len(figure.axes) == 1 and figure.get_layout_engine() is not None:
        figure.legend(entries, labels, loc="outside lower center", ncols=min(len(entries), ENTRIES))
    else:
        axes.legend(entries, labels, loc="best", fontsize="small")


def _draw_curves(axes: Any, runs: Sequence[Run], by_steps: bool, *, thin: bool) -> tuple[float, float]:
    """Returns the limits of the x-axis."""
    named: set[str] = set()
    first, last = [], []
    for number, run in enumerate(runs):
        x, loss = run.series("step" if by_steps else "time"), run.series("loss")
        shown = x > 0 if len(x) > 1 else slice(None)  # zero has no place on a logarithmic axis
        label = run.face
        if not (by_steps or run.on_flow_time):
            label += f" ({run.system.spec.optimizer}: time is steps x learning_rate)"
        look = {"ls": "--" if run.face == "train" and len(runs) > 1 else "-", "lw": 0.9 if thin else 1.4}
        if len(x[shown]) == 1:
            look["marker"] = "o"
        axes.plot(
            x[shown],
            loss[shown],
            color=FACES[run.face],
            label=None if label in named else label,
            zorder=3 + number * 0.01,
            **look,
        )
        named.add(label)
        first.append(float(x[shown][0]))
        last.append(float(x[shown][-1]))
    left, right = min(first), max(last)
    if not by_steps:
        # A flow's first steps are tiny: the picture begins not long before anything happens.
        moments = [t for run in runs for t in _known_times(run.prediction) if left < t <= right]
        left = max(left, min(moments, default=left) / 30)
    if right > left and right > SMALLEST:
        axes.set_xscale("log")
        axes.set_xlim(left, right)
    _keep_in_sight(axes, runs)
    return left, right


def _keep_in_sight(axes: Any, runs: Sequence[Run]) -> None:
    """A loss that runs away would press all else flat."""
    start = max(abs(float(run.series("loss")[0])) for run in runs)
    top = max(float(np.max(loss[np.isfinite(loss)], initial=-np.inf)) for loss in (r.series("loss") for r in runs))
    if start > 0 and top > 10 * start:
        axes.set_ylim(top=3 * start)


def _known_times(prediction: Prediction | None) -> list[float]:
    return [float(t) for t in prediction.times if np.isfinite(t) and t > 0] if prediction else []


def _draw_levels(axes: Any, predictions: Sequence[Prediction]) -> None:
    """Plateaus on which all these predictions agree."""
    levels = [np.array(prediction.levels) for prediction in predictions if prediction.staircase]
    if not levels or any(one.shape != levels[0].shape or not _same(one, levels[0]) for one in levels):
        return
    known = levels[0][np.isfinite(levels[0])]
    for number, level in enumerate(known):
        axes.axhline(level, color=FACES["predict"], lw=0.7, ls=":", label="predicted plateaus" if number == 0 else None)


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(np.allclose(one, other, rtol=1e-6, atol=0, equal_nan=True))


def _draw_moments(axes: Any, prediction: Prediction, limits: tuple[float, float]) -> None:
    """Those that lie within the picture."""
    label = "predicted drops" if prediction.staircase else "predicted moments"
    for moment in _known_times(prediction):
        if limits[0] <= moment <= limits[1]:
            axes.axvline(moment, color=FACES["predict"], lw=0.7, alpha=0.6, label=label)
            label = None


def _draw_predictions(axes: Any, predictions: Sequence[Prediction]) -> bool:
    """Staircases; over time where all times are known, else over the number of the stage, which is then returned."""
    by_stage = any(not np.isfinite(one.times).all() or not len(one.times) for one in predictions)
    if not by_stage:
        moments = [moment for one in predictions for moment in _known_times(one)]
        first, last = min(moments), max(moments)
        left, right = first / np.clip(last / first, *BEFORE), last * AFTER
        if right > SMALLEST:
            axes.set_xscale("log")
        axes.set_xlim(left, right)
    thin = len(predictions) >= SEVERAL
    for number, one in enumerate(predictions):
        levels = np.array(one.levels)
        count = len(one.stages)
        if not one.staircase:
            _draw_turns(axes, one, first=number == 0)
            continue
        edges = np.arange(0.5, count + 1.5) if by_stage else np.r_[left, one.times]
        ends = np.r_[edges, edges[-1] + 1 if by_stage else right]
        label = "predicted" if number == 0 else None
        look = {"color": FACES["predict"], "lw": 0.9 if thin else 1.4, "label": label}
        axes.plot(ends, np.r_[levels, levels[-1]], drawstyle="steps-post", **look)
        if by_stage:
            axes.set_xticks(np.arange(1, count + 1) + 0.5, [_named(stage) for stage in one.stages])
    return by_stage


def _named(stage: Stage) -> str:
    return f"{stage.index}: {stage.label}" + (f"\nat {stage.time:.4g}" if stage.time is not None else "")


def _draw_turns(axes: Any, prediction: Prediction, *, first: bool) -> None:
    """Moments of a loss that rests nowhere: where it is known, it is a point."""
    grey = FACES["predict"]
    known = [level for level in prediction.levels if np.isfinite(level)]
    axes.axhline(known[0], color=grey, lw=0.7, ls=":", label="loss at the start" if first else None)
    for number, stage in enumerate(prediction.stages):
        if stage.time is None:
            continue
        axes.axvline(stage.time, color=grey, lw=0.9, label="predicted moments" if first and number == 0 else None)
        if first:
            place = {"xy": (stage.time, 0.5), "xycoords": axes.get_xaxis_transform(), "textcoords": "offset points"}
            axes.annotate(stage.label, xytext=(-3, 0), ha="right", va="center", rotation=90, fontsize="small", **place)
    axes.set_ylim(0, 1.08 * known[0])


def _add_steps(axes: Any, runs: Sequence[Run]) -> None:
    """Beside time, the steps that training took to it, where one number turns one into the other."""
    paces = set()
    for run in runs:
        if run.face == "train" and "step" in run.trajectory.coords and len(run.series("time")) > 1:
            time, step = run.series("time")[1:], run.series("step")[1:]
            paces.update(np.round(step / time / (step[-1] / time[-1]), 6))
            ratio = float(step[-1] / time[-1])
    if paces != {1.0}:
        return
    top = axes.secondary_xaxis("top", functions=(lambda time: time * ratio, lambda step: step / ratio))
    top.set_xlabel("steps of training")


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
    if time[0] > 0 and time[-1] > SMALLEST:
        axes.set_xscale("log")
    axes.set_xlim(time[0], time[-1])
    # Names from outside may hold a dollar sign, which is no formula.
    axes.set_xlabel(printable(curve.time_name), parse_math=False)
    axes.set_ylabel(printable(curve.loss_name), parse_math=False)
    axes.set_title(printable(title if stages else f"{title}: no stages"), pad=16, parse_math=False)
    legend_below(axes)
