"""The prediction of a start as a list of stages: Algorithm 1 beside its finite-alpha correction."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from saddlescope.core.precision import on_device
from saddlescope.core.stage import Mark, Prediction, Stage
from saddlescope.core.system import Start

from . import network, reduction
from .data import Frame, Samples, Weights
from .landscape import Functions, Logs, Plateau, RunsOff
from .prediction import Step, algorithm_1, at_finite_alpha
from .reduction import NOTHING, LogState

if TYPE_CHECKING:
    from .system import Diagonal

BROKEN_LAW = "an L2 term on u and v breaks the conservation law of Lemma 4.1: no theory says how long this takes"


@dataclass(frozen=True, eq=False)
class Problem:
    """What alpha and the initial weights do not change. Its plateaus are found once."""

    samples: Samples
    frozen: tuple[Any, ...]
    objective: network.Objective
    size: int

    @cached_property
    def origin(self) -> Plateau:
        """The plateau p = 0, from which all others are reached."""
        frame = on_device(Frame(self.samples, self.frozen, 1.0))
        loss, force = network.compiled_loss(self.objective), network.compiled_force(self.objective)
        functions = Functions(
            lambda p: float(loss(p, frame)),
            lambda p: np.array(force(p, frame)),
            lambda p, which: network.hessian_columns(self.objective, p, frame, which),
        )
        return Plateau.origin(functions, self.size)


def forecast(system: Diagonal, start: Start) -> Prediction:
    spec, point, frame = system.spec, start.point, start.frame
    own = system.problem
    problem = own if frame.samples is own.samples else Problem(frame.samples, frame.frozen, system.objective, own.size)
    origin = problem.origin
    if spec.weight_penalty:
        return Prediction((), (), origin.loss, notes=(BROKEN_LAW,))
    scale = spec.log_inverse_alpha
    logs = logs_of(point)
    unit = Logs(logs.rise + scale, logs.fall + scale)
    limit = algorithm_1(origin, unit, spec.stages)
    moments = at_finite_alpha(origin, logs, limit.steps)
    order = sorted(range(len(moments)), key=lambda k: (np.isnan(moments[k]), moments[k], k))
    steps = [limit.steps[k] for k in order]
    visited = _visited(origin, steps)
    return Prediction(
        stages=tuple(
            _stage(system, index, step, moments[k] / scale, plateau)
            for index, (k, step, plateau) in enumerate(zip(order, steps, visited[1:], strict=True), start=1)
        ),
        marks=tuple(_mark(step) for step in steps),
        initial_loss=origin.loss,
        plateaus=tuple(_point(logs, plateau) for plateau in visited),
        observables={"loss": visited[-1].loss, "product": visited[-1].product},
        solver="Algorithm 1, corrected for finite alpha",
        notes=(f"the sequence ends after stage {len(limit.steps)}: {limit.ended}",) if limit.ended else (),
    )


def logs_of(point: Weights | LogState) -> Logs:
    """Logarithms of |u±v|, −inf where it is zero."""
    state = point if isinstance(point, LogState) else reduction.reduce(Weights(*map(np.asarray, point)))
    return Logs(*(np.where(np.asarray(part) > NOTHING / 2, part, -np.inf) for part in state))


def _visited(origin: Plateau, steps: Sequence[Step]) -> list[Plateau]:
    """The plateaus when the stages come in this order: Algorithm 1's own, unless alpha has swapped two of them."""
    visited = [origin]
    for step in steps:
        here, there = visited[-1], step.after
        if step.before is not here and len(step.entering) == 1 and here.force[step.entering[0]]:
            with suppress(RunsOff):  # out of turn, a coordinate may have nowhere to rest
                there = here.move(step.entering[0]).to or there
        visited.append(there)
    return visited


def _stage(system: Diagonal, index: int, step: Step, time: float, plateau: Plateau) -> Stage:
    """support, values: theta^k.  curvature: least eigenvalue of the Hessian there, which `strict` wants positive."""
    return Stage(
        index,
        None if np.isnan(time) else time,
        plateau.loss,
        " and ".join(system.coordinate_name(i) for i in step.entering),
        {
            "coordinates": list(step.entering),
            "left": list(step.left),
            "limit_time": step.time,
            "runner_up": step.runner_up,
            "support": plateau.support.tolist(),
            "values": plateau.product[plateau.support].tolist(),
            "curvature": float(plateau.curvatures[0]),
            "strict": plateau.strict,
        },
    )


def _mark(step: Step) -> Mark:
    """Where the coordinate passes half of its theta^k. Of tied ones, whose ratio is constant, the first will do."""
    return Mark("product", step.level, "rises" if step.level > 0 else "falls", step.entering[:1])


def _point(logs: Logs, plateau: Plateau) -> LogState:
    """A state on the plateau with the run's own u² − v²; what is inactive has p = 0, or, where u = v, all but zero."""
    middle = np.where(np.isfinite(logs.rise + logs.fall), (logs.rise + logs.fall) / 2, NOTHING)
    resting = Logs(middle, middle).anchored(plateau.support, plateau.product[plateau.support])
    return LogState(*(np.maximum(part, NOTHING) for part in resting))
