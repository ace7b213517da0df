"""What claims and figures read off runs: plateaus, maps, growth of one head, predictions on fresh prompts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from saddlescope.core.claim import Evidence
from saddlescope.core.source import source
from saddlescope.core.stage import Mark

from . import prediction
from .data import Frame

CONSPICUOUS = 0.15
"""A plateau is conspicuous if it takes this share of the time until it ends: drops then stand apart to the eye on a
linear axis, and the level between them is reached."""

PROMPTS = 2000


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


def series(run: Evidence, name: str) -> np.ndarray:
    return run.trajectory[name].values


def drop_times(run: Evidence) -> np.ndarray:
    return np.array([stage.time for stage in run.stages], float)


def stage_time_errors(run: Evidence) -> np.ndarray:
    """Relative distance of every predicted time from the measured one."""
    assert run.prediction is not None
    return np.abs(np.array([stage.time for stage in run.prediction.stages], float) / drop_times(run) - 1)


def durations(run: Evidence) -> np.ndarray:
    """Of the plateaus 0..K-1."""
    return np.diff(np.r_[0.0, drop_times(run)])


def dwells(run: Evidence) -> np.ndarray:
    """Share of the time until each drop that the plateau before it took."""
    return durations(run) / drop_times(run)


def plateaus(run: Evidence) -> list[Plateau]:
    """All K+1 of them, with a row of the trajectory on each."""
    time, loss = series(run, "time"), series(run, "loss")
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


def resting(run: Evidence) -> list[Plateau]:
    """The conspicuous plateaus: where the state is at rest."""
    return [plateau for plateau in plateaus(run) if plateau.conspicuous]


def frame_of(run: Evidence) -> Frame:
    return run.system.start(0).frame


class Theory(NamedTuple):
    """λ_d and a_d, by Eq. (18) as it is printed: with nothing of the code that made the run."""

    eigenvalues: np.ndarray
    second: np.ndarray

    @property
    def gain(self) -> np.ndarray:
        """Coefficient of e e' in Eq. (4)."""
        return self.eigenvalues / self.second


def theory_of(run: Evidence) -> Theory:
    spec = run.system.spec
    lam = np.array(spec.eigenvalues)
    return Theory(lam, lam**2 * (1 + (1 + lam.sum() / lam) * spec.inverse_length))


def gains_at(run: Evidence, row: int) -> np.ndarray:
    """Share of Eq. (4)'s coefficient that each eigenvector has in Σ v k q'."""
    return np.diag(map_at(run, row)) / theory_of(run).gain


def map_at(run: Evidence, row: int) -> np.ndarray:
    """Σ v k qᵀ (D, D) of population weights."""
    value, key, query = (series(run, name)[row] for name in ("value", "key", "query"))
    return np.einsum("h,hri,hrj->ij", value, key, query)


def grown_heads(run: Evidence, row: int) -> np.ndarray:
    """Heads whose value is at least half of the smallest that a learned head can have."""
    least = np.cbrt(theory_of(run).gain.min())
    return np.flatnonzero(np.abs(series(run, "value")[row]) > least / 2)


# ---- one head ----------------------------------------------------------------------------------------------


class Growth(NamedTuple):
    """One drop of a rank-one network: the eigenvector learned, and the growing head's |v| over time."""

    mode: int
    time: np.ndarray
    value: np.ndarray
    final: float


def growths(run: Evidence) -> Iterator[Growth]:
    """Of the drops between two conspicuous plateaus: elsewhere two heads grow at once."""
    theory, rests = theory_of(run), plateaus(run)
    value = np.abs(series(run, "value"))
    for before, after in itertools.pairwise(rests):
        if not (before.conspicuous and after.conspicuous):
            continue
        mode = int(np.argmax(gains_at(run, after.row) - gains_at(run, before.row)))
        head = int(np.argmax(value[after.row] - value[before.row]))
        final = float(np.cbrt(theory.gain[mode]))
        rows = slice(before.row, after.row + 1)
        yield Growth(mode, series(run, "time")[rows], value[rows, head], final)


def growth_error(run: Evidence) -> list[float]:
    """Largest distance of each growing |v| from the solution of Eq. (7) through its midpoint, over its final value."""
    theory, worst = theory_of(run), []
    for growth in growths(run):
        lam, a = theory.eigenvalues[growth.mode], theory.second[growth.mode]
        grid = growth.final * np.linspace(0.01, 0.99999, 4000)
        clock = prediction.aligned_time(grid, lam, a) - prediction.aligned_time(growth.final / 2, lam, a)
        shifted = growth.time - _passage(growth, 0.5)
        seen = (growth.value > 0.05 * growth.final) & (shifted > clock[0]) & (shifted < clock[-1])
        gaps = np.abs(growth.value - np.interp(shifted, clock, grid))[seen]
        worst.append(gaps.max() / growth.final if gaps.size else np.nan)
    return worst


def growth_times(run: Evidence) -> tuple[list[float], list[float]]:
    """Time of each growing |v| from 0.3 to 0.9 of its final value: measured, and by Eq. (37)."""
    theory = theory_of(run)
    measured, expected = [], []
    for growth in growths(run):
        lam, a = theory.eigenvalues[growth.mode], theory.second[growth.mode]
        measured.append(_passage(growth, 0.9) - _passage(growth, 0.3))
        late, early = (prediction.aligned_time(share * growth.final, lam, a) for share in (0.9, 0.3))
        expected.append(float(late - early))
    return measured, expected


def _passage(growth: Growth, share: float) -> float:
    moment = Mark("value", share * growth.final, "rises").passage(growth.time, {"value": growth.value})
    return np.nan if moment is None else moment


def printed_durations(run: Evidence) -> np.ndarray:
    """Eq. (38), (43): 1/(λ² |v|) with the growing head's value at the beginning of each plateau, over the measured."""
    theory, time, value = theory_of(run), series(run, "time"), np.abs(series(run, "value"))
    begins = np.r_[0.0, drop_times(run)]
    ratios = []
    for growth_before, growth_after in itertools.pairwise(plateaus(run)):
        mode = int(np.argmax(gains_at(run, growth_after.row) - gains_at(run, growth_before.row)))
        head = int(np.argmax(value[growth_after.row] - value[growth_before.row]))
        begin = begins[growth_before.learned]
        start = float(np.interp(begin, time, value[:, head]))
        printed = prediction.plateau_duration(theory.eigenvalues[mode], start)
        ratios.append(printed / durations(run)[growth_before.learned])
    return np.array(ratios)


# ---- sweeps ------------------------------------------------------------------------------------------------


def by_field(runs: Sequence[Evidence], field: str) -> dict[Any, list[Evidence]]:
    """Runs grouped by a field of their Spec, in ascending order of it."""
    groups: dict[Any, list[Evidence]] = {}
    for run in sorted(runs, key=lambda run: getattr(run.system.spec, field)):
        groups.setdefault(getattr(run.system.spec, field), []).append(run)
    return groups


def against(
    runs: Sequence[Evidence], field: str | Callable[[Any], float], measure: Callable[[Evidence], Any]
) -> list[tuple[float, float]]:
    """(field's value, mean of the measure over its runs and entries), for `scales_as`. field: a name, or spec -> x."""
    of = field if callable(field) else lambda spec: getattr(spec, field)
    groups: dict[float, list[float]] = {}
    for run in runs:
        groups.setdefault(float(of(run.system.spec)), []).append(float(np.mean(measure(run))))
    return [(x, float(np.mean(values))) for x, values in sorted(groups.items())]


def concave_share(run: Evidence) -> float:
    """Share of the fall of the loss that is made while it falls ever faster.

    Zero for a sum of exponentials, whose speed only decreases; above one half for the drops of Eq. (7).
    """
    time, loss = series(run, "time"), series(run, "loss")
    fall = -np.diff(loss)
    speed = fall / np.diff(time)
    faster = np.r_[False, speed[1:] > speed[:-1]]
    return float(fall[faster].sum() / fall.sum())


def pull_on_zero_blocks(run: Evidence) -> float:
    """Mean square velocity of the blocks that start at zero, over that of all weights, at the start."""
    start = run.system.start(run.seed)
    value, key, query = run.system.velocity(start.point, start.frame)
    blocks = [value[:, :-1], key[..., query.shape[-1] :]]
    return sum((part**2).sum() for part in blocks) / sum((part**2).sum() for part in (value, key, query))


# ---- what claims measure ----------------------------------------------------------------------------------


def learning_times(run: Evidence) -> list[float]:
    """When the gain of each eigenvector passes one half."""
    time, gain = series(run, "time"), series(run, "gain")
    marks = [Mark("gain", 0.5, "rises", (mode,)) for mode in range(run.system.spec.stage_count)]
    moments = [mark.passage(time, {"gain": gain}) for mark in marks]
    return [np.nan if moment is None else moment for moment in moments]


def drops_seen(run: Evidence, smallest: float = 1e-3) -> int:
    """Drops in the curve alone, each at least this share of its whole fall."""
    from saddlescope.analysis.stages import detect_stages

    return len(detect_stages(series(run, "time"), series(run, "loss"), smallest_drop=smallest))


def learned(run: Evidence) -> list[int]:
    """Number of drops before each conspicuous plateau but the first, whose loss is that of zero weights."""
    return [plateau.learned for plateau in resting(run) if plateau.learned]


def levels(run: Evidence) -> list[float]:
    return [plateau.loss for plateau in resting(run) if plateau.learned]


def theory_level(run: Evidence, count: int) -> float:
    return prediction.plateau_loss(*theory_of(run), count)


def theory_levels(run: Evidence) -> list[float]:
    return [theory_level(run, count) for count in learned(run)]


def gain_errors(run: Evidence) -> list[float]:
    """Largest distance of the learned shares from (1, .., 1, 0, .., 0) on each conspicuous plateau."""
    modes = np.arange(run.system.spec.dim)
    return [float(np.abs(gains_at(run, p.row) - (modes < p.learned)).max()) for p in resting(run)]


def head_cosines(run: Evidence) -> np.ndarray:
    """Of each eigenvector with the keys and queries of the one head that it falls to, at the end.

    An eigenvector without a head of its own has cosine zero. Left out are those learned beside a plateau that is not
    conspicuous: two heads then grew at once, and only their sum is fixed.
    """
    key, query = (series(run, name)[-1][:, 0] for name in ("key", "query"))
    cosines = np.minimum(*(np.abs(part) / np.linalg.norm(part, axis=1, keepdims=True) for part in (key, query)))
    owner = np.argmax(cosines, axis=0)  # head of each eigenvector
    alone = [growth.mode for growth in growths(run)]
    return np.array([cosines[owner[mode], mode] * (np.sum(owner == owner[mode]) == 1) for mode in alone])


def head_angle(run: Evidence) -> float:
    """Sine of the largest angle between a grown head's key and its eigenvector, at the end."""
    key = series(run, "key")[-1][grown_heads(run, -1), 0]
    squares = key**2 / (key**2).sum(-1, keepdims=True)
    return float(np.sqrt((squares.sum(-1) - squares.max(-1)).max()))


def signed_cosines(run: Evidence) -> np.ndarray:
    """sign(v) cos(k, q) of every grown head at the end: 1 where k = q for v > 0 and k = -q for v < 0."""
    value, key, query = (series(run, name)[-1] for name in ("value", "key", "query"))
    heads = grown_heads(run, -1)
    k, q = key[heads, 0], query[heads, 0]
    cosine = (k * q).sum(-1) / (np.linalg.norm(k, axis=-1) * np.linalg.norm(q, axis=-1))
    return np.sign(value[heads]) * cosine


def norm_gaps(run: Evidence) -> np.ndarray:
    """Relative differences of |k| and |q| from |v| in every grown head at the end."""
    value, key, query = (series(run, name)[-1] for name in ("value", "key", "query"))
    heads = grown_heads(run, -1)
    sizes = [np.sqrt((part[heads] ** 2).sum((1, 2))) for part in (key, query)]
    return np.concatenate([np.abs(size / np.abs(value[heads]) - 1) for size in sizes])


def tilt(run: Evidence) -> float:
    """Largest entry of Σ v k qᵀ off the diagonal at the end, over the smallest on it."""
    made = np.abs(map_at(run, -1))
    diagonal = np.diag(made).copy()
    np.fill_diagonal(made, 0.0)
    return float(made.max() / diagonal.min())


def drop_gaps(run: Evidence) -> list[float]:
    """Relative distance of every drop from its eigenvalue."""
    levels = np.array([plateau.loss for plateau in plateaus(run)])
    return list(np.abs(-np.diff(levels) / theory_of(run).eigenvalues - 1))


def early_error(run: Evidence) -> float:
    """Distance of keys and queries from Eq. (33) at half of the first plateau, with s = ∫ v dt as measured."""
    from .escape import Drift

    time, value = series(run, "time"), series(run, "value")
    row = int(np.searchsorted(time, drop_times(run)[0] / 2))
    passed = np.trapezoid(value[: row + 1], time[: row + 1], axis=0)
    key, query = series(run, "key"), series(run, "query")
    drift = Drift(value[0], key[0] + query[0], key[0] - query[0], theory_of(run).eigenvalues ** 2)
    plus, minus = drift.pairs(passed)
    gaps = [np.abs(key[row] - (plus + minus) / 2), np.abs(query[row] - (plus - minus) / 2)]
    return float(max(gap.max() for gap in gaps) / max(np.abs(key[row]).max(), np.abs(query[row]).max()))


def remainder(run: Evidence) -> float:
    """What Eq. (31) leaves out at the start: the part of the velocity that the map itself causes."""
    from .reduction import attention_map, pull_back, residual

    start = run.system.start(run.seed)
    pull = residual(attention_map(start.point) * 0.0, start.frame.moments)
    early, whole = pull_back(pull, start.point), run.system.velocity(start.point, start.frame)
    return float(np.sqrt(sum(((a - b) ** 2).sum() for a, b in zip(early, whole, strict=True))))


@source("zhang2025", "Eq. (21)")
def initial_sizes(runs: Sequence[Evidence]) -> list[float]:
    """Mean squares over seeds of the norms of all initial values, keys and queries, over w_init squared."""
    means = []
    for name in ("value", "key", "query"):
        means.append(np.mean([(series(run, name)[0] ** 2).sum() / run.system.spec.init_scale**2 for run in runs]))
    return means


def median_durations(runs: Sequence[Evidence]) -> np.ndarray:
    return np.median([durations(run) for run in runs], axis=0)


def duration_ratios(runs: Sequence[Evidence]) -> list[float]:
    """Of median durations: first over second, third over second, fourth over third, and so on."""
    first, second, *_ = lengths = median_durations(runs)
    return [first / second, *(lengths[2:] / lengths[1:-1])]


def spreads(runs: Sequence[Evidence]) -> np.ndarray:
    return np.std([drop_times(run) for run in runs], axis=0)


def by_scale(runs: Sequence[Evidence], measure: Any) -> np.ndarray:
    """Median over seeds of each entry of a measure (rows) at each initial scale (columns)."""
    groups = by_field(runs, "init_scale").values()
    return np.array([np.median([measure(run) for run in group], axis=0) for group in groups]).T


def concave_share_at(runs: Sequence[Evidence], which: int) -> float:
    return float(np.ravel(by_scale(runs, concave_share))[which])


def misplaced(runs: Sequence[Evidence], belongs: Any) -> int:
    """Plateaus m = 0..D-1 over all R whose median dwell is conspicuous where it should not be, or the reverse."""
    wrong = 0
    for rank, group in by_field(runs, "rank").items():
        dwell = np.median([dwells(run) for run in group], axis=0)
        expected = np.array([belongs(m, rank) for m in range(len(dwell))])
        wrong += int(((dwell > CONSPICUOUS) != expected).sum())
    return wrong


def grown_counts(run: Evidence) -> list[int]:
    """Grown heads on every plateau."""
    return [len(grown_heads(run, plateau.row)) for plateau in plateaus(run)]


def value_ratios(run: Evidence) -> list[float]:
    """On each plateau within a head: its value over the largest among heads that have not grown."""
    value, rank = np.abs(series(run, "value")), run.system.spec.rank
    found = []
    for plateau in plateaus(run)[:-1]:
        heads = grown_heads(run, plateau.row)
        if plateau.learned % rank and len(heads) < value.shape[1]:
            found.append(value[plateau.row, heads].min() / np.delete(value[plateau.row], heads).max())
    return found


def within_ties(run: Evidence) -> list[float]:
    """Dwell of the plateaus between two equal eigenvalues."""
    lam = run.system.spec.eigenvalues
    return [dwell for m, dwell in enumerate(dwells(run)) if m and lam[m] == lam[m - 1]]


def first_ranks(runs: Sequence[Evidence], rank: int) -> np.ndarray:
    return np.array([within_ties(run) for run in runs if run.system.spec.rank == rank])


def sampled_second_moments(run: Evidence) -> np.ndarray:
    """Diagonal of E(Λ̂²) by sampling contexts of lengths 1..N, all equally likely."""
    spec = run.system.spec
    rng = np.random.default_rng(9)
    total = np.zeros(spec.dim)
    for length in range(1, spec.context_length + 1):
        x = rng.standard_normal((4000, length, spec.dim)) * np.sqrt(spec.eigenvalues)
        covariance = x.swapaxes(1, 2) @ x / length
        total += (covariance**2).sum(-1).mean(0)
    return total / spec.context_length


def two_lengths(run: Evidence) -> np.ndarray:
    """The same with two lengths only, mixed so that E(1/N) is what it is for 1..N."""
    spec = run.system.spec
    short, long = 4, 31
    weight = (spec.inverse_length - 1 / long) / (1 / short - 1 / long)
    rng = np.random.default_rng(10)
    total = np.zeros(spec.dim)
    for length, share in ((short, weight), (long, 1 - weight)):
        x = rng.standard_normal((60_000, length, spec.dim)) * np.sqrt(spec.eigenvalues)
        covariance = x.swapaxes(1, 2) @ x / length
        total += share * (covariance**2).sum(-1).mean(0)
    return total


def first_drop_by_eigenvalue(runs: Sequence[Evidence]) -> list[tuple[float, float]]:
    return against(runs, lambda spec: spec.eigenvalues[0], lambda run: drop_times(run)[0])


def factor_from_one(runs: Sequence[Evidence], scale: float) -> np.ndarray:
    """Distance from one of the median factor between printed and true duration."""
    return 1 - printed_factors(runs, scale)


def printed_factors(runs: Sequence[Evidence], scale: float = 1e-3) -> np.ndarray:
    """Printed over true duration of each plateau: the median over the runs of one initial scale."""
    return np.median([printed_durations(run) for run in by_field(runs, "init_scale")[scale]], axis=0)


@source("zhang2025", "Eq. (51)")
def drift_by_step(runs: Sequence[Evidence]) -> list[tuple[float, float]]:
    """(learning rate, conserved drift) for every loss, over that of its largest step: all then lie on one line."""
    rows = []
    for group in by_field(runs, "error").values():
        drifts = against(group, "learning_rate", lambda run: run.trajectory.attrs["conserved_drift"])
        rows += [(rate, drift / drifts[-1][1]) for rate, drift in drifts]
    return rows


def angle_by_scale(runs: Sequence[Evidence]) -> list[tuple[float, float]]:
    """(initial scale, median over seeds of the largest angle between a head and its eigenvector)."""
    groups = by_field(runs, "init_scale").items()
    return [(scale, float(np.median([head_angle(run) for run in group]))) for scale, group in groups]


def sampled_moment(run: Evidence) -> np.ndarray:
    """Diagonal of E(Λ̂²) by sampling contexts of the run's length."""
    spec = run.system.spec
    rng = np.random.default_rng(8)
    x = rng.standard_normal((40_000, spec.context_length, spec.dim)) * np.sqrt(spec.eigenvalues)
    covariance = x.swapaxes(1, 2) @ x / spec.context_length
    return (covariance**2).sum(-1).mean(0)


def gradient_gap(run: Evidence) -> float:
    """Mean square distance of the flow of a data set's loss from the printed Eq. (24), at weights of order one.

    Both are projected on the weights that Eq. (24) moves; relative to the latter.
    """
    from .data import PopulationMoments, Weights
    from .reduction import velocity

    theory, frame = theory_of(run), frame_of(run)
    whole = run.system.random_weights(run.seed)
    D = len(theory.eigenvalues)
    value, key = whole.value.copy(), whole.key.copy()
    value[:, :D], key[..., D] = 0.0, 0.0
    found = velocity(Weights(value, key, whole.query), frame.moments)
    lam = theory.eigenvalues
    moments = PopulationMoments(lam.sum(), np.diag(lam**2), theory.second, lam)
    printed = velocity(Weights(value[:, D:], key[..., :D], whole.query), moments)
    pairs = ((found.value[:, D:], printed.value), (found.key[..., :D], printed.key), (found.query, printed.query))
    return sum(((a - b) ** 2).sum() for a, b in pairs) / sum((b**2).sum() for _, b in pairs)


def stray_levels(run: Evidence) -> list[float]:
    """Distance of each conspicuous plateau of a data set from Eq. (5), over tr Λ."""
    return list(np.abs(np.array(levels(run)) - theory_levels(run)) / theory_of(run).eigenvalues.sum())
