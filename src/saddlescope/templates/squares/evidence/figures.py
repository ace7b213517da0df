"""Figures: functions that receive axes by the names of their panels, and runs by the names of their experiments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from saddlescope import Figure

from . import measures


def draw_staircase(axes: Mapping[str, Any], results: Mapping[str, Any]) -> None:
    left, right = axes["a"], axes["b"]
    for run in results["staircase"]:
        left.plot(run.series("time"), run.series("loss"), lw=1.2)
    for time in measures.predicted_times(results["staircase"][0]):
        left.axvline(time, color="0.7", lw=0.8, zorder=0)
    left.set(xlabel="time", ylabel="loss")
    sizes, times = np.array(measures.first_drops(results["scales"]))
    right.plot(sizes, times, "o-")
    right.set(xlabel="log(1/ε)", ylabel="first drop")


def draw_training(axes: Mapping[str, Any], results: Mapping[str, Any]) -> None:
    for run in results["training"]:
        axes["a"].plot(run.series("time"), run.series("p"))
    axes["a"].set(xlabel="time", ylabel="p")


FIGURES = (
    Figure(
        name="1",
        title="One coordinate after the other",
        source="Fig. 1",
        caption="a: the loss from several seeds, and the predicted drops of the first. b: the first drop against ε.",
        look_for="Drops at the grey lines; a straight line in b.",
        experiments=("staircase", "scales"),
        draw=draw_staircase,
        panels=("ab",),
        size=(7.0, 3.0),
    ),
    Figure(
        name="2",
        title="Gradient descent",
        source="Fig. 2",
        caption="Every coordinate p while u is trained by gradient descent, over time.",
        look_for="Each rises to its target s, the largest first.",
        experiments=("training",),
        draw=draw_training,
    ),
)
