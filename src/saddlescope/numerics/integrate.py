"""Ordinary differential equations by SciPy's steppers, with crossings located inside the step.

Drops are short against plateaus: a grid of saved points alone would misplace them by a percent, so every
crossing is found on the stepper's own interpolant.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import integrate as scipy_integrate

from .root import root_between

METHODS: dict[str, Any] = {
    "lsoda": scipy_integrate.LSODA,
    "radau": scipy_integrate.Radau,
    "bdf": scipy_integrate.BDF,
    "dop853": scipy_integrate.DOP853,
}

FINISHED, STOPPED, DIVERGED, MAX_STEPS, FAILED = (
    "finished",
    "stopped",
    "diverged",
    "max_steps_reached",
    "solver_failed",
)
"""Outcomes are values. STOPPED: the caller's `stop` said so."""


HOPE = 10_000
"""Steps after which it is asked whether the end can be reached at all."""


@dataclass(frozen=True)
class Path:
    """time (n,), state (n, size): the stepper's own steps with every crossing among them."""

    time: np.ndarray
    state: np.ndarray
    outcome: str
    crossings: tuple[tuple[float, int], ...]
    evaluations: int


def integrate(
    velocity: Callable[[float, np.ndarray], np.ndarray],
    state: np.ndarray,
    start: float,
    end: float,
    *,
    method: str = "lsoda",
    rtol: float = 1e-9,
    atol: float = 1e-12,
    jacobian: Callable[[float, np.ndarray], np.ndarray] | None = None,
    watch: Callable[[np.ndarray], np.ndarray] | None = None,
    stop: Callable[[float, np.ndarray], bool] | None = None,
    spacing: float = np.inf,
    max_steps: int = 1_000_000,
) -> Path:
    """Integrate from `start` to `end`.

    watch: signals of the state whose zero crossings are located and reported as (time, which).
    stop: asked after each step; True ends the run early.
    spacing: longer steps are saved at points in between too, on the stepper's own interpolant.
    """
    options: dict[str, Any] = {"rtol": rtol, "atol": atol}
    if method != "dop853":
        options["jac"] = jacobian
    # Overflow is divergence, and a solver's complaint a failure: both are reported as outcomes.
    with np.errstate(over="ignore", invalid="ignore"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="lsoda", category=UserWarning)
        stepper = METHODS[method](velocity, start, np.asarray(state, float), end, **options)
        times, states, crossings = [start], [stepper.y.copy()], []
        before = watch(stepper.y) if watch else None
        outcome, steps, reached, hopeless = FINISHED, 0, start, False
        while stepper.status == "running":
            stepper.step()
            if stepper.status == "failed":
                outcome = FAILED
                break
            if not np.isfinite(stepper.y).all():
                outcome = DIVERGED
                break
            inside = list(_between(stepper, spacing))
            if watch:
                after = watch(stepper.y)
                for time, which, found in _crossings(stepper, watch, before, after):
                    crossings.append((time, which))
                    inside.append((time, found))
                before = after
            for time, found in sorted(inside, key=lambda point: point[0]):
                times.append(time)
                states.append(found)
            times.append(stepper.t)
            states.append(stepper.y.copy())
            if stop and stop(stepper.t, stepper.y):
                outcome = STOPPED
                break
            steps += 1
            if steps % HOPE == 0:
                hopeless = beyond_reach(reached, stepper.t, end, HOPE, max_steps - steps)
                reached = stepper.t
            if hopeless or len(times) > max_steps:
                outcome = MAX_STEPS
                break
    return Path(np.array(times), np.array(states), outcome, tuple(crossings), stepper.nfev)


def beyond_reach(before: float, now: float, end: float, taken: int, left: int) -> bool:
    """Whether the steps that are left do not lead to the end, be it that time goes on growing by as much as in those
    taken since `before`, be it by the same factor."""
    if left <= 0 or now <= before:
        return True
    by_adding = (end - now) / (now - before)
    by_factors = np.log(end / now) / np.log(now / before) if before > 0 else 0.0
    return taken * min(by_adding, by_factors) > left


def _between(stepper, spacing: float):
    """Points inside the last step, at most `spacing` apart."""
    pieces = int(np.ceil((stepper.t - stepper.t_old) / spacing))
    if pieces > 1:
        inside = stepper.dense_output()
        for time in np.linspace(stepper.t_old, stepper.t, pieces + 1)[1:-1]:
            yield float(time), inside(time)


def _crossings(stepper, watch, before, after):
    changed = np.flatnonzero(np.sign(before) != np.sign(after))
    if not changed.size:
        return []
    inside = stepper.dense_output()
    found = []
    for which in changed:
        low, high = stepper.t_old, stepper.t
        ends = watch(inside(low))[which], watch(inside(high))[which]
        if np.sign(ends[0]) == np.sign(ends[1]):
            # The interpolant's end values may miss a crossing that rounding put exactly on a step.
            time = high
        else:
            time = root_between(lambda t, w=which: watch(inside(t))[w], low, high)
        found.append((float(time), int(which), inside(time)))
    return sorted(found, key=lambda entry: entry[0])
