"""Stages of curves: passages of marks, noise-free drops, noisy drops."""

from __future__ import annotations

import numpy as np
import pytest

from saddlescope.analysis.stages import detect_stages, looks_noisy, slowest, stages_at_marks
from saddlescope.core.registry import system
from saddlescope.core.stage import Mark, Stage
from saddlescope.dynamics.flow import flow
from saddlescope.lab.run import measured_stages


def staircase(time, drops, levels, width=0.02):
    """A smooth staircase in log-time."""
    loss = np.full_like(time, levels[0])
    for moment, before, after in zip(drops, levels, levels[1:], strict=False):
        loss -= (before - after) / (1 + np.exp(-np.log(time / moment) / width))
    return loss


def test_passages():
    time = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    series = {"x": np.array([3.0, 1.0, 2.0, 0.0, 1.0, 4.0])}
    assert Mark("x", 2.0, "falls").passage(time, series) == pytest.approx(0.5)
    assert Mark("x", 3.5, "rises").passage(time, series) == pytest.approx(4 + 2.5 / 3)
    assert Mark("x", 0.5, "stays above").passage(time, series) == pytest.approx(3.5)
    assert Mark("x", -1.0, "stays above").passage(time, series) == 0.0
    assert Mark("x", 9.0, "stays above").passage(time, series) is None
    assert Mark("x", -1.0, "falls").passage(time, series) is None
    assert Mark("x", 9.0, "falls").passage(time, series) == 0.0  # beyond the level from the start
    assert Mark("x", 0.0, "peak").passage(time, {"x": -series["x"]}) == 3.0
    assert Mark("x", 0.0, "peak").passage(time, series) is None  # the highest point is the end: no peak was passed
    assert Mark("x", 2.0, "falls", (1,)).passage(time, {"x": np.stack([time, series["x"]], axis=1)}) == pytest.approx(
        0.5
    )


def test_level_of_a_plateau_is_taken_where_it_is_flattest():
    time = np.geomspace(1, 1e4, 2000)
    loss = staircase(time, [50, 1000], [1.0, 0.6, 0.1])
    assert slowest(time, loss, 50, 1000) == pytest.approx(0.6, abs=1e-6)


def test_stages_keep_their_predicted_order():
    time = np.geomspace(1, 1e4, 500)
    loss = staircase(time, [50, 1000], [1.0, 0.6, 0.1])
    marks = [Mark("loss", 0.8), Mark("loss", 0.35), Mark("loss", 0.01)]
    predicted = [Stage(index, None, None, f"mode {index}") for index in (1, 2, 3)]
    found = stages_at_marks(time, {"loss": loss}, marks, predicted)
    assert [stage.index for stage in found] == [1, 2]
    assert [stage.time for stage in found] == pytest.approx([50, 1000], rel=1e-3)
    assert [stage.loss for stage in found] == pytest.approx([0.6, 0.1], abs=1e-6)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("scale", [0.03, 0.001])
def test_drops_of_a_flow_are_found_without_theory(scale, seed):
    chosen = system("linear_icl", init_scale=scale)
    trajectory = flow(chosen, seed)
    known = measured_stages(trajectory, chosen.predict(chosen.start(seed)))
    found = detect_stages(trajectory["time"].values, trajectory["loss"].values)
    assert not looks_noisy(trajectory["loss"].values)
    assert len(found) == 4
    # The steepest moment and the midpoint of a drop are some units apart, of thousands.
    assert [stage.time for stage in found] == pytest.approx([stage.time for stage in known], rel=2e-2)
    assert all(stage.confidence > 0.5 for stage in found)


def test_smooth_decay_has_at_most_one_stage():
    time = np.geomspace(0.01, 100, 400)
    assert len(detect_stages(time, np.exp(-time))) <= 1
    assert detect_stages(time, np.ones(400)) == []


@pytest.mark.parametrize("seed", range(5))
def test_noisy_staircase(seed):
    rng = np.random.default_rng(seed)
    time = np.geomspace(1, 1e5, 3000)
    drops, levels = [60, 900, 9000], [1.0, 0.6, 0.35, 0.2]
    loss = staircase(time, drops, levels, 0.05) + 0.02 * rng.standard_normal(len(time))
    assert looks_noisy(loss)
    found = detect_stages(time, loss)
    assert len(found) == 3
    # A resampled grid of 600 points over five decades is 2% wide; three cells are allowed.
    assert [stage.time for stage in found] == pytest.approx(drops, rel=0.06)
    assert [stage.loss_after for stage in found] == pytest.approx(levels[1:], abs=0.02)
    assert all(stage.confidence > 0.9 for stage in found)
    assert [s.time for s in detect_stages(time, loss, count=3)] == pytest.approx(drops, rel=0.06)


@pytest.mark.parametrize("start", [0.0, 10.0, -500.0])
def test_times_of_a_noisy_curve_are_those_of_its_axis(start):
    """Linear steps from zero, from above and from below: drops are reported on the curve's own clock."""
    rng = np.random.default_rng(1)
    time = start + 10.0 * np.arange(1000)
    loss = np.where(time < 300, 1.0, np.where(time < 3000, 0.5, 0.2)) + 0.02 * rng.standard_normal(1000)
    found = detect_stages(time, loss)
    assert [stage.time for stage in found] == pytest.approx([300, 3000], rel=0.06)
    assert all(stage.start <= stage.time <= stage.end for stage in found)


@pytest.mark.parametrize("seed", range(20))
def test_pure_noise_has_no_stage(seed):
    """Five standard errors at some ten thousand pairs of segments: one false step in a hundred curves, at most."""
    rng = np.random.default_rng(seed)
    assert detect_stages(np.arange(1.0, 2001), 1 + 0.1 * rng.standard_normal(2000)) == []


@pytest.mark.parametrize(
    ("time", "loss", "words"),
    [
        (np.arange(20.0), np.r_[np.ones(10), np.nan, np.ones(9)], "not finite at row 10"),
        (np.arange(20.0), np.ones(19), "equal length"),
        (np.arange(5.0), np.ones(5), "at least 8"),
        (np.zeros(20), np.ones(20), "increase"),
        (np.arange(20.0), np.random.default_rng(0).random(20), "at least 40"),
        (np.ones((3, 9)), np.ones((3, 9)), "two columns"),
    ],
)
def test_bad_curves_get_a_clear_word(time, loss, words):
    with pytest.raises(ValueError, match=words):
        detect_stages(time, loss)
