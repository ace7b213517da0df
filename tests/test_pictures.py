"""Pictures of runs and predictions: limits, lines, legends, titles; and what a comparison of the faces counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

import saddlescope as ss
from saddlescope.core.stage import Prediction, Stage
from saddlescope.lab.compare import Comparison
from saddlescope.show.curves import draw_runs, settings_of
from saddlescope.show.style import STYLE

TINY: Any = ss.subject("squares", "tiny")
ADAM = TINY.changed(optimizer="adam", learning_rate=0.01, steps=400)


def run(system, face, seed=0) -> Any:
    return ss.run(system, face, seed)


def axes_with(*runs) -> Any:
    import matplotlib

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(6.4, 3.6), layout="constrained")
        axes = figure.subplots()
        draw_runs(axes, runs)
        figure.draw_without_rendering()
    return axes


def curves(axes):
    """Lines of data: not those that span the whole picture."""
    return [line for line in axes.lines if line.get_transform() == axes.transData]


def in_sight(axes, line):
    """Whether a line has at least two points within the limits."""
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    x, y = line.get_data()
    return ((x >= left) & (x <= right) & (y >= low) & (y <= high)).sum() >= 2


@pytest.mark.parametrize("face", ["predict", "flow", "train"])
def test_no_picture_is_empty_and_no_axis_is_reversed(face):
    axes = axes_with(run(TINY, face))
    assert curves(axes) and all(in_sight(axes, line) for line in curves(axes))
    assert axes.get_xlim()[0] < axes.get_xlim()[1] and axes.get_xscale() == "log"
    assert axes.get_xlabel() and axes.get_ylabel() == "loss"


def test_adam_is_drawn_over_its_steps_without_the_times_of_the_flow():
    found = run(ADAM, "train")
    assert not found.on_flow_time
    axes = axes_with(found)
    (curve,) = curves(axes)
    assert axes.get_xlim() == (1, 400) and axes.get_xlabel() == "steps of the optimizer"
    assert np.array_equal(curve.get_xdata(), found.series("step")[1:]) and in_sight(axes, curve)
    spans = [line for line in axes.lines if line not in curves(axes)]
    assert len(spans) == 1 + len(found.prediction.stages) and all(len(set(line.get_ydata())) == 1 for line in spans)


def test_a_prediction_is_drawn_as_its_staircase():
    found = run(TINY, "predict")
    axes = axes_with(found)
    (stairs,) = curves(axes)
    assert stairs.get_drawstyle() == "steps-post" and axes.get_xscale() == "log"
    assert np.array_equal(stairs.get_xdata()[1:-1], found.prediction.times)
    assert np.array_equal(stairs.get_ydata()[:-1], found.prediction.levels)


def test_plateaus_without_times_are_drawn_over_the_number_of_the_stage():
    stages = (Stage(1, 2.0, 0.5, "first"), Stage(2, None, 0.0, "second"))
    marks = tuple(ss.Mark("loss", level) for level in (0.7, 0.2))
    axes: Any = Figure().subplots()
    Prediction(stages, marks, 1.0).plot(axes)
    assert axes.get_xlabel() == "stage" and axes.get_xscale() == "linear"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1: first\nat 2", "2: second"]
    assert list(axes.lines[0].get_ydata()) == [1.0, 0.5, 0.0, 0.0]


def test_moments_of_a_loss_that_rests_nowhere_are_no_staircase():
    stages = (Stage(1, 2.0, 0.5, "turns"),)
    axes: Any = Figure().subplots()
    Prediction(stages, (ss.Mark("loss", 0.7),), 1.0, staircase=False).plot(axes)
    assert [line.get_drawstyle() for line in axes.lines] == ["default", "default"]
    assert [text.get_text() for text in axes.texts] == ["turns"]


def test_the_legend_covers_no_curve():
    axes = axes_with(*ss.compare(TINY).runs.values())
    assert axes.get_legend() is None
    (legend,) = axes.figure.legends
    assert not legend.get_window_extent().overlaps(axes.get_window_extent())
    assert {text.get_text() for text in legend.get_texts()} >= {"flow", "train", "predicted plateaus"}


def test_a_panel_of_the_users_own_figure_has_its_legend_inside():
    figure = Figure()
    first, _ = figure.subplots(1, 2)
    run(TINY, "flow").plot(first)
    assert first.get_legend() is not None and not figure.legends


def test_steps_stand_beside_time():
    found = run(TINY, "train")
    (top,) = axes_with(found).child_axes
    assert top.get_xlabel() == "steps of training"
    bottom = np.array(axes_with(found).get_xlim())
    assert np.allclose(top.get_xlim(), bottom / (TINY.spec.learning_rate * TINY.clock(None)))


def test_titles_name_the_parameters():
    changed = ss.system("squares", init_scale=2e-3, targets=[5, 0.5])
    words = settings_of(changed)
    assert words.startswith("preset quick") and "init_scale=0.002" in words and "targets=[5.0,0.5]" in words
    title = axes_with(run(changed, "predict", 3)).get_title(loc="left")
    assert title == f"squares: predict, seed 3\n{words}"
    assert settings_of(TINY).startswith("preset tiny")


def test_many_seeds_show_only_plateaus_on_which_they_agree():
    runs = [run(TINY, "flow", seed) for seed in range(5)]
    axes = axes_with(*runs)
    assert len(curves(axes)) == 5 and "5 seeds, 0 to 4" in axes.get_title(loc="left")
    spans = [line for line in axes.lines if line not in curves(axes)]
    assert len(spans) == len(TINY.spec.targets) + 1


def test_a_loss_that_runs_away_does_not_press_the_rest_flat():
    found = run(TINY.changed(learning_rate=30.0, steps=50), "train")
    assert found.result.startswith("diverged")
    axes = axes_with(found)
    assert axes.get_ylim()[1] <= 3 * found.series("loss")[0]


# ---- comparison ------------------------------------------------------------------------------------------


def test_a_minimum_at_zero_is_compared_as_a_share_of_the_drop():
    result: Any = ss.compare(TINY)
    flow, predicted = (result.runs[face] for face in ("flow", "predict"))
    assert flow.stages[-1].loss < 1e-4  # of which a relative difference would say nothing
    losses = [float(flow.series("loss")[0]), *(stage.loss for stage in flow.stages)]
    shares = [
        abs(one.loss - after) / (before - after)
        for one, before, after in zip(predicted.stages, losses, losses[1:], strict=False)
    ]
    gaps = result.differences()
    assert gaps["predict"]["loss"] == pytest.approx(max(shares)) and set(gaps["train"]) == {"time", "loss"}


def test_last_losses_are_compared_where_the_shorter_run_ends():
    slow = TINY.changed(learning_rate=0.002)  # training that is the flow, nearly
    flow = run(slow, "flow")
    end = flow.stages[-1].time * 1.05  # the last drop is not over
    train = run(slow.changed(horizon=end), "train")
    result = Comparison(slow, 0, {"flow": flow, "train": train})
    assert result.common_end("train") == pytest.approx(end, rel=1e-2)
    drop = flow.stages[-2].loss - flow.stages[-1].loss
    at_the_ends = abs(train.stages[-1].loss - flow.stages[-1].loss) / drop
    assert result.differences()["train"]["loss"] < at_the_ends / 10


def test_the_time_of_another_optimizer_is_not_compared():
    gaps = ss.compare(ADAM).differences()
    assert set(gaps["train"]) == {"loss"} and set(gaps["predict"]) == {"time", "loss"}
