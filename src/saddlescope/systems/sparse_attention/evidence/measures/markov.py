"""Numbers that claims and figures read off training runs on the Markov chain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from saddlescope.core.run import Run

from ...chain import lags
from .flow import by

LOOKS = 0.25
"""Part of the way from its attention at the start to all of it at which a head is said to look at an interval."""


PLATEAU = 0.2
"""Slope between two stages, over that in them, above which there is no plateau between them."""


def steps(run: Run) -> np.ndarray:
    return run.trajectory["step"].values


def predicted_excess(run: Run) -> np.ndarray:
    """P_0, P_1, ...: excess losses of the predicted plateaus."""
    assert run.prediction is not None
    entropy = run.series("loss")[0] - run.series("excess")[0]
    return np.array(run.prediction.levels) - entropy


def first_step(run: Run, reached: np.ndarray) -> float:
    """The first recorded step at which something is so; NaN if it never is."""
    return float(steps(run)[np.argmax(reached)]) if reached.any() else np.nan


def looking_steps(run: Run) -> np.ndarray:
    """When some head first looks at each interval."""
    most = run.series("mass")[..., :-1].max(1)
    with np.errstate(divide="ignore", invalid="ignore"):  # a window may hold nothing else
        reached = (most - most[0]) / (1 - most[0])
    return np.array([first_step(run, reached[:, g] > LOOKS) for g in range(reached.shape[1])])


def feature_leads(run: Run) -> np.ndarray:
    """Steps from when a quarter of A_k* is held to when the next interval is looked at, k = 1, 2."""
    return np.nan_to_num(looking_steps(run)[1:3], nan=np.inf) - feature_steps(run)[:2]


def looks_and_lasts(run: Run) -> list[bool]:
    """Whether the last interval is looked at in the end; whether nine tenths of the time have passed by then."""
    spec = run.system.spec
    return [np.isfinite(looking_steps(run)[-1]), run.series("time")[-1] / (spec.steps * spec.learning_rate) > 0.9]


def crossing_steps(run: Run) -> np.ndarray:
    """When the excess loss first falls below the geometric mean of two plateaus; NaN where it does not."""
    assert run.prediction is not None
    return np.array([first_step(run, run.series("excess") <= mark.level) for mark in run.prediction.marks])


def second_steps(runs: Sequence[Run]) -> list[float]:
    """The second of these steps, from the largest scale of the start down to the smallest above zero."""
    order = sorted(runs, key=lambda run: -run.system.spec.init_scale)
    return [crossing_steps(run)[1] for run in order if run.system.spec.init_scale > 0]


def feature_steps(run: Run, share: float = 0.25) -> np.ndarray:
    """When the heads that look at I(k) first hold this share of A_k*."""
    held = run.series("feature")
    return np.array([first_step(run, held[:, k] > share) for k in range(held.shape[1])])


def plateau_level(run: Run, place: int) -> float:
    """Excess where it is flattest over the logarithm of the step, within the range that belongs to plateau `place`.

    The range of P_i reaches to the geometric means with its neighbours. NaN where the curve has no flat place inside
    it: it is then least steep at an end of the range.
    """
    levels = predicted_excess(run)
    excess, step = run.series("excess"), steps(run)
    high, low = np.sqrt(levels[place] * levels[[place - 1, place + 1]])
    inside = np.flatnonzero((excess < high) & (excess > low) & (step > 0))
    if len(inside) < 3:
        return np.nan
    slope = np.abs(np.gradient(np.log(excess[inside]), np.log(step[inside])))
    flattest = int(np.argmin(slope))
    return float(excess[inside[flattest]]) if 0 < flattest < len(inside) - 1 else np.nan


def plateau_levels(run: Run, count: int) -> np.ndarray:
    return np.array([plateau_level(run, place) for place in range(1, count + 1)])


def midway(run: Run) -> int | None:
    """Where in the record the middle, in log-steps, between the first and the second stage lies."""
    first, second = (*crossing_steps(run), np.nan)[:2]
    if not np.isfinite(first):
        return None
    last = steps(run)[-1]
    return int(np.searchsorted(steps(run), np.sqrt(first * (second if np.isfinite(second) else last))))


def heads_on_first(run: Run) -> int:
    """How many heads look most at I(1), of all intervals, midway from the first to the second stage."""
    place = midway(run)
    return int((run.series("mass")[place][:, :-1].argmax(1) == 0).sum()) if place is not None else -1


def favourites(run: Run, place: int = -1) -> int:
    """How many different intervals heads look most at; by default, in the end."""
    return len(set(run.series("mass")[place][:, :-1].argmax(1).tolist()))


def favourites_gained(run: Run) -> int:
    """From midway between the first two stages to the end."""
    return favourites(run) - favourites(run, midway(run) or 0)


def owned(run: Run) -> np.ndarray:
    """The most attention that any one head gives in the end to each interval; above one half, heads are different."""
    return run.series("mass")[-1][:, :-1].max(0)


def learned_in_order(run: Run) -> int:
    """How many intervals come to be looked at one after the other, from the most important on."""
    found = looking_steps(run)
    later = np.r_[True, np.diff(found) > 0] & np.isfinite(found)
    return int(np.cumprod(later).sum())


def skipped(run: Run) -> int:
    """How many intervals are never looked at though a less important one is, or though they are the first."""
    seen = np.isfinite(looking_steps(run))
    return int((~seen[: seen.nonzero()[0].max()]).sum()) if seen.any() else len(seen)


def order_kept(run: Run) -> list[float]:
    """Steps from each interval that is looked at to the next, and minus those skipped: none is negative in order."""
    found = looking_steps(run)
    return [*np.diff(found[np.isfinite(found)]), -skipped(run)]


def head_spread(run: Run) -> float:
    """Largest difference between two heads' attention maps at any time."""
    maps = run.series("map")
    return float((maps.max(1) - maps.min(1)).max())


def separation(run: Run) -> float:
    """How clearly stages are apart: the least slope of log excess over log step between the first and second stage.

    Over the steepest; 0 for a flat plateau, below it where the loss rises again, near 1 for a curve without one.
    """
    crossings = crossing_steps(run)[:2]
    if not np.isfinite(crossings).all():
        return np.nan
    step = steps(run)
    use = step > 0
    slope = -np.gradient(np.log(run.series("excess")[use]), np.log(step[use]))
    between = (step[use] >= crossings[0]) & (step[use] <= crossings[1])
    return float(slope[between].min() / slope[between].max()) if between.any() else np.nan


def separations(runs: Sequence[Run]) -> list[float]:
    """First where the most important interval is not the nearest, then where it is."""
    return [separation(run) for run in sorted(runs, key=lambda run: 1 in run.system.spec.lags[0])]


def drops(run: Run) -> int:
    """How often the excess loss falls steeply: peaks of its slope over the logarithm of the step, before the last mark.

    A peak counts if the slope rises to it by a quarter from the valleys beside it, over nine of 400 points on the
    record's logarithmic axis.
    """
    from scipy.signal import find_peaks

    assert run.prediction is not None
    excess, step = run.series("excess"), steps(run)
    use = (step >= 3) & (excess > 0)
    if use.sum() < 20:
        return -1
    grid = np.linspace(np.log(step[use][0]), np.log(step[use][-1]), 400)
    curve = np.interp(grid, np.log(step[use]), np.log(excess[use]))
    slope = np.convolve(-np.gradient(curve, grid), np.full(9, 1 / 9), "valid")
    # A drop in which the record ends counts as well: beyond its end, nothing falls.
    peaks, _ = find_peaks(np.r_[slope, 0.0], prominence=0.25)
    return int((curve[4 + peaks] > np.log(run.prediction.marks[-1].level)).sum())


def best(run: Run) -> tuple[float, int]:
    """The least excess loss, and where in the record."""
    excess = run.series("excess")
    place = int(np.argmin(excess))
    return float(excess[place]), place


def stages_at_best(run: Run) -> int:
    """How many stages the excess loss had passed at its least."""
    assert run.prediction is not None
    return sum(best(run)[0] <= mark.level for mark in run.prediction.marks)


def stages_by_samples(runs: Sequence[Run]) -> list[int]:
    """Of transformers of unrestricted context, from the fewest sequences to the most."""
    return [stages_at_best(run) for run in by(unrestricted(runs), "samples")]


def stages_lost(runs: Sequence[Run]) -> int:
    """The most of these stages less the fewest."""
    return np.ptp(stages_by_samples(runs))


# ---- comparing models


def divergences_from(run: Run, others: Sequence[Run]) -> np.ndarray:
    """KL(other at its best || run), the mean over contexts, over the run's record: one row for each of the others."""
    logs = [other.series("probe")[best(other)[1]] for other in others]
    return np.stack([(np.exp(truth) * (truth - run.series("probe"))).sum(-1).mean(-1) for truth in logs])


def unrestricted(runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if run.system.spec.context is None]


def by_context(runs: Sequence[Run]) -> list[Run]:
    """Models trained on windows, from the shortest context to the longest."""
    chosen = [run for run in runs if run.system.spec.context and run.system.spec.restriction == "windows"]
    return sorted(chosen, key=lambda run: run.system.spec.context)


# ---- one lag among others


def lag_profile(run: Run) -> np.ndarray:
    """Attention at the end by lag 1, 2, ..., w, added over heads and averaged over predictions."""
    maps, behind = run.series("map")[-1].sum(0), lags(run.system.spec)
    seen = [maps[behind == lag] for lag in range(1, run.system.spec.window + 1)]
    return np.array([found.mean() if found.size else np.nan for found in seen])


def nearest_lag(run: Run) -> float:
    """Attention on lag 1 over the mean of the other lags of its interval."""
    profile = lag_profile(run)
    interval = next(lags for lags in run.system.spec.lags if 1 in lags)
    return float(profile[0] / np.mean([profile[lag - 1] for lag in interval if lag != 1]))


# ---- the construction of section 2.1


def construction_rates(run: Run) -> np.ndarray:
    """−d ln(excess)/dλ of V_k = A_k* with logits λ on I(k), on the run's test sequences, from λ = 5 to 10 to 15."""
    import jax

    from ... import network

    system: Any = run.system
    spec = system.spec.replace(precision="float64")
    frame = type(system)(spec).start(0).frame
    excess = jax.jit(lambda weights, frame: network.measure(weights, spec, frame)["excess"])
    found = [float(excess(network.construction(spec, frame, value), frame)) for value in (5.0, 10.0, 15.0)]
    return -np.diff(np.log(found)) / 5


def truncated_excess(run: Run, learned: int) -> float:
    """Excess loss of the truncated truth f_{A*_{1:i}} itself."""
    truths = run.system.start(run.seed).frame.truths
    truth, part = np.asarray(truths[-1], float), np.asarray(truths[learned - 1], float)
    return float((np.exp(truth) * (truth - part)).sum(-1).mean())


def truncated_levels(run: Run, count: int) -> list[float]:
    return [truncated_excess(run, learned) for learned in range(1, count + 1)]
