"""Gradient flow of a system's reduced state, with every predicted passage located exactly."""

from __future__ import annotations

import time as wall
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from saddlescope.core.errors import BadArgument
from saddlescope.core.parts import HasInvariants, HasJacobian, HasProducts
from saddlescope.core.progress import Tick, silent
from saddlescope.core.stage import Mark, Prediction
from saddlescope.core.start import Start
from saddlescope.core.system import System
from saddlescope.core.threads import one_thread
from saddlescope.core.trajectory import build_trajectory
from saddlescope.numerics import integrate as numerics
from saddlescope.numerics.free import integrate_free
from saddlescope.numerics.integrate import DIVERGED, FINISHED, STOPPED, Path

from .field import Field
from .solvers import FREE_METHOD, Solver, solver as named_solver

if TYPE_CHECKING:
    import xarray

POINTS = 800
"""Saved points a trajectory is thinned to; passages are kept besides."""

FEWEST = 200
"""Points at which a flow in log-time is saved at least: its steps are as long as a method of high order allows."""

PROLONGATIONS = 6
"""How often a run without a set horizon is doubled before it is given up as not arriving."""

HORIZON_TOO_SHORT = "horizon_too_short"


@one_thread()
def flow(
    system: System,
    seed: int = 0,
    *,
    solver: str | Solver = "default",
    start: Start | None = None,
    prediction: Prediction | None = None,
    tick: Tick = silent,
) -> xarray.Dataset:
    """Integrate the gradient flow from the start of `seed` to the Spec's horizon.

    solver: a preset's name (dynamics.solvers.PRESETS) or a Solver.  start: to share it between calls.  prediction: its
    passages are located exactly, and the result says whether all its stages were seen. Without a set horizon the run is
    prolonged until the system has arrived, by its own prediction. How it ended is in attrs["result"].
    """
    system.needs_face("flow")
    began = wall.perf_counter()
    chosen = named_solver(solver)
    start = system.start(seed) if start is None else start
    if prediction is None and system.spec.horizon is None and system.theory is not None:
        prediction = system.theory.predict(start)
    field = Field.of(system, start)
    warped, jacobian = field.scale is not None, isinstance(system.flow, HasJacobian)
    free = isinstance(system.flow, HasProducts) and not warped
    chosen = chosen.for_state(field.layout.size, free=free, jacobian=jacobian, warped=warped)
    horizon = system.spec.horizon
    prolong = horizon is None
    if prolong:
        horizon = prediction.horizon if prediction else None
        if horizon is None:
            why = prediction.notes[0] if prediction and prediction.notes else "no theory says how long it takes"
            raise BadArgument(f"`horizon` must be set for {system.name} with these parameters: {why}")
    at_once = prolong and prediction is not None and prediction.ending.at_once
    goal = prediction.arrival if prediction and at_once else None
    path = _integrate(field, 0.0, horizon, field.origin, chosen, level_marks(prediction), tick, goal)
    for _ in range(PROLONGATIONS if prolong and not at_once else 0):
        if path.outcome != FINISHED or arrived(field.measure(path.state[-1]), prediction):
            break
        more = _integrate(field, horizon, 2 * horizon, path.state[-1], chosen, level_marks(prediction), tick)
        path, horizon = _join(path, more), 2 * horizon
    horizon = float(path.time[-1]) if path.outcome == STOPPED else horizon
    return path_trajectory(system, seed, field, path, prediction, horizon, prolong, chosen, wall.perf_counter() - began)


def arrived(observables: Mapping[str, Any], prediction: Prediction | None) -> bool:
    mark = prediction.arrival if prediction else None
    return mark is None or bool(mark.passed(observables))


def level_marks(prediction: Prediction | None) -> Sequence[Mark]:
    """Marks that a level defines; a peak is read off the grid."""
    return [mark for mark in prediction.marks if mark.event != "peak"] if prediction else []


def _integrate(
    field: Field,
    begin: float,
    end: float,
    state: np.ndarray,
    solver: Solver,
    marks: Sequence[Mark],
    tick: Tick,
    goal: Mark | None = None,
) -> Path:
    """goal: a mark at which the run ends."""

    def watch_clock(inner: float, state: np.ndarray) -> bool:
        tick(min(1.0, float(field.outer(inner)) / end), f"time {field.outer(inner):.4g} of {end:.4g}")
        return goal is not None and bool(goal.passed(field.measure_again(state)))

    settings = {"rtol": solver.rtol, "atol": solver.atol_for(field.origin), "max_steps": solver.max_steps}
    watched = [*marks, goal] if goal else marks
    watch = field.signals(watched) if watched else None
    span = float(field.inner(begin)), float(field.inner(end))
    if solver.method == FREE_METHOD:
        path = integrate_free(field.velocity, field.product, state, *span, watch=watch, stop=watch_clock, **settings)
    elif solver.backend == "scipy":
        path = numerics.integrate(
            field.velocity,
            state,
            *span,
            method=solver.method,
            jacobian=field.jacobian,
            watch=watch,
            stop=watch_clock,
            spacing=np.inf if field.scale is None else (span[1] - span[0]) / FEWEST,
            **settings,
        )
    else:
        from .diffrax_backend import integrate as integrate_diffrax

        path = integrate_diffrax(field, state, *span, method=solver.method, watch=watch, stop=watch_clock, **settings)
    if goal and path.outcome == STOPPED:
        path = _until(path, max((t for t, which in path.crossings if which == len(marks)), default=0.0))
    return path if field.scale is None else _outer(path, field)


def _until(path: Path, end: float) -> Path:
    kept = path.time <= end
    return Path(path.time[kept], path.state[kept], path.outcome, path.crossings, path.evaluations)


def _outer(path: Path, field: Field) -> Path:
    crossings = tuple((float(field.outer(inner)), which) for inner, which in path.crossings)
    return Path(field.outer(path.time), path.state, path.outcome, crossings, path.evaluations)


def _join(first: Path, second: Path) -> Path:
    return Path(
        np.concatenate([first.time, second.time[1:]]),
        np.concatenate([first.state, second.state[1:]]),
        second.outcome,
        first.crossings + second.crossings,
        first.evaluations + second.evaluations,
    )


def path_trajectory(
    system: System,
    seed: int,
    field: Field,
    path: Path,
    prediction: Prediction | None,
    horizon: float,
    prolonged: bool,
    solver: Solver | str,
    seconds: float,
) -> xarray.Dataset:
    """The trajectory of a solved path, thinned, with all its passages."""
    time, keep = np.unique(path.time, return_index=True)
    chosen = np.unique(
        np.concatenate(
            [
                np.linspace(0, len(time) - 1, min(POINTS, len(time))).astype(int),
                np.searchsorted(time, [moment for moment, _ in path.crossings]),
            ]
        )
    )
    time, state = time[chosen], _rows(path.state, keep[chosen])
    observables = field.measure_many(state)
    drift = None
    if isinstance(system.flow, HasInvariants):
        drift = relative_drift(field.conserved_many(state), field.largest_weight(state))
    return build_trajectory(
        system,
        "flow",
        seed,
        time,
        observables,
        solver=f"{solver} ({path.evaluations} evaluations)",
        result=_result(system, field, path, time, observables, prediction, horizon, prolonged),
        seconds=seconds,
        conserved_drift=drift,
        extra={"horizon": float(horizon)},
    )


def relative_drift(kept: np.ndarray, largest: float) -> float:
    """Largest change of a conserved quantity (time, ...) relative to the largest squared weight.

    NaN where a run that diverged has left no numbers to compare.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.abs(kept - kept[0]).max() / np.maximum(np.square(largest), np.finfo(float).tiny))


def _rows(states: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Without a copy where all are chosen in their order: states may be large."""
    return states if np.array_equal(chosen, np.arange(len(states))) else states[chosen]


def _result(system, field, path, time, observables, prediction, horizon, prolonged) -> str:
    if path.outcome == DIVERGED:
        return f"{DIVERGED}: the state overflowed after time {path.time[-1]:.6g}"
    if path.outcome not in (FINISHED, STOPPED):
        return f"{path.outcome} at time {path.time[-1]:.6g} of {horizon:.6g}"
    waited = prolonged and path.outcome != STOPPED
    return horizon_result(system, time, observables, prediction, horizon, waited)


def horizon_result(
    system: System,
    time: np.ndarray,
    observables: Mapping[str, np.ndarray],
    prediction: Prediction | None,
    horizon: float,
    prolonged: bool,
) -> str:
    """FINISHED, or what the horizon was too short for and which one would suffice."""
    if prediction is None:
        return FINISHED
    marks = prediction.awaited
    expected = len(marks)
    seen = sum(mark.passage(time, observables) is not None for mark in marks)
    last = {name: values[-1] for name, values in observables.items()}
    if seen == expected:
        if not prolonged or arrived(last, prediction):
            return ": ".join(filter(None, [FINISHED, system.theory.remark(prediction, last)]))
        loss, level = float(last["loss"]), prediction.levels[-1]
        return f"{FINISHED}: all stages seen, the loss {loss:.6g} at time {horizon:.6g}, the last plateau {level:.6g}"
    if prolonged:
        return f"{HORIZON_TOO_SHORT}: saw {seen} of {expected} stages by time {horizon:.6g}, after prolonging"
    enough = prediction.horizon
    if enough is not None and all(stage.time is not None for stage in prediction.stages):
        enough = min(enough, 1.3 * (prediction.last_time or enough))
    advice = "`saddlescope predict` says how long it takes"
    if enough is not None and enough > horizon:
        advice = f"horizon={enough:.4g} {'is the longest' if prediction.ending.at_once else 'would suffice'}"
    return f"{HORIZON_TOO_SHORT}: saw {seen} of {expected} stages by time {horizon:.6g}; {advice}"
