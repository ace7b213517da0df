"""The prediction of a start as a list of stages: Algorithm 1 beside its finite-alpha correction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from saddlescope.core.precision import on_device
from saddlescope.core.stage import Ending, Mark, Prediction, Stage
from saddlescope.core.start import Start

from . import network, reduction
from .data import Frame, Samples, Weights
from .plateaus import Functions, Logs, Plateau, RunsOff
from .prediction import Course, Step, Walk, algorithm_1, at_finite_alpha
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
        return Prediction((), (), origin.loss, solver="none", notes=(BROKEN_LAW,))
    scale = spec.log_inverse_alpha
    logs = logs_of(point)
    unit = Logs(logs.rise + scale, logs.fall + scale)
    limit = algorithm_1(origin, unit, spec.stages)
    course = at_finite_alpha(origin, logs, limit.steps)
    passages = course.passages
    # A stage that does not happen at this alpha stands where Algorithm 1 has it.
    when = [step.time * scale if np.isnan(p.time) else p.time for step, p in zip(limit.steps, passages, strict=True)]
    order = sorted(range(len(when)), key=lambda k: when[k])
    steps = [limit.steps[k] for k in order]
    visited = _visited(origin, steps, course.rests)
    last = next(plateau for plateau in reversed(visited) if plateau is not None)
    # Relative to the first plateau: a teacher of the same form is learned down to a loss of zero.
    arrival = Mark("loss", last.loss + 1e-6 * origin.loss)
    return Prediction(
        stages=tuple(
            _stage(system, index, limit.steps[k], passages[k].time / scale, plateau)
            for index, (k, plateau) in enumerate(zip(order, visited[1:], strict=True), start=1)
        ),
        marks=tuple(_mark(limit.steps[k], passages[k].count) for k in order),
        initial_loss=origin.loss,
        plateaus=tuple(_point(logs, p) for p in visited if p is not None) if None not in visited else (),
        observables={"loss": last.loss, "product": last.product},
        solver="Algorithm 1, corrected for finite alpha",
        notes=tuple(_notes(system, limit, course)),
        ending=Ending(arrival=arrival if steps else None),
    )


def _notes(system: Diagonal, limit: Walk, course: Course) -> Iterator[str]:
    if limit.ended:
        yield f"the sequence ends after stage {len(limit.steps)}: {limit.ended}"
    if course.lost:
        yield f"times are predicted up to where the flow cannot be followed at this alpha: {course.lost}"
        return
    for step, passage in zip(limit.steps, course.passages, strict=True):
        if np.isnan(passage.time):
            name = system.coordinate_name(step.lead)
            yield f"{name} never reaches half of its theta^k at this alpha: stages overlap, or alpha is too large"


def logs_of(point: Weights | LogState) -> Logs:
    """Logarithms of |u±v|, −inf where it is zero."""
    state = point if isinstance(point, LogState) else reduction.reduce(Weights(*map(np.asarray, point)))
    return Logs(*(np.where(np.asarray(part) > NOTHING / 2, part, -np.inf) for part in state))


def _visited(origin: Plateau, steps: Sequence[Step], rests: Sequence[Plateau]) -> list[Plateau | None]:
    """The plateaus when the stages come in this order, None where there is none.

    Algorithm 1's own, unless alpha has swapped stages: then where the run rests with the same entries, or where
    Algorithm 1 would have gone in this order.
    """
    visited: list[Plateau | None] = [origin]
    entered: set[int] = set()
    active: set[int] = set()
    for place, step in enumerate(steps):
        entered |= set(step.entering)
        active = (active | set(step.entering)) - set(step.left)
        here, there = visited[-1], None
        # The set of what has entered says whether Algorithm 1 was here too.
        usual = {i for other in steps if other.time <= step.time for i in other.entering}
        if usual == entered and all(other.time <= step.time for other in steps[: place + 1]):
            there = step.after
        elif match := [plateau for plateau in rests if set(plateau.support.tolist()) == active]:
            there = match[0]
        elif here is not None and len(step.entering) == 1 and here.force[step.lead]:
            with suppress(RunsOff):  # out of turn, a coordinate may have nowhere to rest
                there = here.move(step.lead).to
        visited.append(there)
    return visited


def _stage(system: Diagonal, index: int, step: Step, time: float, plateau: Plateau | None) -> Stage:
    """support, values: theta^k.  curvature: least eigenvalue of the Hessian there, which `strict` wants positive."""
    own = (
        {}
        if plateau is None
        else {
            "support": plateau.support.tolist(),
            "values": plateau.product[plateau.support].tolist(),
            "curvature": float(plateau.curvatures[0]),
            "strict": plateau.strict,
        }
    )
    return Stage(
        index,
        None if np.isnan(time) else time,
        None if plateau is None else plateau.loss,
        " and ".join(system.coordinate_name(i) for i in step.entering),
        {
            "coordinates": list(step.entering),
            "left": list(step.left),
            "limit_time": step.time,
            "runner_up": step.runner_up,
            **own,
        },
    )


def _mark(step: Step, count: int) -> Mark:
    """Where the coordinate passes half of its theta^k, for the count-th time."""
    return Mark("product", step.level, "rises" if step.level > 0 else "falls", (step.lead,), count)


def _point(logs: Logs, plateau: Plateau) -> LogState:
    """A state on the plateau with the run's own u² − v²; what is inactive has p = 0, or, where u = v, all but zero."""
    middle = np.where(np.isfinite(logs.whole), logs.whole / 2, NOTHING)
    resting = Logs(middle, middle).anchored(plateau.support, plateau.product[plateau.support])
    return reduction.state_of(resting)
