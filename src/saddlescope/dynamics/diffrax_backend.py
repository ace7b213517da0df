"""diffrax behind the same call as SciPy's steppers: a Path of the solver's own steps with passages among them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

from saddlescope.numerics.integrate import DIVERGED, FINISHED, HOPE, MAX_STEPS, STOPPED, Path, beyond_reach
from saddlescope.numerics.root import root_between

from .compiled import flatten
from .field import Field
from .solvers import DIFFRAX_METHODS

BATCH = 4096
"""Steps per call: bounds the memory of the dense output."""


@cache
def _solve(system, layout, scale, method):
    solver = getattr(diffrax, DIFFRAX_METHODS[method])()

    def velocity(inner, flat, frame):
        change = flatten(system.flow.velocity(layout.unravel(flat), frame))
        return change if scale is None else scale * jnp.exp(inner) * change

    @jax.jit
    def run(flat, frame, begin, end, first, rtol, atol):
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(velocity),
            solver,
            begin,
            end,
            first,
            flat,
            frame,
            saveat=diffrax.SaveAt(steps=True, dense=True),
            stepsize_controller=diffrax.PIDController(rtol=rtol, atol=atol),
            max_steps=BATCH,
            throw=False,
        )
        return solution

    return run


def integrate(
    field: Field,
    state: np.ndarray,
    begin: float,
    end: float,
    *,
    method: str,
    rtol: float,
    atol: float,
    max_steps: int,
    watch: Callable[[np.ndarray], np.ndarray] | None,
    stop: Callable[[float, np.ndarray], bool],
) -> Path:
    run = _solve(field.system, field.layout, field.scale, method)
    times, states = [begin], [np.asarray(state)]
    crossings: list[tuple[float, int]] = []
    outcome, steps, at = FINISHED, 0, begin
    counted, reached, hopeless = 0, begin, False
    first = 1e-6 * (end - begin)
    while at < end:
        solution: Any = run(states[-1], field.frame, at, end, first, rtol, atol)
        steps += int(solution.stats["num_steps"])
        taken = int(solution.stats["num_accepted_steps"])
        time, path = np.asarray(solution.ts)[:taken], np.asarray(solution.ys)[:taken]
        good = np.isfinite(path).all(axis=1) & np.isfinite(time)
        if taken == 0 or not good.all():
            outcome = DIVERGED
            time, path = time[good], path[good]
        over = next((row for row, state in enumerate(path) if stop(float(time[row]), state)), None)
        if over is not None:
            outcome, time, path = STOPPED, time[: over + 1], path[: over + 1]
        if watch is not None and len(time):
            _locate(solution, np.r_[at, time], np.vstack([states[-1], path]), watch, crossings, times, states)
        times.extend(time)
        states.extend(path)
        if outcome != FINISHED:
            break
        at = float(time[-1])
        first = float(time[-1] - times[-2]) if len(time) > 1 else first
        if at < end and steps - counted >= HOPE:
            hopeless = beyond_reach(reached, at, end, steps - counted, max_steps - steps)
            counted, reached = steps, at
        if at < end and (hopeless or steps >= max_steps):
            outcome = MAX_STEPS
            break
    order = np.argsort(times, kind="stable")
    return Path(np.array(times)[order], np.array(states)[order], outcome, tuple(crossings), steps)


def _locate(solution, time, path, watch, crossings, times, states) -> None:
    """Passages inside the solver's steps, on its own interpolant."""

    def inside(moment: float) -> np.ndarray:
        return np.asarray(solution.evaluate(moment))

    signals = np.array([watch(flat) for flat in path])
    for row, which in zip(*np.nonzero(np.sign(signals[1:]) != np.sign(signals[:-1])), strict=True):
        moment = root_between(lambda t, w=which: watch(inside(t))[w], time[row], time[row + 1])
        crossings.append((moment, int(which)))
        times.append(moment)
        states.append(inside(moment))
