"""What claims measure on runs: times of stages, plateaus, logarithms of weights, motion."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from saddlescope.core.run import Run
from saddlescope.core.stage import Stage

from ... import data

if TYPE_CHECKING:
    from ...plateaus import Logs


def system_of(run: Run) -> Any:
    """A Diagonal, which knows more than every System does."""
    return run.system


def scale(run: Run) -> float:
    """B = log(1/alpha)."""
    return run.system.spec.log_inverse_alpha


def by_scale(runs: Iterable[Run]) -> list[Run]:
    """From the largest alpha to the smallest."""
    return sorted(runs, key=scale)


def with_scale(runs: Sequence[Run], *log10_alphas: float) -> list[Run]:
    return [next(run for run in runs if run.system.spec.log10_alpha == wanted) for wanted in log10_alphas]


# ---- stages, matched by their coordinates --------------------------------------------------------------------


def coordinates(stage: Stage) -> tuple[int, ...]:
    return tuple(stage.extra["coordinates"])


def in_the_limit(run: Run, count: int | None = None) -> list[Stage]:
    """Predicted stages in the order of Algorithm 1."""
    assert run.prediction is not None
    return sorted(run.prediction.stages, key=lambda stage: stage.extra["limit_time"])[:count]


def with_previous(stages: Sequence[Stage]) -> Iterator[tuple[Stage | None, Stage]]:
    """Each with the one before it; None before the first."""
    return zip((None, *stages), stages, strict=False)


def measured_time(run: Run, stage: Stage) -> float:
    """When the run went through a predicted stage; NaN where it did not."""
    found = [other.time for other in run.stages if other.index == stage.index]
    return float(found[0]) if found and found[0] is not None else float("nan")


def limit_times(run: Run, count: int | None = None) -> np.ndarray:
    return np.array([stage.extra["limit_time"] for stage in in_the_limit(run, count)])


def first_limit_time(run: Run) -> float:
    """T_1 = 1 / max_i |g_i(0)|, by the paper's formula."""
    return float(1 / np.abs(force(run, np.zeros(system_of(run).size))).max())


def times(run: Run, count: int | None = None) -> np.ndarray:
    """Measured, in Algorithm 1's order."""
    return np.array([measured_time(run, stage) for stage in in_the_limit(run, count)])


def predicted_times(run: Run, count: int | None = None) -> np.ndarray:
    return np.array([stage.time for stage in in_the_limit(run, count)], float)


def lateness(run: Run, count: int) -> np.ndarray:
    """C_k = (t_k − T_k)/T_k log(1/alpha)."""
    limit = limit_times(run, count)
    return (times(run, count) - limit) / limit * scale(run)


def extrapolated_times(far: Run, near: Run, count: int) -> np.ndarray:
    """T_k from two runs, by the law t_k = T_k (1 + C_k / B)."""
    b, c = scale(far), scale(near)
    return (c * times(near, count) - b * times(far, count)) / (c - b)


# ---- plateaus ------------------------------------------------------------------------------------------------


def theta(run: Run, stage: Stage | None) -> np.ndarray:
    """p on the plateau after a predicted stage; zero before the first."""
    product = np.zeros(run.trajectory.sizes["coordinate"])
    if stage is not None:
        product[stage.extra["support"]] = stage.extra["values"]
    return product


def values_at(run: Run, name: str, moments: Sequence[float] | np.ndarray) -> np.ndarray:
    """An observable at some times (moments, ...), linear between the run's points."""
    time, values = run.trajectory["time"].values, run.trajectory[name].values
    flat = values.reshape(len(time), -1)
    found = np.stack([np.interp(moments, time, column) for column in flat.T], axis=-1)
    return found.reshape(len(moments), *values.shape[1:])


def moments_of(run: Run) -> list[float]:
    """Measured times of the stages, in the run's order."""
    return [float(stage.time) for stage in run.stages if stage.time is not None]


def middles(run: Run, count: int) -> np.ndarray:
    """Moments midway between a stage and the next, for the first `count` stages as the run had them."""
    moments = moments_of(run)[: count + 1]
    return (np.array(moments[1:]) + np.array(moments[:-1])) / 2


def plateau_errors(run: Run, count: int) -> np.ndarray:
    """max |p − theta^k| midway between stages."""
    assert run.prediction is not None
    found = values_at(run, "product", middles(run, count))
    expected = np.stack([theta(run, stage) for stage in run.prediction.stages[: len(found)]])
    return np.abs(found - expected).max(axis=1)


def active(product: np.ndarray) -> np.ndarray:
    """Which entries are nonnegligible, along the last axis."""
    size = np.abs(product)
    return size > data.ACTIVE * size.max(axis=-1, keepdims=True)


def newly_active(products: np.ndarray) -> np.ndarray:
    """How many entries become nonnegligible from each plateau (plateaus, coordinate) to the next, from zero on."""
    on = active(products)
    before = np.vstack([np.zeros_like(on[:1]), on[:-1]])
    return (on & ~before).sum(axis=1)


def entries_per_stage(run: Run, count: int) -> np.ndarray:
    return newly_active(values_at(run, "product", middles(run, count)))


def frame_of(run: Run) -> Any:
    """The run's own data."""
    return run.system.start(run.seed).frame


def force(run: Run, product: np.ndarray) -> np.ndarray:
    """g(theta) on the run's data."""
    from ...network import compiled_force

    return np.asarray(compiled_force(system_of(run).objective)(product, frame_of(run)))


def curvature(run: Run, stage: Stage) -> np.ndarray:
    """Eigenvalues of the relaxation 2 sqrt|theta| H sqrt|theta| on the support, ascending, by the run's Jacobian.

    d log|p|/dt = 2 sgn(p) g, so that the linear motion of log|p| on the support is −2 H |theta|, similar to it.
    """
    from ...plateaus import Logs
    from ...reduction import LogState

    product = theta(run, stage)
    on = np.flatnonzero(product)
    frame = frame_of(run)
    far = np.full(len(product), -1e4)
    state = LogState(*Logs(far, far).anchored(on, product[on]))
    matrix = np.asarray(run.system.flow.jacobian(frame)(state)) / frame.log_inverse_alpha
    place = np.where(product[on] > 0, on, len(product) + on)
    return np.sort(-np.linalg.eigvals(matrix[np.ix_(place, place)]).real)


# ---- logarithms of the weights -------------------------------------------------------------------------------


def exponents(run: Run, moments: Sequence[float] | np.ndarray) -> np.ndarray:
    """log_alpha of w = u + v, from log(|u|+|v|), the sign of p and the conserved u² − v² (moments, coordinate)."""
    from ...forecast import logs_of

    size = values_at(run, "log_size", moments)
    positive = values_at(run, "product", moments) > 0
    start = logs_of(run.system.start(run.seed).point)
    return -np.where(positive, size, start.whole - size) / scale(run)


def algorithm_exponents(run: Run, count: int) -> tuple[np.ndarray, np.ndarray]:
    """b^k by Eq. (10) when stage k+1 begins, and which entries are then off the support (stages, coordinate)."""
    b = np.ones(run.trajectory.sizes["coordinate"])
    rows, off = [], []
    for here, stage in with_previous(in_the_limit(run, count)):
        product, last = theta(run, here), here.extra["limit_time"] if here else 0.0
        b = b - force(run, product) * (product == 0) * (stage.extra["limit_time"] - last)
        rows.append(b.copy())
        off.append((product == 0) & ~np.isin(np.arange(len(b)), coordinates(stage)))
        after = theta(run, stage)
        b = np.where(after > 0, 0.0, np.where(after < 0, 2.0, b))
    return np.array(rows), np.array(off)


def exponent_errors(run: Run, count: int) -> np.ndarray:
    """|log_alpha w − b^k| off the support at the moments when stages begin, the largest of each stage."""
    expected, off = algorithm_exponents(run, count)
    # Each stage is measured at its own T_k: what moves the stage itself is not counted twice.
    found = exponents(run, limit_times(run, count))
    return np.where(off, np.abs(found - expected), 0.0).max(axis=1)


def growth_errors(run: Run, count: int) -> np.ndarray:
    """Eq. (7): growth of log(|u|+|v|) per time over a plateau against |g_i(theta^k)|, off by this share of the largest.

    Only entries that have left their turning point behind grow with w; those still shrinking towards it are left out.
    """
    errors = []
    for stage, (early, late) in _on_plateaus(run, count):
        size = values_at(run, "log_size", [early, late])
        product = values_at(run, "product", [early, late])
        pull = force(run, theta(run, stage))
        grows = (product[0] * pull > 0) & (product[1] * pull > 0) & (theta(run, stage) == 0)
        rate = (size[1] - size[0]) / (late - early) / scale(run)
        if grows.any():
            errors.append(np.abs(rate - np.abs(pull))[grows].max() / np.abs(pull).max())
    return np.array(errors)


def _on_plateaus(run: Run, count: int) -> Iterator[tuple[Stage, np.ndarray]]:
    """Each of the first plateaus, with the moments at 35% and 65% of it."""
    assert run.prediction is not None
    moments = moments_of(run)[: count + 1]
    for stage, (begin, end) in zip(run.prediction.stages, itertools.pairwise(moments), strict=False):
        yield stage, begin + np.array([0.35, 0.65]) * (end - begin)


def force_errors(run: Run, count: int) -> np.ndarray:
    """|g(theta(t)) − g(theta^k)| off the support, relative to the largest, at 35% and 65% of each plateau."""
    errors = []
    for stage, moments in _on_plateaus(run, count):
        off, pull = theta(run, stage) == 0, force(run, theta(run, stage))
        for product in values_at(run, "product", moments):
            errors.append(np.abs(force(run, product) - pull)[off].max() / np.abs(pull[off]).max())
    return np.array(errors)


def inactive_exponents(run: Run, count: int) -> np.ndarray:
    """c with |u|+|v| = alpha^c, the least over entries off the support, midway between stages."""
    assert run.prediction is not None
    size = values_at(run, "log_size", middles(run, count))
    off = np.stack([theta(run, stage) == 0 for stage in run.prediction.stages[: len(size)]])
    return np.where(off, -size / scale(run), np.inf).min(axis=1)


def newcomer_signs(run: Run, count: int) -> np.ndarray:
    """Sign of v at the newcomer (u > 0) times the sign of the force that brought it: Eq. (23)."""
    found = []
    for before, stage in with_previous(in_the_limit(run, count)):
        index = coordinates(stage)[0]
        product = values_at(run, "product", [measured_time(run, stage)])[0, index]
        found.append(np.sign(product) * np.sign(force(run, theta(run, before))[index]))
    return np.array(found)


def company(run: Run, count: int, size: float) -> np.ndarray:
    """When the newcomer has |u|+|v| = 4 rho: what all others off the support have together, in units of rho."""
    found = []
    for before, stage in with_previous(in_the_limit(run, count)):
        moment = _when_newcomer_has(run, stage, 4 * size)
        weights = np.exp(values_at(run, "log_size", [moment])[0])
        others = (theta(run, before) == 0) & (np.arange(len(weights)) != coordinates(stage)[0])
        found.append(weights[others].sum() / size)
    return np.array(found)


def _when_newcomer_has(run: Run, stage: Stage, size: float) -> float:
    """The moment in the last rise before the stage at which |u|+|v| of its coordinate has this size."""
    time, logs = run.trajectory["time"].values, run.trajectory["log_size"].values[:, coordinates(stage)[0]]
    upto = int(np.searchsorted(time, measured_time(run, stage))) + 1
    begin = int(np.argmin(logs[:upto]))
    high = np.maximum.accumulate(logs[begin:upto])
    keep = np.r_[True, np.diff(high) > 0]
    return float(np.interp(np.log(size), high[keep], time[begin:upto][keep]))


def active_wander(run: Run, count: int, size: float) -> np.ndarray:
    """Until the newcomer has |u|+|v| = 4 rho: how far active weights stray from theta^k, in units of rho (Eq. (25))."""
    found = []
    for before, stage in itertools.pairwise(in_the_limit(run, count)):
        end = _when_newcomer_has(run, stage, 4 * size)
        middle = (measured_time(run, before) + measured_time(run, stage)) / 2
        expected = theta(run, before)
        on = expected != 0
        root = np.sqrt(np.abs(values_at(run, "product", np.linspace(middle, end, 20))[:, on]))
        found.append(np.abs(root - np.sqrt(np.abs(expected[on]))).max() / size)
    return np.array(found)


# ---- motion --------------------------------------------------------------------------------------------------


def move_times(run: Run, count: int) -> np.ndarray:
    """Plain time from a tenth to nine tenths of each newcomer's theta^k."""
    found = []
    for stage in in_the_limit(run, count):
        index = coordinates(stage)[0]
        level = abs(theta(run, stage)[index])
        begin, end = (first_passage(run, index, share * level) for share in (0.1, 0.9))
        found.append((end - begin) * scale(run))
    return np.array(found)


def first_passage(run: Run, index: int, level: float) -> float:
    """When |p_index| first has this size, between the run's points linear in log|p|, as growth is; NaN if never."""
    time, size = run.trajectory["time"].values, np.abs(run.trajectory["product"].values[:, index])
    after = int(np.argmax(size >= level))
    if after == 0 or level <= 0:
        return float("nan")
    low, high = (np.log(max(value, 1e-300)) for value in size[after - 1 : after + 1])
    part = (np.log(level) - low) / (high - low)
    return float(time[after - 1] + part * (time[after] - time[after - 1]))


def on_the_move(run: Run, count: int) -> float:
    """Mean number of entries between a tenth and nine tenths of their largest size, when one passes half of it."""
    size = np.abs(run.trajectory["product"].values)
    largest = size.max(axis=0)
    noticeable = largest > 0.02 * largest.max()
    shares = size[:, noticeable] / largest[noticeable]
    halves = np.sort(np.argmax(shares >= 0.5, axis=0))[:count]
    return float(np.mean([((shares[row] > 0.1) & (shares[row] < 0.9)).sum() for row in halves]))


def curve_distances(runs: Sequence[Run], name: str = "loss") -> np.ndarray:
    """Mean |difference| over time between an observable's history at one alpha and at the next smaller one."""
    order = by_scale(runs)
    last = min(run.trajectory["time"].values[-1] for run in order)
    grid = np.linspace(0, last, 4000)
    curves = [values_at(run, name, grid) for run in order]
    return np.array([np.abs(a - b).mean() for a, b in itertools.pairwise(curves)])


def unit_logs(run: Run) -> Logs:
    """Of theta_0."""
    from ...forecast import logs_of

    return logs_of(system_of(run).unit_weights(run.seed))
