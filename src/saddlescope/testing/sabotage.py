"""Runs with something wrong: a claim that survives all of it cannot lose, and says nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from saddlescope.core.claim import Claim, judge
from saddlescope.core.parts import HasJacobian, part
from saddlescope.core.run import Run
from saddlescope.core.stage import Stage
from saddlescope.core.start import Start
from saddlescope.core.subject import Subject

Runs = Sequence[Run]


def noisy(runs: Runs) -> list[Run]:
    """Every number off by a third and noisy, and nothing conserved."""

    def spoil(run: Run) -> Run:
        rng = np.random.default_rng((run.seed, 0))

        def wrong(values: np.ndarray) -> np.ndarray:
            size = 0.1 + 0.3 * np.sqrt(np.mean(values**2))
            return 1.33 * values + size * rng.standard_normal(values.shape)

        return _replaced(run, wrong, lambda stage, _: (stage.time, stage.loss and 1.33 * stage.loss))

    return [spoil(run) for run in runs]


def reversed_order(runs: Runs) -> list[Run]:
    """Dimensions and stages of every run in reverse order, and the runs of a sweep dealt out in reverse."""

    def spoil(run: Run) -> Run:
        times = [stage.time for stage in run.stages][::-1]
        return _replaced(
            run,
            lambda values: values[:, *(slice(None, None, -1),) * (values.ndim - 1)],
            lambda stage, place: (times[place], stage.loss),
        )

    wrong = [spoil(run) for run in runs]
    return [
        dataclasses.replace(run, trajectory=other.trajectory, stages=other.stages)
        for run, other in zip(wrong, reversed(wrong), strict=True)
    ]


def featureless(runs: Runs) -> list[Run]:
    """One exponential in the place of every observable's history, and stages at powers of ten."""

    def spoil(run: Run) -> Run:
        def decay(values: np.ndarray) -> np.ndarray:
            time = run.trajectory["time"].values
            share = np.exp(-5 * time / time[-1]).reshape(-1, *(1,) * (values.ndim - 1))
            return values[-1] + (values[0] - values[-1]) * share

        return _replaced(run, decay, lambda stage, place: (10.0**place, stage.loss))

    return [spoil(run) for run in runs]


def frozen(runs: Runs) -> list[Run]:
    """Nothing is ever learned: every observable stays where it began."""

    def stay(values: np.ndarray) -> np.ndarray:
        return np.broadcast_to(values[0], values.shape).copy()

    return [_replaced(run, stay, lambda stage, _: (stage.time, stage.loss)) for run in runs]


def levelled(runs: Runs) -> list[Run]:
    """Nothing stands out: along its last dimension every observable has its mean everywhere."""

    def level(values: np.ndarray) -> np.ndarray:
        return values if values.ndim < 2 else np.broadcast_to(values.mean(-1, keepdims=True), values.shape).copy()

    return [_replaced(run, level, lambda stage, _: (stage.time, stage.loss)) for run in runs]


def concentrated(runs: Runs) -> list[Run]:
    """Everything in one place: along its last dimension every observable keeps its largest entry alone."""

    def alone(values: np.ndarray) -> np.ndarray:
        sizes = np.abs(values)
        return values if values.ndim < 2 else np.where(sizes == sizes.max(-1, keepdims=True), values, 0.0)

    return [_replaced(run, alone, lambda stage, _: (stage.time, stage.loss)) for run in runs]


def wrong_system(runs: Runs) -> list[Run]:
    """The problem itself is another: data off by a third, motion where there should be rest, curvature upside down.

    A claim asks nothing of a study but its spec: there the run stays as it is.
    """
    return [dataclasses.replace(run, system=_wrong(run.system, lambda slope: -slope)) for run in runs]


def bowl(runs: Runs) -> list[Run]:
    """The same, but with a landscape that is curved upwards everywhere: nothing is unstable."""
    return [dataclasses.replace(run, system=_wrong(run.system, lambda slope: -np.eye(len(slope)))) for run in runs]


SABOTAGES: tuple[Callable[[Runs], list[Run]], ...] = (
    noisy,
    reversed_order,
    featureless,
    frozen,
    levelled,
    concentrated,
    wrong_system,
    bowl,
)


def survivors(claims: Sequence[Claim], runs: Runs) -> list[Claim]:
    """Claims on these runs that no kind of sabotage refutes. The runs are spoiled once for all of them."""
    left = list(claims)
    for spoil in SABOTAGES:
        if left:
            wrong = spoil(runs)
            left = [claim for claim in left if judge(claim, wrong).verdict != "refuted"]
    return left


def _replaced(
    run: Run,
    values: Callable[[np.ndarray], np.ndarray],
    stage: Callable[[Stage, int], tuple[float | None, float | None]],
) -> Run:
    """A copy with other observables, and other times and losses of the stages."""
    trajectory = run.trajectory
    if trajectory is not None:
        trajectory = trajectory.copy(deep=True)
        for name, variable in trajectory.data_vars.items():
            if not variable.size:
                continue
            # What a run has once is spoiled as a history of one moment.
            moves = "time" in variable.dims
            trajectory[name] = (variable.dims, values(variable.values) if moves else values(variable.values[None])[0])
        trajectory.attrs["conserved_drift"] = 1.0
    pairs = [(old, stage(old, place)) for place, old in enumerate(run.stages)]
    stages = [dataclasses.replace(old, time=time, loss=loss) for old, (time, loss) in pairs]
    return dataclasses.replace(run, trajectory=trajectory, stages=stages)


def _wrong(system: Subject, bend: Callable[[Any], Any]) -> Subject:
    """bend: what is made of the linearised flow."""
    kind: Any = type(system)

    def wrong_start(self: Any, seed: int) -> Start:
        start = kind.start(self, seed)
        rng = np.random.default_rng((seed, 1))
        return type(start)(_off(start.point, rng), _off(start.frame, rng))

    members: dict[str, Any] = {"start": wrong_start, "__module__": kind.__module__}
    if system.flow is not None:
        members["flow"] = part(_wrong_flow(type(system.flow), bend))
        members["flow"].__set_name__(kind, "flow")
    return type("Wrong", (kind,), members)(system.spec)


def _wrong_flow(kind: Any, bend: Callable[[Any], Any]) -> Any:
    class Wrong(kind):
        def velocity(self, state: Any, frame: Any) -> Any:
            moved = super().velocity(state, frame)
            return type(moved)(*(part + 0.01 for part in moved))

    class Bent(Wrong):
        def jacobian(self, frame: Any) -> Callable[[Any], Any]:
            right = super().jacobian(frame)
            return lambda state: bend(right(state))

    return Bent if issubclass(kind, HasJacobian) else Wrong


def _off(tree: Any, rng: np.random.Generator) -> Any:
    """Every array of a named tuple scaled by about a third more."""
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(_off(part, rng) for part in tree))
    if isinstance(tree, np.ndarray) and tree.dtype.kind == "f":
        return tree * (1.33 + 0.1 * rng.standard_normal(tree.shape))
    return tree
