"""The flow from many seeds at once, each with its own steps."""

from __future__ import annotations

import time as wall
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from saddlescope.core.errors import BadArgument
from saddlescope.core.parts import HasJacobian, HasLandmarks
from saddlescope.core.progress import Tick, silent
from saddlescope.core.stage import Prediction
from saddlescope.core.system import System
from saddlescope.core.threads import one_thread
from saddlescope.numerics.integrate import FINISHED, STOPPED, Path
from saddlescope.numerics.lanes import integrate_lanes

from .field import Field
from .flow import level_marks, path_trajectory
from .solvers import Solver, solver as named_solver

if TYPE_CHECKING:
    import xarray

LARGEST = 200
"""Most numbers in a state: the method inverts a matrix of that size per lane and step."""

NO_END = 1e30


def can_run_together(system: System, size: int) -> bool:
    """Whether `flow_together` takes this system with a state of `size` numbers."""
    flow = system.flow
    able = flow.arrays == "batched" and flow.log_time is None and size <= LARGEST
    return able and isinstance(flow, HasJacobian) and isinstance(system.theory, HasLandmarks)


@one_thread()
def flow_together(
    system: System, seeds: Sequence[int], *, solver: str | Solver = "default", tick: Tick = silent
) -> tuple[list[xarray.Dataset], Prediction]:
    """Trajectories of all seeds, and the landmarks by which their stages are found.

    Runs as `flow` does, by Rodas5P at the solver's tolerances; without a set horizon each seed runs until it has
    arrived, and at least to 1.3 x its last stage.
    """
    began = wall.perf_counter()
    chosen = named_solver(solver)
    starts = [system.start(seed) for seed in seeds]
    field = Field.of(system, starts[0])
    if not can_run_together(system, field.layout.size):
        raise BadArgument(
            f"{system.name} cannot flow from many seeds together: that takes a batched flow with Jacobian, landmarks, "
            f"and at most {LARGEST} numbers. Run them one by one (of an experiment: keep='trajectories')"
        )
    landmarks = system.theory.landmarks(field.frame)
    marks = level_marks(landmarks)
    arrival = landmarks.arrival
    states = np.stack([Field.of(system, start).origin for start in starts])
    horizon = system.spec.horizon
    jacobian = system.flow.jacobian(field.frame)

    def velocity(flat: np.ndarray) -> np.ndarray:
        parts = system.flow.velocity(field.layout.unravel(flat), field.frame)
        return np.concatenate([part.reshape(len(flat), -1) for part in parts], axis=1)

    def done(time: np.ndarray, signals: np.ndarray, crossed: np.ndarray) -> np.ndarray:
        # Signals have the sign of value − level; the arrival is the last of them.
        there = signals[:, -1] <= 0 if arrival is not None and arrival.event == "falls" else signals[:, -1] >= 0
        return there & (time >= 1.3 * crossed) if horizon is None else np.zeros(len(time), bool)

    watched = [*marks, arrival] if arrival is not None else [*marks, marks[-1]]
    paths = integrate_lanes(
        velocity,
        lambda flat: jacobian(field.layout.unravel(flat)),
        states,
        end=horizon or NO_END,
        rtol=chosen.rtol,
        atol=chosen.atol_for(states),
        watch=field.signals(watched),
        stop=done,
        keep_every=1 + states.shape[1] // 60,  # large states are thinned for memory's sake
        report=lambda count: tick(count / len(seeds), f"{count} of {len(seeds)} seeds"),
    )
    seconds = (wall.perf_counter() - began) / len(seeds)
    words = f"rodas5p rtol={chosen.rtol:g} atol={chosen.atol:g}"
    trajectories = []
    for seed, path in zip(seeds, paths, strict=True):
        stages = tuple(crossing for crossing in path.crossings if crossing[1] < len(marks))
        outcome = FINISHED if path.outcome == STOPPED else path.outcome
        path = Path(path.time, path.state, outcome, stages, path.evaluations)
        end = float(path.time[-1])
        trajectories.append(path_trajectory(system, seed, field, path, landmarks, end, horizon is None, words, seconds))
    return trajectories, landmarks
