"""What single claims measure: one function each, beside the common measures."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from saddlescope.core.claim import by_field
from saddlescope.core.run import Run

from . import common
from .common import coordinates, scale, theta, values_at


def lateness_slopes(runs: Sequence[Run]) -> np.ndarray:
    """Exponents with which |t_k − T_k|/T_k of the first six stages grows in log(1/alpha), fitted over the runs."""
    x = np.log([scale(run) for run in runs])
    y = np.log([np.abs(common.lateness(run, 6) / scale(run)) for run in runs])
    return np.polyfit(x, y, 1)[0]


# ---- the limit


def waits(times: np.ndarray) -> np.ndarray:
    """From the start to the first of these times, and from each to the next."""
    return np.diff(np.r_[0.0, times])


def growth_of_waiting(far: Run, near: Run, count: int) -> np.ndarray:
    """By how much the plain time between stages grows, per unit of log(1/alpha)."""
    first, second = (waits(common.times(run, count)) * scale(run) for run in (far, near))
    return (second - first) / (scale(near) - scale(far))


def first_waits(runs: Sequence[Run]) -> np.ndarray:
    """By how much the plain time of the first stage grows from one scale to the next, per unit of log(1/alpha)."""
    order = common.by_scale(runs)
    scales = np.array([scale(run) for run in order])
    return np.diff([common.times(run, 1)[0] * scale(run) for run in order]) / np.diff(scales)


def expected_first_waits(runs: Sequence[Run]) -> np.ndarray:
    """T_1, once for each step from alpha = 0.01 on."""
    return np.full(4, common.first_limit_time(runs[0]))


def exponent_errors(runs: Sequence[Run]) -> list[tuple[float, float]]:
    """Rows (log(1/alpha), largest error of b^k of the first three stages) at alpha = 1e-32, 1e-64 and 1e-128."""
    chosen = common.with_scale(runs, -32.0, -64.0, -128.0)
    return [(scale(run), common.exponent_errors(run, 3).max()) for run in chosen]


def at_two_sizes(measured: Callable[[Run, int, float], np.ndarray]) -> Callable[[Run], np.ndarray]:
    """Of the first five stages, with rho = 0.1 and 0.01."""
    return lambda run: np.r_[measured(run, 5, 0.1), measured(run, 5, 0.01)]


def least_curvatures(run: Run) -> list[float]:
    """Of theta^k after the first six stages."""
    return [common.curvature(run, stage)[0] for stage in common.in_the_limit(run, 6)]


def movers(runs: Sequence[Run]) -> list[float]:
    """Entries on the move at one time, from the largest alpha to the smallest."""
    return [common.on_the_move(run, 6) for run in common.by_scale(runs)]


def energy_rank(values: np.ndarray) -> int:
    """How many entries hold 99.9% of the squared norm."""
    energy = np.cumsum(np.sort(values**2)[::-1])
    return int(np.searchsorted(energy, 0.999 * energy[-1])) + 1


def rank_against_random(run: Run) -> float:
    """The same of p at the end, over the mean of 200 random changes."""
    draws = np.random.default_rng(0).normal(size=(200, common.system_of(run).size))
    return energy_rank(final_products(run)) / float(np.mean([energy_rank(draw) for draw in draws]))


def active_counts(run: Run) -> np.ndarray:
    return common.active(values_at(run, "product", common.middles(run, len(run.stages) - 1))).sum(axis=1)


# ---- perturbations


def what_is_left(run: Run) -> list[float]:
    """Distance from the plateau after twelve relaxation times, as a share of the first."""
    from ...network import hessian_columns

    goal = common.system_of(run).goal()
    on = np.flatnonzero(goal)
    curve = hessian_columns(common.system_of(run).objective, goal, common.frame_of(run), on)[on]
    root = np.sqrt(np.abs(goal[on]))
    slowest = float(np.linalg.eigvalsh(2 * root[:, None] * curve * root)[0])
    product = values_at(run, "product", [0.0, 12 / slowest / scale(run)])
    distance = np.abs(product - goal).max(axis=1)
    return [distance[1] / distance[0]]


def distance_from_goal(run: Run) -> list[float]:
    return [float(np.abs(final_products(run) - common.system_of(run).goal()).max())]


def _pairs(runs: Sequence[Run]) -> list[tuple[Run, Run]]:
    """Undisturbed and disturbed runs of the same stage."""
    calm = {run.system.spec.stage: run for run in runs if run.system.spec.noise == 0}
    return [(calm[run.system.spec.stage], run) for run in runs if run.system.spec.noise > 0]


def lasting_differences(runs: Sequence[Run]) -> list[float]:
    """Largest |difference of p| between disturbed and undisturbed runs at the end."""
    return [float(np.abs(final_products(a) - final_products(b)).max()) for a, b in _pairs(runs)]


def nearest_to_goal(runs: Sequence[Run]) -> list[float]:
    """How much farther than the undisturbed run each disturbed one stays from theta^{k+1}."""

    def nearest(run: Run) -> float:
        return float(np.abs(run.trajectory["product"].values - common.system_of(run).goal()).max(axis=1).min())

    return [nearest(disturbed) - nearest(calm) for calm, disturbed in _pairs(runs)]


# ---- entries that leave


def what_remains(run: Run) -> np.ndarray:
    """Of entries that had more than a fiftieth of the largest: what they end with, as a share of their own largest."""
    size = np.abs(run.trajectory["product"].values)
    largest = size.max(axis=0)
    learned = largest > 0.02 * largest.max()
    return size[-1, learned] / largest[learned]


def departures(run: Run) -> list[int]:
    """Per stage the number of entries that left, and the sum of their places, from plateau to plateau."""
    on = common.active(_plateau_after(run, len(run.stages)))
    gone = [np.flatnonzero(a & ~b) for a, b in itertools.pairwise(on)]
    return [0, 0, *(int(number) for left in gone for number in (len(left), left.sum()))]


def predicted_departures(run: Run) -> list[int]:
    assert run.prediction is not None
    left = [stage.extra["left"] for stage in run.prediction.stages]
    return [number for gone in left for number in (len(gone), sum(gone))]


def push_on_leavers(run: Run) -> list[float]:
    """Force on entries that leave, in the direction of what they were."""
    assert run.prediction is not None
    found = []
    for before, stage in common.with_previous(run.prediction.stages):
        pull, was = common.force(run, theta(run, stage)), theta(run, before)
        found += [float(np.sign(was[index]) * pull[index]) for index in stage.extra["left"]]
    return found


def shrinking(run: Run) -> list[float]:
    """Growth rate of log(|u|+|v|) of entries that leave, in the first third of the plateau that follows."""
    assert run.prediction is not None
    found = []
    moments = [*common.moments_of(run), float(run.trajectory["time"].values[-1])]
    for place, stage in enumerate(run.prediction.stages):
        for index in stage.extra["left"]:
            begin, end = moments[place : place + 2]
            window = np.array([0.1, 0.3]) * (end - begin) + begin
            size = values_at(run, "log_size", window)[:, index]
            found.append(float((size[1] - size[0]) / (window[1] - window[0]) / scale(run)))
    return found


# ---- heads


def _plateau_after(run: Run, count: int) -> np.ndarray:
    moments = common.moments_of(run)
    last = float(run.trajectory["time"].values[-1])
    ends = [*moments[1:], last][:count]
    return values_at(run, "product", (np.array(moments[:count]) + np.array(ends)) / 2)


def entries_of_heads(run: Run) -> np.ndarray:
    """How many entries of all heads the first two stages bring."""
    return common.newly_active(_plateau_after(run, 2))


def entries_of_sums(run: Run) -> np.ndarray:
    """The same of the sum over the heads of each layer."""
    spec = run.system.spec
    heads = _plateau_after(run, 2).reshape(2, spec.layers, spec.heads, -1)
    return common.newly_active(heads.sum(axis=2).reshape(2, -1))


def shares(run: Run) -> list[float]:
    """p of one head over p of the other, after the first stage, which both share."""
    first, second = sorted(coordinates(common.in_the_limit(run, 1)[0]))[:2]
    product = _plateau_after(run, 1)[0]
    return [product[first] / product[second]]


def shares_of_the_start(run: Run) -> list[float]:
    """w² of one over w² of the other at the start, where w is u+v for entries that become positive, else u−v."""
    stage = common.in_the_limit(run, 1)[0]
    first, second = sorted(coordinates(stage))[:2]
    side = common.unit_logs(run)[0 if theta(run, stage)[first] > 0 else 1]
    return [float(np.exp(2 * (side[first] - side[second])))]


def tied_moments(run: Run) -> np.ndarray:
    """When each of the two entries of the first stage passes half of its size on the plateau after it."""
    after, tied = _plateau_after(run, 1)[0], coordinates(common.in_the_limit(run, 1)[0])[:2]
    return np.array([common.first_passage(run, index, abs(after[index]) / 2) for index in tied])


# ---- training


def final_products(run: Run) -> np.ndarray:
    return run.trajectory["product"].values[-1]


def halving_ratios(runs: Sequence[Run]) -> float:
    """(p at a rate − p at half of it) over (p at half − p at a quarter), by norm: 2 for a method of first order."""
    order = sorted(runs, key=lambda run: -run.system.spec.learning_rate)
    ends = [final_products(run) for run in order]
    first, second = (np.linalg.norm(a - b) for a, b in itertools.pairwise(ends[:3]))
    return float(first / second)


def drift_exponents(runs: Sequence[Run]) -> list[float]:
    """With which power of the rate the drift of u² − v² falls, for each loss, where weights do not decay."""
    found = []
    for group in by_field((run for run in runs if not run.system.spec.weight_penalty), "error").values():
        rates = np.log([run.system.spec.learning_rate for run in group])
        drifts = np.log([run.trajectory.attrs["conserved_drift"] for run in group])
        found.append(float(np.polyfit(rates, drifts, 1)[0]))
    return found


def decayed(runs: Sequence[Run]) -> Any:
    """The trajectory with weight decay at the smallest rate."""
    decaying = [run for run in runs if run.system.spec.weight_penalty]
    return min(decaying, key=lambda run: run.system.spec.learning_rate).trajectory


def drift_of_decay(runs: Sequence[Run]) -> float:
    """What exp(−2 lambda t) makes of the largest u² − v², over the largest squared weight of the run."""
    run = next(run for run in runs if run.system.spec.weight_penalty)
    trajectory, spec = decayed(runs), run.system.spec
    unit = common.system_of(run).unit_weights(run.seed)
    first = 10.0 ** (2 * spec.log10_alpha) * np.abs(unit.u**2 - unit.v**2).max()
    total, product = np.exp(trajectory["log_size"].values), np.abs(trajectory["product"].values)
    largest = ((total + np.sqrt(np.maximum(total**2 - 4 * product, 0.0))) / 2).max()
    time = float(trajectory["time"].values[-1]) * scale(run)
    return float(first * -np.expm1(-2 * spec.weight_penalty * time) / largest**2)


def step_errors(run: Run) -> list[float]:
    """log(|u|+|v|) after a step against its value before + log(1 + lr sgn(p) g), over all recorded pairs of steps."""
    time, product, logs = (run.series(name) for name in ("time", "product", "log_size"))
    rate = run.system.spec.learning_rate
    errors = []
    for row in np.flatnonzero(np.abs(np.diff(time) * scale(run) / rate - 1) < 1e-6)[::7]:
        # An entry whose u or v changes its sign in this step is at its turning point, where the formula changes too.
        steady = np.sign(product[row]) == np.sign(product[row + 1])
        expected = logs[row] + np.log1p(rate * np.sign(product[row]) * common.force(run, product[row]))
        errors.append(float(np.abs(logs[row + 1] - expected)[steady].max()))
    return errors


def next_singular_values(run: Run, name: str, count: int) -> list[float]:
    """When singular value k passes half of its value at the next one's passage: the next one's size, over its own.

    A value's own size is what it has when the one after it has half of its last value.
    """
    values = run.trajectory[name].values
    last = values[-1]
    rows = [int(np.argmax(values[:, k] >= last[k] / 2)) for k in range(count + 2)]
    own = [values[rows[k + 1], k] for k in range(count + 1)]
    halves = [int(np.argmax(values[:, k] >= own[k] / 2)) for k in range(count + 1)]
    return [values[halves[k], k + 1] / own[k + 1] for k in range(count)]


def pace_of_adam(run: Run, steps: int) -> np.ndarray:
    """|log of (|u|+|v|) / (2 lr steps)| of every entry."""
    rate = run.system.spec.learning_rate
    size = values_at(run, "log_size", [steps * rate / scale(run)])[0]
    return np.abs(size - np.log(2 * rate * steps))


def time_errors(run: Run, count: int) -> np.ndarray:
    """Relative distance of times from the predicted ones."""
    return np.abs(common.times(run, count) / common.predicted_times(run, count) - 1)


# ---- linear networks


def inverse_coefficients(run: Run) -> np.ndarray:
    """1/|c|, in ascending order."""
    return np.sort(1 / np.abs(np.array(run.system.spec.coefficients)))


def gaps_from_positive(run: Run) -> np.ndarray:
    """|p − max(c, 0)| at the end."""
    return np.abs(final_products(run) - np.maximum(run.system.spec.coefficients, 0.0))


def logistic_times(run: Run) -> np.ndarray:
    """With identity covariance p' = 2p(c − p): half is passed where the linear growth reaches |c|."""
    truth = np.array(run.system.spec.coefficients)
    rise, fall = common.unit_logs(run)
    grows = np.where(truth > 0, rise, fall) - scale(run)
    moments = (np.log(2 * np.sqrt(np.abs(truth))) - grows) / np.abs(truth) / scale(run)
    return np.array([moments[coordinates(stage)[0]] for stage in common.in_the_limit(run)])


def late_growth(run: Run) -> float:
    """How much the largest entry grows, relatively, from half the run to its end."""
    size = np.abs(values_at(run, "product", np.array([0.5, 1.0]) * run.trajectory["time"].values[-1])).max(axis=1)
    return float(size[1] / size[0] - 1)


def growth_and_time(run: Run) -> list[float]:
    """This growth plus 1, and the first time over the predicted one."""
    return [1 + late_growth(run), *common.times(run, 1) / common.predicted_times(run, 1)]
