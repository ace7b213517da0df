"""The system: its start, what is measured on it, and its three parts."""

from __future__ import annotations

from typing import Any

import numpy as np

from saddlescope import (
    Coordinate,
    Ending,
    ExactDescent,
    Flow,
    Limit,
    Mark,
    Observable,
    Prediction,
    Stage,
    Start,
    System,
    Theory,
    part,
)

from . import data, network, prediction, reduction
from .data import State, Weights
from .spec import SquaresSpec


class SquaresTraining(ExactDescent):
    def loss(self, weights: Weights, frame: State, batch: Any = None, key: Any = None) -> Any:
        return network.loss(weights, frame.p)

    def descend(self, state: State, frame: State, learning_rate: Any) -> State:
        return reduction.descend(state, frame.p, learning_rate)


class SquaresFlow(Flow):
    def reduce(self, weights: Weights, frame: State) -> State:
        return reduction.reduce(weights)

    def velocity(self, state: State, frame: State) -> State:
        return reduction.velocity(state, frame.p)


class SquaresTheory(Theory):
    limit = Limit("init_scale", (0.1, 0.01, 0.001), {})

    def predict(self, start: Start) -> Prediction:
        targets, first = start.frame.p, start.point.u**2
        times = prediction.drop_times(first, targets)
        order = np.argsort(times)
        plateaus = [State(prediction.plateau(targets, order[:count])) for count in range(len(order) + 1)]
        losses = [float(self.system.measure(state, start.frame)["loss"]) for state in plateaus]
        return Prediction(
            stages=tuple(
                Stage(number, float(times[i]), losses[number], f"coordinate {i + 1}")
                for number, i in enumerate(order, start=1)
            ),
            marks=tuple(Mark("p", targets[i] / 2, "rises", (int(i),)) for i in order),
            initial_loss=losses[0],
            plateaus=tuple(plateaus),
            observables=self.system.measure(plateaus[-1], start.frame),
            ending=Ending(arrival=Mark("loss", 1e-9 * losses[0])),
        )


class Squares(System):
    name = "squares"
    paper = "nobody2026"
    summary = "p = u² learns its largest target first"
    spec_type = SquaresSpec
    presets = {
        "tiny": {"targets": (2.0, 1.0), "init_scale": 1e-3},
        "quick": {},
        "paper": {"init_scale": 1e-6},
    }
    observables = {
        "loss": Observable("loss", symbol="L"),
        "p": Observable("square of each weight", "coordinate", symbol="p_i"),
    }
    training = part(SquaresTraining)
    flow = part(SquaresFlow)
    theory = part(SquaresTheory)

    def start(self, seed: int) -> Start:
        return Start(data.initial_weights(self.spec, seed), State(np.array(self.spec.targets)))

    def coordinates(self) -> dict[str, Coordinate]:
        return {
            "coordinate": Coordinate("coordinate", "coordinate", symbol="i"),
            "target": Coordinate("target", "coordinate", values=self.spec.targets, symbol="s_i"),
        }

    def view(self, point: Weights | State, frame: State) -> State:
        return reduction.reduce(point) if isinstance(point, Weights) else point

    def measure(self, view: State, frame: State) -> dict[str, Any]:
        return {"loss": ((view.p - frame.p) ** 2).sum() / 4, "p": view.p}
