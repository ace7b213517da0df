"""When something was learned: passages of predicted levels, and stages of curves that come without a prediction."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from saddlescope.core.extras import needed_by
from saddlescope.core.stage import Mark, Stage


def slowest(time: np.ndarray, loss: np.ndarray, start: float, end: float) -> float | None:
    """Loss where the curve is flattest between two moments: the level of the plateau between them.

    Between the flattest interval and its neighbours the log-speed is taken as a parabola and log L as a cubic, so that
    a brief plateau's level does not depend on where the grid happens to lie.
    """
    inside = np.flatnonzero((time >= start) & (time <= end) & (time > 0) & (loss > 0))
    if len(inside) < 4:
        return float(np.interp((start + end) / 2, time, loss)) if len(time) else None
    gaps, y = _log_gaps(time[inside]), np.log(loss[inside])
    speed = np.abs(np.diff(y)) / gaps
    flattest = int(np.clip(np.argmin(speed), 1, len(speed) - 2))
    x = np.r_[0.0, np.cumsum(gaps[flattest - 1 : flattest + 2])]  # the four grid points around it
    y = y[flattest - 1 : flattest + 3]
    (m0, m1, m2), (s0, s1, s2) = (x[1:] + x[:-1]) / 2, speed[flattest - 1 : flattest + 2]
    left, right = (s1 - s0) / (m1 - m0), (s2 - s1) / (m2 - m1)
    vertex = (m0 + m1) / 2 - left * (m2 - m0) / (2 * (right - left)) if right > left else None
    lowest = vertex if vertex is not None else 0.0 if s0 <= s2 else x[-1]  # what bends downwards is least at an end
    level = np.polynomial.Polynomial.fit(x, y, 3)(float(np.clip(lowest, 0.0, x[-1])))
    return float(np.exp(np.clip(level, y.min(), y.max())))


def stages_at_marks(
    time: np.ndarray, observables: Mapping[str, np.ndarray], marks: Sequence[Mark], predicted: Sequence[Stage]
) -> list[Stage]:
    """The predicted stages that a trajectory went through, with measured times and plateau losses, in their order.

    observables: arrays with time first.  A stage's loss is taken where the curve is flattest before the next
    passage, after the last one at the end.
    """
    found = []
    for mark, stage in zip(marks, predicted, strict=True):
        moment = mark.passage(time, observables)
        if moment is not None:
            found.append((moment, stage))
    moments = sorted(moment for moment, _ in found)
    loss = observables["loss"]
    stages = []
    for moment, stage in found:
        later = [other for other in moments if other > moment]
        level = slowest(time, loss, moment, later[0]) if later else float(loss[-1])
        stages.append(Stage(stage.index, moment, level, stage.label, stage.extra))
    return stages


class FoundStage(NamedTuple):
    """A stage of a curve without theory: from `start` to `end` lies the drop, `time` is its steepest moment.

    On a rising curve the drop is a rise, and `loss_after` the higher value.
    confidence in [0, 1]: how clearly it stands out.
    """

    time: float
    start: float
    end: float
    loss_before: float
    loss_after: float
    confidence: float


def detect_stages(
    time: np.ndarray,
    loss: np.ndarray,
    *,
    noisy: bool | None = None,
    rising: bool = False,
    smallest_drop: float = 1e-3,
    count: int | None = None,
) -> list[FoundStage]:
    """Drops of any loss curve, in order; with `rising` the rises of a rank, or of anything else that grows.

    time, loss: the curve.  noisy: None decides by the share of rises.  smallest_drop: share of the whole fall below
    which a drop is ignored.  count: number of drops if theory knows it.
    """
    time, loss = _checked(time, loss)
    if rising:
        found = detect_stages(time, -loss, noisy=noisy, smallest_drop=smallest_drop, count=count)
        return [stage._replace(loss_before=-stage.loss_before, loss_after=-stage.loss_after) for stage in found]
    if noisy is None:
        noisy = looks_noisy(loss)
    return (_stages_by_change_points if noisy else _stages_by_speed)(time, loss, smallest_drop, count)


def looks_rising(loss: np.ndarray) -> bool:
    """The end lies above the start by more than half the range; both as medians, as single points may be noise."""
    loss = np.asarray(loss, float)
    loss = loss[np.isfinite(loss)]
    if len(loss) == 0:
        return False
    ends = max(len(loss) // 20, 1)
    return bool(np.median(loss[-ends:]) - np.median(loss[:ends]) > 0.5 * np.ptp(loss))


def looks_noisy(loss: np.ndarray) -> bool:
    """A gradient flow only falls; more than 2% of steps that rise by more than rounding mean noise."""
    rises = np.diff(loss) > 1e-9 * np.abs(loss[:-1])
    return bool(rises.mean() > 0.02)


LARGEST = 1e140
"""Numbers up to which squares, and sums of many, are numbers."""


def _checked(time: np.ndarray, loss: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    time, loss = np.asarray(time, float), np.asarray(loss, float)
    if time.ndim != 1 or time.shape != loss.shape:
        raise ValueError(
            f"`time` and `loss` must be two columns of equal length, got shapes {time.shape} and {loss.shape}"
        )
    good = np.isfinite(time) & np.isfinite(loss)
    if not good.all():
        first = int(np.flatnonzero(~good)[0])
        raise ValueError(f"`loss` is not finite at row {first} (time {time[first]}): cut the curve there, or mend it")
    if max(np.abs(time).max(initial=0.0), np.abs(loss).max(initial=0.0)) > LARGEST:
        raise ValueError(f"a curve has numbers up to {LARGEST:g}, got larger ones: cut it, or mend it")
    if len(time) < 8:
        raise ValueError(f"a curve needs at least 8 points to show stages, got {len(time)}")
    if np.any(np.diff(time) <= 0):
        raise ValueError("`time` must increase strictly")
    return time, loss


def _log_gaps(time: np.ndarray) -> np.ndarray:
    """Steps in log-time, in which plateaus of growing length look alike.

    Not as differences of logarithms, in which the steps of a drop at a time of 1e15 would be lost. A start at or before
    zero is moved one step above it.
    """
    shifted = time if time[0] > 0 else time - time[0] + (time[1] - time[0])
    return np.log1p(np.diff(shifted) / shifted[:-1])


def _stages_by_speed(time, loss, smallest_drop, count):
    """Noise-free: drops are the peaks of −dL/dlog t, plateaus the valleys between them."""
    from scipy.signal import find_peaks

    # Drops of a small start last 1e-3 of their time: the curve's own grid is kept, no resampling could hold it.
    speed = np.maximum(-np.diff(loss) / _log_gaps(time), 0.0)
    whole = max(loss[0] - loss.min(), np.finfo(float).tiny)
    floor = 1e-12 * speed.max(initial=0.0) + np.finfo(float).tiny
    height = np.log(speed + floor)
    peaks, shape = find_peaks(np.r_[-np.inf, height, -np.inf], prominence=np.log(2.0))
    peaks = peaks - 1
    bounds = [0] + [int(a + np.argmin(height[a : b + 1])) for a, b in itertools.pairwise(peaks)] + [len(loss) - 1]
    found = []
    for peak, prominence, left, right in zip(peaks, shape["prominences"], bounds, bounds[1:], strict=False):
        drop = loss[left] - loss[right]
        if drop < smallest_drop * whole:
            continue
        clear = 1.0 - np.exp(-min(float(prominence), 50.0))
        found.append(_found_stage(time, loss, int(left), int(right), float((time[peak] + time[peak + 1]) / 2), clear))
    return _best(found, count)


BINS = 600
FEWEST_NOISY = 40
SHORTEST_PLATEAU = 0.04
"""Share of the log-time range below which a level between two steps belongs to one drop that is not sharp."""

LEAST_SIGNIFICANCE = 5.0
"""Standard errors by which a step must stand out: 600 bins give some ten thousand pairs of segments to choose from."""


def _stages_by_change_points(time, loss, smallest_drop, count):
    """Noisy: the least-squares staircase over bins of log-time, with insignificant steps and unsharp drops merged."""
    with needed_by("finding the stages of a noisy curve"):
        import ruptures

    if len(time) < FEWEST_NOISY:
        raise ValueError(f"a noisy curve needs at least {FEWEST_NOISY} points to show stages, got {len(time)}")
    moments, clock, level, error_of_bin = _binned(time, loss)
    search: Any = ruptures.KernelCPD(kernel="linear", min_size=3).fit(level[:, None])
    cuts = search.predict(n_bkps=min(16, len(level) // 4))[:-1]
    whole = level[:5].mean() - level[-5:].mean()
    cuts = _significant(level, error_of_bin, cuts, smallest_drop * max(whole, 0.0))
    groups = _grouped(cuts, clock)
    found = []
    edges = [0, *(cut for group in groups for cut in (group[0], group[-1])), len(level)]
    for number, group in enumerate(groups):
        before, after = slice(edges[2 * number], group[0]), slice(group[-1], edges[2 * number + 3])
        high, low = level[before].mean(), level[after].mean()
        inside = slice(max(group[0] - 3, 0), group[-1] + 3)
        half = int(np.argmax(level[inside] <= (high + low) / 2))
        z = (high - low) / np.hypot(_mean_error(error_of_bin[before]), _mean_error(error_of_bin[after]))
        found.append(
            FoundStage(
                float(moments[inside][half]),
                float(moments[inside][0]),
                float(moments[inside][-1]),
                float(high),
                float(low),
                float(1 - np.exp(-max(z - LEAST_SIGNIFICANCE, 0.0) / 2)),
            )
        )
    return _best(found, count)


def _binned(time: np.ndarray, loss: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mean time, log-time and loss in bins of log-time that hold at least one point, and the loss's standard error.

    Averages, not interpolation: interpolated points share their noise and would look like steps.
    """
    clock = np.r_[0.0, np.cumsum(_log_gaps(time))]
    index = np.minimum((BINS * (clock - clock[0]) / (clock[-1] - clock[0])).astype(int), BINS - 1)
    _, place, counts = np.unique(index, return_inverse=True, return_counts=True)
    steps = np.diff(loss)
    noise = np.median(np.abs(steps)) / 0.954  # of a difference of two normals
    if noise == 0:  # a rank in whole numbers rests at most steps: its flicker is the noise
        noise = np.sqrt((steps**2).mean() / 2)
    noise = max(noise, 1e-150)  # its square is still a number
    means = [np.bincount(place, values) / counts for values in (time, clock, loss)]
    return means[0], means[1], means[2], noise / np.sqrt(counts)


def _mean_error(errors: np.ndarray) -> float:
    return float(np.sqrt((errors**2).sum()) / len(errors))


def _significant(level: np.ndarray, errors: np.ndarray, cuts: list[int], least: float) -> list[int]:
    """Take away, one by one, the least significant step until every step falls, stands out and is high enough."""
    cuts = list(cuts)
    while cuts:
        edges = [0, *cuts, len(level)]
        parts = [slice(a, b) for a, b in itertools.pairwise(edges)]
        steps = np.array([level[a].mean() - level[b].mean() for a, b in itertools.pairwise(parts)])
        spread = [np.hypot(_mean_error(errors[a]), _mean_error(errors[b])) for a, b in itertools.pairwise(parts)]
        z = np.where(steps >= least, steps / spread, -np.inf)
        worst = int(np.argmin(z))
        if z[worst] >= LEAST_SIGNIFICANCE:
            break
        del cuts[worst]
    return cuts


def _grouped(cuts: list[int], clock: np.ndarray) -> list[list[int]]:
    """Cuts with no plateau between them are one drop."""
    shortest = SHORTEST_PLATEAU * (clock[-1] - clock[0])
    groups: list[list[int]] = []
    for cut in cuts:
        if groups and clock[cut] - clock[groups[-1][-1]] < shortest:
            groups[-1].append(cut)
        else:
            groups.append([cut])
    return groups


def _found_stage(time, loss, left, right, moment, confidence) -> FoundStage:
    return FoundStage(
        moment,
        float(time[left]),
        float(time[right]),
        float(loss[left]),
        float(loss[right]),
        float(confidence),
    )


def _best(found: list[FoundStage], count: int | None) -> list[FoundStage]:
    if count is None or len(found) <= count:
        return found
    strongest = sorted(found, key=lambda stage: stage.loss_before - stage.loss_after, reverse=True)[:count]
    return sorted(strongest, key=lambda stage: stage.time)
