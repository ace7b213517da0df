"""One head at a time: how its value grows during a drop, and how long the plateau before it lasts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from saddlescope.core.run import Run
from saddlescope.core.stage import Mark

from ... import prediction
from .common import Plateau, Theory, drop_times, durations, gains_at, plateaus, theory_of


class Growth(NamedTuple):
    """One drop of a rank-one network: the eigenvector learned, and the growing head's |v| over time."""

    mode: int
    time: np.ndarray
    value: np.ndarray
    final: float


def growths(run: Run) -> Iterator[Growth]:
    """Of the drops between two conspicuous plateaus: elsewhere two heads grow at once."""
    theory, value = theory_of(run), np.abs(run.series("value"))
    for before, after in itertools.pairwise(plateaus(run)):
        if before.conspicuous and after.conspicuous:
            mode, head = _risen(run, before, after)
            rows = slice(before.row, after.row + 1)
            final = float(np.cbrt(theory.gain[mode]))
            yield Growth(mode, run.series("time")[rows], value[rows, head], final)


def _risen(run: Run, before: Plateau, after: Plateau) -> tuple[int, int]:
    """The eigenvector whose share, and the head whose |v|, rose most from one plateau to the next."""
    value = np.abs(run.series("value"))
    mode = np.argmax(gains_at(run, after.row) - gains_at(run, before.row))
    return int(mode), int(np.argmax(value[after.row] - value[before.row]))


def aligned_curve(growth: Growth, theory: Theory, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eq. (7) through its midpoint: |v| at these shares of its final value, and the times from the midpoint."""
    lam, a = theory.eigenvalues[growth.mode], theory.second[growth.mode]
    value = growth.final * shares
    return prediction.aligned_time(value, lam, a) - prediction.aligned_time(growth.final / 2, lam, a), value


def growth_error(run: Run) -> list[float]:
    """Largest distance of each growing |v| from the solution of Eq. (7) through its midpoint, over its final value."""
    theory, worst = theory_of(run), []
    for growth in growths(run):
        clock, grid = aligned_curve(growth, theory, np.linspace(0.01, 0.99999, 4000))
        shifted = growth.time - _passage(growth, 0.5)
        seen = (growth.value > 0.05 * growth.final) & (shifted > clock[0]) & (shifted < clock[-1])
        gaps = np.abs(growth.value - np.interp(shifted, clock, grid))[seen]
        worst.append(gaps.max() / growth.final if gaps.size else np.nan)
    return worst


def growth_times(run: Run) -> tuple[list[float], list[float]]:
    """Time of each growing |v| from 0.3 to 0.9 of its final value: measured, and by Eq. (37)."""
    theory = theory_of(run)
    measured, expected = [], []
    for growth in growths(run):
        measured.append(_passage(growth, 0.9) - _passage(growth, 0.3))
        early, late = aligned_curve(growth, theory, np.array([0.3, 0.9]))[0]
        expected.append(float(late - early))
    return measured, expected


def _passage(growth: Growth, share: float) -> float:
    moment = Mark("value", share * growth.final, "rises").passage(growth.time, {"value": growth.value})
    return np.nan if moment is None else moment


def printed_durations(run: Run) -> np.ndarray:
    """Eq. (38), (43): 1/(λ² |v|) with the growing head's value at the beginning of each plateau, over the measured."""
    theory, time, value = theory_of(run), run.series("time"), np.abs(run.series("value"))
    begins = np.r_[0.0, drop_times(run)]
    ratios = []
    for before, after in itertools.pairwise(plateaus(run)):
        mode, head = _risen(run, before, after)
        start = float(np.interp(begins[before.learned], time, value[:, head]))
        printed = prediction.plateau_duration(theory.eigenvalues[mode], start)
        ratios.append(printed / durations(run)[before.learned])
    return np.array(ratios)


def early_error(run: Run) -> float:
    """Distance of keys and queries from Eq. (33) at half of the first plateau, with s = ∫ v dt as measured."""
    from ...escape import Drift

    time, value = run.series("time"), run.series("value")
    row = int(np.searchsorted(time, drop_times(run)[0] / 2))
    passed = np.trapezoid(value[: row + 1], time[: row + 1], axis=0)
    key, query = run.series("key"), run.series("query")
    drift = Drift(value[0], key[0] + query[0], key[0] - query[0], theory_of(run).eigenvalues ** 2)
    plus, minus = drift.pairs(passed)
    gaps = [np.abs(key[row] - (plus + minus) / 2), np.abs(query[row] - (plus - minus) / 2)]
    return float(max(gap.max() for gap in gaps) / max(np.abs(key[row]).max(), np.abs(query[row]).max()))


def remainder(run: Run) -> float:
    """What Eq. (31) leaves out at the start: the part of the velocity that the map itself causes."""
    from ...reduction import attention_map, pull_back, residual

    start = run.system.start(run.seed)
    pull = residual(attention_map(start.point) * 0.0, start.frame.moments)
    early, whole = pull_back(pull, start.point), run.system.flow.velocity(start.point, start.frame)
    return float(np.sqrt(sum(((a - b) ** 2).sum() for a, b in zip(early, whole, strict=True))))


def head_cosines(run: Run, apart: bool = False) -> np.ndarray:
    """Of each eigenvector with the keys and queries of the one head that it falls to, at the end.

    An eigenvector without a head of its own has cosine zero. apart: leave out those learned beside a plateau that is
    not conspicuous: two heads then grew at once, and only their sum is fixed.
    """
    key, query = (run.series(name)[-1][:, 0] for name in ("key", "query"))
    cosines = np.minimum(*(np.abs(part) / np.linalg.norm(part, axis=1, keepdims=True) for part in (key, query)))
    owner = np.argmax(cosines, axis=0)  # head of each eigenvector
    modes = [rise.mode for rise in growths(run)] if apart else range(cosines.shape[1])
    return np.array([cosines[owner[mode], mode] * (np.sum(owner == owner[mode]) == 1) for mode in modes])
