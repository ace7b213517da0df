"""Neighbours of the example system `squares`, for what it cannot do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import numpy as np
from scipy.integrate import quad

import saddlescope as ss
from saddlescope.templates.squares import Squares
from saddlescope.templates.squares.data import State, Weights
from saddlescope.templates.squares.system import SquaresTheory

NOISE = np.linspace(-1, 1, 60)[:, None]
"""What a stored sample has beside the target."""


def tiny(kind: Any = Squares, **fields: Any) -> Any:
    """A system with its tiny preset and other settings."""
    return kind(kind.preset("tiny").replace(**fields))


def times(stages) -> list[float]:
    return [stage.time for stage in stages]


class PairsTraining(ss.ExactDescent, ss.HasSamples, ss.HasFreshData):
    def loss(self, weights, frame, batch=None, key=None):
        targets = frame.p if batch is None else batch.p
        return ((weights.u[0] * weights.u[1] - targets) ** 2).sum(-1).mean()

    def descend(self, state, frame, learning_rate):
        return Weights(state.u + 2 * learning_rate * self.system.flow.velocity(state, frame).u)

    def samples(self, frame):
        return State(frame.p + NOISE)

    def draw(self, frame, key, size):
        return State(frame.p + jax.random.normal(key, (size, len(frame.p))))

    def symmetries(self, seed):
        return (ss.Symmetry("u and v may be exchanged", lambda w: Weights(w.u[::-1])),)


class PairsFlow(ss.Flow, ss.HasJacobian, ss.HasProducts, ss.HasInvariants):
    arrays = "batched"

    def velocity(self, state, frame):
        return Weights(state.u[..., ::-1, :] * (frame.p - state.u[..., :1, :] * state.u[..., 1:, :]))

    def linearize(self, state, frame):
        first, second = state.u[..., :1, :], state.u[..., 1:, :]

        def product(x):
            moved = x.u[..., :1, :] * second + x.u[..., 1:, :] * first
            return Weights(x.u[..., ::-1, :] * (frame.p - first * second) - state.u[..., ::-1, :] * moved)

        return product

    def jacobian(self, frame):
        def matrix(state):
            shape = state.u.shape[-2:]
            product = self.linearize(state, frame)
            columns = [product(Weights(unit.reshape(shape))).u for unit in np.eye(np.prod(shape))]
            return np.stack([column.reshape(*state.u.shape[:-2], -1) for column in columns], axis=-1)

        return matrix

    def conserved(self, point, frame):
        return point.u[..., 0, :] ** 2 - point.u[..., 1, :] ** 2


class PairsTheory(SquaresTheory, ss.HasLandmarks):
    def landmarks(self, frame):
        """From every small start the largest target is learned first."""
        known = super().predict(ss.Start(Weights(np.full(len(frame.p), 1e-6)), frame))
        return replace(
            known,
            stages=tuple(replace(stage, time=None) for stage in known.stages),
            plateaus=tuple(Weights(np.sqrt(np.stack([plateau.p, plateau.p]))) for plateau in known.plateaus),
        )

    def predict(self, start):
        """Time is the integral of dp / ((s − p)(u² + v²)), where u² + v² is the root of (u² − v²)² + 4p²."""
        known, kept = self.landmarks(start.frame), self.system.flow.conserved(start.point, start.frame)
        first = self.system.view(start.point, start.frame).p

        def time(i, s):
            # In log p, since p grows by many orders of magnitude.
            pace = lambda x: np.exp(x) / ((s - np.exp(x)) * np.hypot(kept[i], 2 * np.exp(x)))  # noqa: E731
            return quad(pace, np.log(first[i]), np.log(s / 2), epsrel=1e-11)[0]

        times = [time(mark.index[0], start.frame.p[mark.index[0]]) for mark in known.marks]
        stages = [replace(stage, time=time) for stage, time in zip(known.stages, times, strict=True)]
        return replace(known, stages=tuple(stages))


class Pairs(Squares):
    """p = u v for each coordinate: its parts have every ability that a part may have.

    The rows of `Weights.u` are u and v; the flow, along half of the gradient, keeps u² − v².
    """

    name = "squares/pairs"
    training = ss.part(PairsTraining)
    flow = ss.part(PairsFlow)
    theory = ss.part(PairsTheory)

    def clock(self, frame):
        return 2.0

    def start(self, seed):
        targets = np.array(self.spec.targets)
        rng = np.random.default_rng(seed)
        u = self.spec.init_scale * np.exp(0.3 * rng.normal(size=(2, len(targets))))
        return ss.Start(Weights(u), State(targets))

    def view(self, point: Any, frame: State):
        return State(point.u[..., 0, :] * point.u[..., 1, :])

    def measure(self, view, frame):
        return {"loss": ((view.p - frame.p) ** 2).sum(-1), "p": view.p}
