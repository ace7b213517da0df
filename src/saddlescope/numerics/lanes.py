"""Many stiff systems at once: Rodas5P with its own step in every lane, on stacked small matrices.

A Rosenbrock method needs one inverse and no Newton iteration per step, so a batch never waits for its slowest lane's
iterations; and since every lane has its own time and step, none waits for another's drop. Lanes that are done make
room for the next.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .integrate import DIVERGED, FINISHED, MAX_STEPS, STOPPED, Path
from .rodas5p import GAMMA, first_change, quintic, stages, step_factor

WIDTH = 256
"""Lanes in flight: enough to hide NumPy's call overhead, few enough to stay in cache."""


def rodas5p_step(velocity, jacobian, state, speed, step):
    """One step of every lane: state (B, n), speed = velocity(state), step (B,). Returns the new state and its error."""
    inverse_step = 1 / step[:, None]
    diagonal = np.arange(state.shape[1])
    matrix = -jacobian(state)
    matrix[:, diagonal, diagonal] += inverse_step / GAMMA
    inverse = np.linalg.inv(matrix)
    return stages(velocity, lambda pull: (inverse @ pull[:, :, None])[:, :, 0], state, speed, inverse_step)


def integrate_lanes(
    velocity: Callable[[np.ndarray], np.ndarray],
    jacobian: Callable[[np.ndarray], np.ndarray],
    states: np.ndarray,
    *,
    end: float,
    rtol: float = 1e-8,
    atol: float = 1e-11,
    watch: Callable[[np.ndarray], np.ndarray],
    stop: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray],
    keep_every: int = 3,
    max_steps: int = 100_000,
    report: Callable[[int], None] = lambda done: None,
) -> list[Path]:
    """Integrate every row of `states` (N, n) from time 0 to `end`, or until it says stop.

    velocity, jacobian: of a batch (B, n).  watch: signals (B, S) whose zero crossings are located.
    stop: (time (B,), signals (B, S), time of the latest crossing (B,)) -> which lanes are done (B,).
    Every `keep_every`-th step is kept in the paths, and every crossing.
    """
    total, size = states.shape
    paths = [_Recorder(state) for state in states]
    waiting = iter(range(total))
    lanes = _Lanes.empty(size)
    finished = 0
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        while True:
            room = WIDTH - len(lanes.number)
            fresh = [number for _, number in zip(range(room), waiting, strict=False)] if room >= WIDTH // 8 else []
            if fresh:
                lanes = lanes.joined(np.array(fresh), states[fresh], velocity, watch, rtol, atol)
            if not len(lanes.number):
                return [path.finished() for path in paths]
            step = np.minimum(lanes.step, end - lanes.time)
            new, error = rodas5p_step(velocity, jacobian, lanes.state, lanes.speed, step)
            scale = atol + rtol * np.maximum(np.abs(lanes.state), np.abs(new))
            size_of_error = np.sqrt(np.mean((error / scale) ** 2, axis=1))
            size_of_error[~np.isfinite(size_of_error)] = 1e10
            good = size_of_error <= 1
            signals = np.where(good[:, None], watch(new), lanes.signals)
            for lane, which in zip(*np.nonzero(np.sign(signals) != np.sign(lanes.signals)), strict=True):
                moment, state = _crossing(velocity, jacobian, watch, lanes, new, step, lane, which)
                paths[lanes.number[lane]].crossing(moment, state, int(which))
                lanes.crossed[lane] = max(lanes.crossed[lane], moment)
            lanes.advance(good, new, step, signals, step * step_factor(size_of_error, lanes.rejected))
            ended = good & (stop(lanes.time, signals, lanes.crossed) | (lanes.time >= end))
            lost = (lanes.step < np.spacing(lanes.time)) | (lanes.taken >= max_steps)
            for lane in np.flatnonzero(good & ((lanes.taken % keep_every == 0) | ended | lost)):
                paths[lanes.number[lane]].point(lanes.time[lane], lanes.state[lane])
            for lane in np.flatnonzero(ended | lost):
                outcome = FINISHED if lanes.time[lane] >= end else STOPPED
                if lost[lane]:
                    outcome = MAX_STEPS if lanes.taken[lane] >= max_steps else DIVERGED
                paths[lanes.number[lane]].close(outcome, int(lanes.taken[lane]))
                finished += 1
            if (ended | lost).any():
                lanes = lanes.kept(~(ended | lost))
                report(finished)
            if len(lanes.number):
                lanes.speed = velocity(lanes.state)


class _Lanes:
    """The lanes in flight; every attribute has the lane as its first axis."""

    FIELDS = ("number", "state", "speed", "time", "step", "signals", "crossed", "rejected", "taken")

    def __init__(self, *values: np.ndarray):
        for name, value in zip(self.FIELDS, values, strict=True):
            setattr(self, name, value)

    number: np.ndarray
    state: np.ndarray
    speed: np.ndarray
    time: np.ndarray
    step: np.ndarray
    signals: np.ndarray
    crossed: np.ndarray
    rejected: np.ndarray
    taken: np.ndarray

    @classmethod
    def empty(cls, size: int) -> _Lanes:
        none = np.zeros(0)
        whole, rows = none.astype(int), np.zeros((0, size))
        return cls(whole, rows, rows, none, none, np.zeros((0, 0)), none, none.astype(bool), whole)

    def joined(self, number, states, velocity, watch, rtol, atol) -> _Lanes:
        speed, signals = velocity(states), watch(states)
        scale = atol + rtol * np.abs(states)
        norms = [np.sqrt(np.mean((part / scale) ** 2, axis=1)) for part in (states, speed)]
        zero = np.zeros(len(number))
        first = 0.01 * norms[0] / np.maximum(norms[1], np.finfo(float).tiny)
        new = (number, states, speed, zero, first, signals, zero, zero.astype(bool), zero.astype(int))
        if not len(self.number):
            return _Lanes(*(value.copy() for value in new))
        return _Lanes(
            *(np.concatenate([getattr(self, name), value]) for name, value in zip(self.FIELDS, new, strict=True))
        )

    def kept(self, which: np.ndarray) -> _Lanes:
        return _Lanes(*(getattr(self, name)[which] for name in self.FIELDS))

    def advance(self, good, new, step, signals, next_step) -> None:
        self.state = np.where(good[:, None], new, self.state)
        self.time = np.where(good, self.time + step, self.time)
        self.signals, self.step, self.rejected = signals, next_step, ~good
        self.taken = self.taken + good


class _Recorder:
    def __init__(self, start: np.ndarray):
        self.times, self.states = [0.0], [start.copy()]
        self.crossings: list[tuple[float, int]] = []
        self.outcome, self.steps = FINISHED, 0

    def point(self, time: float, state: np.ndarray) -> None:
        self.times.append(float(time))
        self.states.append(state.copy())

    def crossing(self, time: float, state: np.ndarray, which: int) -> None:
        self.crossings.append((time, which))
        self.point(time, state)

    def close(self, outcome: str, steps: int) -> None:
        self.outcome, self.steps = outcome, steps

    def finished(self) -> Path:
        order = np.argsort(self.times, kind="stable")
        crossings = tuple(sorted(self.crossings))
        return Path(np.array(self.times)[order], np.array(self.states)[order], self.outcome, crossings, 9 * self.steps)


def _crossing(velocity, jacobian, watch, lanes, new, step, lane, which):
    """Moment and state at which a signal changes its sign within one lane's step."""
    ends = np.stack([lanes.state[lane], new[lane]])
    speed = velocity(ends)
    bend = np.einsum("bij,bj->bi", jacobian(ends), speed)
    inside = quintic(ends, speed, bend, step[lane])
    share = first_change(lambda x: watch(inside(x))[:, which], lanes.signals[lane, which])
    return float(lanes.time[lane] + share * step[lane]), inside(np.array([share]))[0]
