"""Numbers that claims and figures read off runs of the flow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from saddlescope.core.run import Run
from saddlescope.core.source import source

from ... import prediction, reduction
from ...data import Weights


def by(runs: Sequence[Run], name: str) -> list[Run]:
    """In ascending order of a field."""
    return sorted(runs, key=lambda run: getattr(run.system.spec, name))


def strengths(run: Run) -> np.ndarray:
    return np.array(run.system.spec.strengths)


def times(run: Run) -> np.ndarray:
    """Of the stages, in the order of importance; NaN for one that was not seen."""
    assert run.prediction is not None
    found = {stage.index: stage.time for stage in run.stages}
    return np.array([found.get(stage.index) for stage in run.prediction.stages], float)  # None becomes NaN


def waits(run: Run) -> np.ndarray:
    """From the start to the first stage, and from each stage to the next."""
    return np.diff(np.r_[0.0, times(run)])


def levels(run: Run) -> np.ndarray:
    """Losses of the plateaus that follow the stages."""
    return np.array([stage.loss for stage in run.stages], float)


def level_shifts(run: Run) -> np.ndarray:
    """Relative distance of the first two levels from the predicted ones, in units of 1/d²."""
    assert run.prediction is not None
    return np.abs(levels(run)[:2] / np.array(run.prediction.levels[1:3]) - 1) * run.system.spec.dimension**2


# ---- competition, and what comes of it


def share_on_first(run: Run) -> np.ndarray:
    """Attention of every head on the first pattern, a third later than that pattern is half learned."""
    return run.at("attention", 1.3 * times(run)[0])[:, 0]


def final_shares(run: Run) -> np.ndarray:
    """Largest attention of any head on each pattern at the end."""
    return run.series("attention")[-1][:, : run.system.spec.patterns].max(0)


def residual_attention(run: Run) -> float:
    """On the first position, of the head that looks most at the last pattern's."""
    attention = run.series("attention")[-1]
    return float(attention[attention[:, run.system.spec.patterns - 1].argmax(), 0])


def offsets(run: Run) -> tuple[float, float]:
    """Of the last feature: what the head on the first position holds, and what that position gets from all heads.

    Both over m_h: a head that still looks at the first position brings the feature there, another takes it away.
    """
    value, attention = run.series("value")[-1], run.series("attention")[-1]
    first = int(np.argmax(attention[:, 0]))
    size = strengths(run)[-1]
    return value[first, -1] / size, (attention[:, 0] * value[:, -1]).sum() / size


# ---- the symmetric flow


def above_first_plateau(run: Run) -> float:
    """(L − L_1) t at the end."""
    assert run.prediction is not None
    return (run.series("loss")[-1] - run.prediction.levels[1]) * run.series("time")[-1]


def rest(run: Run) -> np.ndarray:
    """(time, 1 − s_1) over the last decade."""
    time, away = run.series("time"), 1 - run.series("attention")[:, 0, 0]
    late = (time > time[-1] / 10) & (away > 0)
    return np.stack([time[late], away[late]], 1)


@source("yuksel2025", "Eq. (7)")
def end_point(run: Run) -> np.ndarray:
    """Attention on the patterns, and H ⟨V, V_j*⟩ / m_j, of the first head at the end (2, patterns)."""
    h = run.system.spec.patterns
    value = run.series("value")[-1, 0] * run.system.spec.heads / strengths(run)
    return np.array([run.series("attention")[-1, 0, :h], value])


@source("yuksel2025", "Eq. (9)")
def potential(run: Run) -> np.ndarray:
    """φ of Eq. (9), over its largest value m_1² / (2H): L = ½ |G|² − H φ."""
    squares = strengths(run) ** 2
    return (squares.sum() / 2 - run.series("loss")) / (squares.max() / 2)


def start_order(run: Run) -> tuple[np.ndarray, np.ndarray]:
    start = run.system.start(run.seed)
    return prediction.mean_head(run.system.flow.reduce(start.point, start.frame), start.frame)


def order_kept(run: Run) -> float:
    """The least of m_1 ⟨V, V_1*⟩ − m_j ⟨V, V_j*⟩ over m_1² and of s_1 − s_j, over all times and patterns."""
    m = strengths(run)
    pull = m * run.series("value")[:, 0] / m[0] ** 2
    share = run.series("attention")[:, 0, : len(m)]
    return min(float((part[:, :1] - part).min()) for part in (pull, share))


def growth_from_uniform(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """What c_j and s_j − 1/T have become, over what Remark 1 expands them to."""
    T, time = run.system.spec.positions, run.series("time")[-1]
    speed, bend = prediction.early_growth(strengths(run), T)
    value, share = run.series("value")[-1, 0], run.series("attention")[-1, 0, : len(speed)]
    return value / (speed * time), (share - 1 / T) / (bend * time**2 / 2)


def ones_per_pattern(run: Run) -> np.ndarray:
    return np.ones(run.system.spec.patterns)


def largest_value(run: Run) -> float:
    """Of |V| over time, over m_1*/H."""
    return float(run.series("value_norm").max() * run.system.spec.heads / strengths(run).max())


def overshoot(run: Run) -> list[float]:
    """The same over 1.1, and √T over it."""
    return [largest_value(run) / 1.1, np.sqrt(run.system.spec.positions) / largest_value(run)]


# ---- heads that start nearly alike


def growth_rate(run: Run, until: float = 0.5) -> float:
    """The least c in deviation(t) <= deviation(0) exp(c t) until half the time of the first stage, or so much of it."""
    time, apart, first = run.series("time"), run.series("deviation"), times(run)[0]
    # Deviations of 1e-10 are differences of numbers of order one: their first digits are lost for very short times.
    seen = (time > 0.01 * first) & (time < until * first)
    return float(np.max(np.log(apart[seen] / apart[0]) / time[seen])) if seen.any() else np.nan


def growth_rates(runs: Sequence[Run]) -> tuple[list[float], np.ndarray]:
    """From the weakest features to the strongest; and the first of these rates, as often."""
    rates = [growth_rate(run) for run in by(runs, "base_scale")]
    return rates, np.full(len(rates), rates[0])


def excess_over_bound(run: Run) -> float:
    """Largest log(deviation(t)/deviation(0)) / (m_1 t): at most 1 if exp(m_1 t) bounds it."""
    return growth_rate(run, np.inf) / strengths(run).max()


def largest_until_window(run: Run) -> float:
    """Of the deviations between heads up to log(1/ε)/m_1, ε being the first."""
    time, apart = run.series("time"), run.series("deviation")
    inside = apart[time <= np.log(1 / apart[0]) / strengths(run).max()]
    return float(inside.max()) if inside.size else np.nan


def printed_window(run: Run) -> float:
    """1 / (c_1 log(1/ε)), over the time at which heads have parted by a tenth of what they may."""
    time, apart = run.series("time"), run.series("deviation")
    parted = time[np.argmax(apart > 0.1)] if (apart > 0.1).any() else np.nan
    return 1 / (strengths(run).max() * np.log(1 / apart[0])) / parted


def printed_windows(runs: Sequence[Run]) -> list[float]:
    """The same from one start of the first run's problem, from the largest ε to the smallest."""
    return [printed_window(run) for run in _by_distance(runs)[0]]


def _by_distance(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs of one problem and seed, from the largest initial distance between heads to the smallest."""
    found: dict[Any, list[Run]] = {}
    for run in runs:
        spec = run.system.spec
        found.setdefault((spec.positions, spec.heads, spec.importance_ratio, run.seed), []).append(run)
    return [sorted(group, key=lambda run: -run.system.spec.init_noise) for group in found.values()]


def parting_slopes(runs: Sequence[Run]) -> tuple[np.ndarray, np.ndarray]:
    """d√t_2 / d log(1/ε) from the largest to the smallest ε, for each problem and seed, and the law's."""
    groups = _by_distance(runs)
    slopes = []
    for group in groups:
        gap = np.log(group[0].system.spec.init_noise / group[-1].system.spec.init_noise)
        slopes.append((np.sqrt(times(group[-1])[1]) - np.sqrt(times(group[0])[1])) / gap)
    return np.array(slopes), np.array([prediction.competition_slope(group[0].system.spec) for group in groups])


def parting_times(runs: Sequence[Run]) -> tuple[np.ndarray, np.ndarray]:
    """t_2 at the smallest ε, and what the growth of deviations makes of t_2 at the largest."""
    found, expected = [], []
    for group in _by_distance(runs):
        time, grown = prediction.parting_exponent(group[0].system.spec, float(group[-1].series("time")[-1]))
        gap = np.log(group[0].system.spec.init_noise / group[-1].system.spec.init_noise)
        found.append(times(group[-1])[1])
        expected.append(np.interp(np.interp(times(group[0])[1], time, grown) + gap, grown, time))
    return np.array(found), np.array(expected)


# ---- Eq. (5) and Proposition 1, by other ways


def flow_in_s(run: Run) -> float:
    """How far the attention at the end of the first stage is from that of Eq. (5) integrated in s, without logits."""
    from saddlescope.numerics.integrate import integrate

    start = run.system.start(run.seed)
    state, frame = run.system.flow.reduce(start.point, start.frame), start.frame
    c, q = reduction.unpack(state, frame)
    rows, size = c.shape
    n = frame.multiplicity

    def velocity(_: float, flat: np.ndarray) -> np.ndarray:
        c, s = flat[: rows * size].reshape(rows, size), flat[rows * size :].reshape(rows, -1)
        R = reduction.residual(c, s, frame)
        twice = reduction.project(s, reduction.project(s, c @ R, n), n)
        return np.r_[((n * s) @ R.T).ravel(), twice.ravel()]

    moment = times(run)[0]
    place = int(np.searchsorted(run.series("time"), moment))
    begin = np.r_[c.ravel(), reduction.softmax(q, n).ravel()]
    path = integrate(velocity, begin, 0.0, float(run.series("time")[place]), rtol=1e-10, atol=1e-13)
    h = run.system.spec.patterns
    found = path.state[-1][rows * size :].reshape(rows, -1)[:, :h]
    return float(np.abs(found - run.series("attention")[place][:, :h]).max())


SAMPLED = {"dimension": 6, "positions": 8, "patterns": 3, "heads": 2, "coupled": False, "lumped": False}
"""A problem small enough for averages over sequences."""


def sampled_gradient(run: Run, kind: str) -> tuple[Weights, Weights]:
    """Gradient of the mean square loss on 400,000 sequences, and that of ½ |G − P|², at weights of order one.

    kind: of E x_i x_jᵀ = δ_ij C: "isotropic" (C = I), "normalised" (C = I/d), "anisotropic" (tr C = 1, as Assumption 1
    has it, with one long axis).
    """
    system: Any = run.system
    spec = system.spec.replace(**SAMPLED)
    small = type(system)(spec)
    frame = small.start(0).frame
    weights = small.training.random_weights(run.seed)
    d, T, h = spec.dimension, spec.positions, spec.patterns
    rng = np.random.default_rng(12)
    axes = np.sqrt(np.array([4.0, 1.0, 0.4, 0.3, 0.2, 0.1]) / 6)
    scale = {"isotropic": np.ones(d), "normalised": np.full(d, d**-0.5), "anisotropic": axes}[kind]
    target = np.tensordot(frame.strengths[:, None] * frame.features, frame.basis, 1)
    s = reduction.softmax(weights.logits, 1.0)
    into_values, into_logits = np.zeros_like(weights.values), np.zeros_like(weights.logits)
    for _ in range(20):
        x = rng.standard_normal((20_000, d, T)) * scale[:, None]
        seen = np.einsum("ndt,kt->nkd", x, s)
        error = np.einsum("kij,nkj->ni", weights.values, seen) - np.einsum("kij,njk->ni", target, x[..., :h])
        into_values += np.einsum("ni,nkj->kij", error, seen)
        pulled = np.einsum("kij,ni->nkj", weights.values, error)
        into_logits += reduction.project(s, np.einsum("nkj,njt->kt", pulled, x), 1.0)
    velocity = small.flow.velocity(small.flow.reduce(weights, frame), frame)
    exact = Weights(-np.tensordot(velocity.coefficients, frame.basis, 1), -velocity.logits)
    return Weights(into_values / 400_000, into_logits / 400_000), exact


def gradient_gap(run: Run, kind: str) -> float:
    """Root mean square of the difference over that of the exact gradient, at the best common scale."""
    sampled, exact = sampled_gradient(run, kind)
    scale = _common_scale(sampled, exact)
    gaps = [((a / scale - b) ** 2).sum() for a, b in zip(sampled, exact, strict=True)]
    return float(np.sqrt(sum(gaps) / sum((b**2).sum() for b in exact)))


def _common_scale(found: Weights, exact: Weights) -> float:
    """By least squares."""
    inner = sum((a * b).sum() for a, b in zip(found, exact, strict=True))
    return float(inner / sum((b**2).sum() for b in exact))


def slowdown(run: Run) -> float:
    """Exact gradient over that with covariance I/d, over d; averaging the loss over T is a factor T by definition."""
    sampled, exact = sampled_gradient(run, "normalised")
    return 1 / (_common_scale(sampled, exact) * SAMPLED["dimension"])


@source("yuksel2025", "Eq. (10)")
def rest_points(run: Run) -> list[float]:
    """|velocity| of the symmetric flow at V = (m_j/H) V_j*, s_j = 1 for every j, and at V = 0 with s off the patterns.

    Logits of 60 stand for infinite ones.
    """
    system: Any = run.system
    frame = system.start(run.seed).frame
    columns, h = len(frame.multiplicity), system.spec.patterns
    found = []
    for place in range(columns):
        logits = np.where(np.arange(columns) == place, 60.0, 0.0)[None]
        on = place < h
        value = frame.strengths[place] / system.spec.heads * frame.features[place] if on else np.zeros(len(frame.basis))
        speed = system.flow.velocity(reduction.pack(value[None], logits, frame), frame)
        found.append(float(max(np.abs(part).max() for part in speed)))
    return found
