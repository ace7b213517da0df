"""What claims and figures read off a run: plateaus, maps, heads."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from saddlescope.core.run import Run
from saddlescope.core.stage import Mark

from ... import prediction
from ...data import Frame

CONSPICUOUS = 0.15
"""A plateau is conspicuous if it takes this share of the time until it ends: drops then stand apart to the eye on a
linear axis, and the level between them is reached."""


class Plateau(NamedTuple):
    """learned: drops before it.  row: of the trajectory, where the loss is flattest.  dwell: share of the time until
    its end that it took; 1 for the first and, since it never ends, for the last.
    """

    learned: int
    row: int
    loss: float
    dwell: float

    @property
    def conspicuous(self) -> bool:
        return self.dwell > CONSPICUOUS


def drop_times(run: Run) -> np.ndarray:
    return np.array([stage.time for stage in run.stages], float)


def stage_time_errors(run: Run) -> np.ndarray:
    """Relative distance of every predicted time from the measured one."""
    assert run.prediction is not None
    return np.abs(run.prediction.times / drop_times(run) - 1)


def durations(run: Run) -> np.ndarray:
    """Of the plateaus 0..K-1."""
    return np.diff(np.r_[0.0, drop_times(run)])


def dwells(run: Run) -> np.ndarray:
    """Share of the time until each drop that the plateau before it took."""
    return durations(run) / drop_times(run)


def plateaus(run: Run) -> list[Plateau]:
    """All K+1 of them, with a row of the trajectory on each."""
    time, loss = run.series("time"), run.series("loss")
    moments = np.r_[time[0], np.sort(drop_times(run)), time[-1]]
    losses = [loss[0], *(stage.loss for stage in run.stages)]
    shares = np.r_[dwells(run), 1.0]
    found = []
    for learned, (begin, end) in enumerate(itertools.pairwise(moments)):
        inside = np.flatnonzero((time >= begin) & (time <= end))
        inside = inside if inside.size else np.array([np.abs(time - begin).argmin()])
        row = int(inside[np.argmin(np.abs(loss[inside] - losses[learned]))])
        row = len(time) - 1 if learned == len(run.stages) else row
        found.append(Plateau(learned, row, float(losses[learned]), float(shares[learned])))
    return found


def resting(run: Run) -> list[Plateau]:
    """The conspicuous plateaus: where the state is at rest."""
    return [plateau for plateau in plateaus(run) if plateau.conspicuous]


def frame_of(run: Run) -> Frame:
    return run.system.start(0).frame


class Theory(NamedTuple):
    """λ_d and a_d, by Eq. (18) as it is printed: with nothing of the code that made the run."""

    eigenvalues: np.ndarray
    second: np.ndarray

    @property
    def gain(self) -> np.ndarray:
        """Coefficient of e e' in Eq. (4)."""
        return self.eigenvalues / self.second


def theory_of(run: Run) -> Theory:
    spec = run.system.spec
    lam = np.array(spec.eigenvalues)
    return Theory(lam, lam**2 * (1 + (1 + lam.sum() / lam) * spec.inverse_length))


def gains_at(run: Run, row: int) -> np.ndarray:
    """Share of Eq. (4)'s coefficient that each eigenvector has in Σ v k q'."""
    return np.diag(map_at(run, row)) / theory_of(run).gain


def map_at(run: Run, row: int) -> np.ndarray:
    """Σ v k qᵀ (D, D) of population weights."""
    value, key, query = (run.series(name)[row] for name in ("value", "key", "query"))
    return np.einsum("h,hri,hrj->ij", value, key, query)


def grown_heads(run: Run, row: int) -> np.ndarray:
    """Heads whose value is at least half of the smallest that a learned head can have."""
    least = np.cbrt(theory_of(run).gain.min())
    return np.flatnonzero(np.abs(run.series("value")[row]) > least / 2)


def concave_share(run: Run) -> float:
    """Share of the fall of the loss that is made while it falls ever faster.

    Zero for a sum of exponentials, whose speed only decreases; above one half for the drops of Eq. (7).
    """
    time, loss = run.series("time"), run.series("loss")
    fall = -np.diff(loss)
    speed = fall / np.diff(time)
    faster = np.r_[False, speed[1:] > speed[:-1]]
    return float(fall[faster].sum() / fall.sum())


def learning_times(run: Run) -> list[float]:
    """When the gain of each eigenvector passes one half."""
    time, gain = run.series("time"), run.series("gain")
    marks = [Mark("gain", 0.5, "rises", (mode,)) for mode in range(run.system.spec.stage_count)]
    moments = [mark.passage(time, {"gain": gain}) for mark in marks]
    return [np.nan if moment is None else moment for moment in moments]


def drops_seen(run: Run, smallest: float = 1e-3) -> int:
    """Drops in the curve alone, each at least this share of its whole fall."""
    from saddlescope.analysis.stages import detect_stages

    return len(detect_stages(run.series("time"), run.series("loss"), smallest_drop=smallest))


def learned(run: Run) -> list[int]:
    """Number of drops before each conspicuous plateau but the first, whose loss is that of zero weights."""
    return [plateau.learned for plateau in resting(run) if plateau.learned]


def levels(run: Run) -> list[float]:
    return [plateau.loss for plateau in resting(run) if plateau.learned]


def theory_level(run: Run, count: int) -> float:
    return prediction.plateau_loss(*theory_of(run), count)


def theory_levels(run: Run) -> list[float]:
    return [theory_level(run, count) for count in learned(run)]


def gain_errors(run: Run) -> list[float]:
    """Largest distance of the learned shares from (1, .., 1, 0, .., 0) on each conspicuous plateau."""
    modes = np.arange(run.system.spec.dim)
    return [float(np.abs(gains_at(run, p.row) - (modes < p.learned)).max()) for p in resting(run)]


def head_angle(run: Run) -> float:
    """Sine of the largest angle between a grown head's key and its eigenvector, at the end; NaN if none has grown."""
    heads = grown_heads(run, -1)
    if not heads.size:
        return np.nan
    key = run.series("key")[-1][heads, 0]
    squares = key**2 / (key**2).sum(-1, keepdims=True)
    return float(np.sqrt((squares.sum(-1) - squares.max(-1)).max()))


def signed_cosines(run: Run) -> np.ndarray:
    """sign(v) cos(k, q) of every grown head at the end: 1 where k = q for v > 0 and k = -q for v < 0."""
    value, key, query = (run.series(name)[-1] for name in ("value", "key", "query"))
    heads = grown_heads(run, -1)
    k, q = key[heads, 0], query[heads, 0]
    cosine = (k * q).sum(-1) / (np.linalg.norm(k, axis=-1) * np.linalg.norm(q, axis=-1))
    return np.sign(value[heads]) * cosine


def norm_gaps(run: Run) -> np.ndarray:
    """Relative differences of |k| and |q| from |v| in every grown head at the end."""
    value, key, query = (run.series(name)[-1] for name in ("value", "key", "query"))
    heads = grown_heads(run, -1)
    sizes = [np.sqrt((part[heads] ** 2).sum((1, 2))) for part in (key, query)]
    return np.concatenate([np.abs(size / np.abs(value[heads]) - 1) for size in sizes])


def tilt(run: Run) -> float:
    """Largest entry of Σ v k qᵀ off the diagonal at the end, over the smallest on it."""
    made = np.abs(map_at(run, -1))
    diagonal = np.diag(made).copy()
    np.fill_diagonal(made, 0.0)
    return float(made.max() / diagonal.min())


def drop_gaps(run: Run) -> list[float]:
    """Relative distance of every drop from its eigenvalue."""
    levels = np.array([plateau.loss for plateau in plateaus(run)])
    return list(np.abs(-np.diff(levels) / theory_of(run).eigenvalues - 1))


def heads_for(run: Run) -> np.ndarray:
    """ceil(m/R), heads that m directions need, m = 0..D."""
    return -(-np.arange(run.system.spec.stage_count + 1) // run.system.spec.rank)


def ones_per_stage(run: Run) -> np.ndarray:
    return np.ones(run.system.spec.stage_count)


def grown_counts(run: Run) -> list[int]:
    """Grown heads on every plateau."""
    return [len(grown_heads(run, plateau.row)) for plateau in plateaus(run)]


def value_ratios(run: Run) -> list[float]:
    """On each plateau within a head: its value over the largest among heads that have not grown."""
    value, rank = np.abs(run.series("value")), run.system.spec.rank
    found = []
    for plateau in plateaus(run)[:-1]:
        heads = grown_heads(run, plateau.row)
        if plateau.learned % rank and len(heads) < value.shape[1]:
            least = value[plateau.row, heads].min() if len(heads) else 0.0
            found.append(least / np.delete(value[plateau.row], heads).max())
    return found


def within_ties(run: Run) -> list[float]:
    """Dwell of the plateaus between two equal eigenvalues."""
    lam = run.system.spec.eigenvalues
    return [dwell for m, dwell in enumerate(dwells(run)) if m and lam[m] == lam[m - 1]]
