"""What many runs say together: exponents, medians and spreads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from saddlescope.core.claim import by_field
from saddlescope.core.run import Run
from saddlescope.core.source import source

from .common import CONSPICUOUS, concave_share, drop_times, durations, dwells, head_angle, within_ties
from .growth import printed_durations


def against(
    runs: Sequence[Run], field: str | Callable[[Any], float], measure: Callable[[Run], Any]
) -> list[tuple[float, float]]:
    """(field's value, mean of the measure over its runs and entries), for `scales_as`. field: a name, or spec -> x."""
    of = field if callable(field) else lambda spec: getattr(spec, field)
    groups: dict[float, list[float]] = {}
    for run in runs:
        groups.setdefault(float(of(run.system.spec)), []).append(float(np.mean(measure(run))))
    return [(x, float(np.mean(values))) for x, values in sorted(groups.items())]


def by_scale(runs: Sequence[Run], measure: Any) -> np.ndarray:
    """Median over seeds of each entry of a measure (rows) at each initial scale (columns)."""
    groups = by_field(runs, "init_scale").values()
    return np.array([np.median([measure(run) for run in group], axis=0) for group in groups]).T


def concave_shares(runs: Sequence[Run]) -> np.ndarray:
    """From the smallest initial scale to the largest."""
    return np.ravel(by_scale(runs, concave_share))


def divides(m: int, rank: int) -> bool:
    """Whether m divides R, m = 0 granted."""
    return m == 0 or rank % m == 0


def is_multiple(m: int, rank: int) -> bool:
    return m % rank == 0


def misplaced(runs: Sequence[Run], belongs: Any) -> int:
    """Plateaus m = 0..D-1 over all R whose median dwell is conspicuous where it should not be, or the reverse."""
    wrong = 0
    for rank, group in by_field(runs, "rank").items():
        dwell = np.median([dwells(run) for run in group], axis=0)
        expected = np.array([belongs(m, rank) for m in range(len(dwell))])
        wrong += int(((dwell > CONSPICUOUS) != expected).sum())
    return wrong


def median_durations(runs: Sequence[Run]) -> np.ndarray:
    return np.median([durations(run) for run in runs], axis=0)


def duration_ratios(runs: Sequence[Run]) -> list[float]:
    """Of median durations: first over second, third over second, fourth over third, and so on."""
    first, second, *_ = lengths = median_durations(runs)
    return [first / second, *(lengths[2:] / lengths[1:-1])]


def spreads(runs: Sequence[Run]) -> np.ndarray:
    return np.std([drop_times(run) for run in runs], axis=0)


@source("zhang2025", "Eq. (21)")
def initial_sizes(runs: Sequence[Run]) -> list[float]:
    """Mean squares over seeds of the norms of all initial values, keys and queries, over w_init squared."""
    means = []
    for name in ("value", "key", "query"):
        means.append(np.mean([(run.series(name)[0] ** 2).sum() / run.system.spec.init_scale**2 for run in runs]))
    return means


def first_ranks(runs: Sequence[Run], rank: int) -> np.ndarray:
    return np.array([within_ties(run) for run in runs if run.system.spec.rank == rank])


def first_drop_by_eigenvalue(runs: Sequence[Run]) -> list[tuple[float, float]]:
    return against(runs, lambda spec: spec.eigenvalues[0], lambda run: drop_times(run)[0])


def factor_from_one(runs: Sequence[Run], scale: float) -> np.ndarray:
    """Distance from one of the median factor between printed and true duration."""
    return 1 - printed_factors(runs, scale)


def printed_factors(runs: Sequence[Run], scale: float = 1e-3) -> np.ndarray:
    """Printed over true duration of each plateau: the median over the runs of one initial scale."""
    return np.median([printed_durations(run) for run in by_field(runs, "init_scale")[scale]], axis=0)


@source("zhang2025", "Eq. (51)")
def drift_by_step(runs: Sequence[Run]) -> list[tuple[float, float]]:
    """(learning rate, conserved drift) for every loss, over that of its largest step: all then lie on one line."""
    rows = []
    for group in by_field(runs, "error").values():
        drifts = against(group, "learning_rate", lambda run: run.trajectory.attrs["conserved_drift"])
        rows += [(rate, drift / drifts[-1][1]) for rate, drift in drifts]
    return rows


def angle_by_scale(runs: Sequence[Run]) -> list[tuple[float, float]]:
    """(initial scale, median over seeds of the largest angle between a head and its eigenvector)."""
    groups = by_field(runs, "init_scale").items()
    return [(scale, float(np.median([head_angle(run) for run in group]))) for scale, group in groups]
