"""Numbers that claims and figures read off runs. Rates are per unit of τ = |s(0)|² t unless said otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from saddlescope.core.run import Run

from .. import prediction
from ..data import LABELS, Frame, State, Weights, grams_of
from ..spec import COMMON

GROWS = ((0, 1), (1, 0))
"""(key, query) of the scores that rise in Phase 2: between μ1 and μ2."""

FALLS = ((2, 0), (2, 1))
"""Of those that fall: μ3 as seen from μ1 and μ2."""


def moments(run: Run) -> tuple[float, float]:
    """T0.5 and T1; NaN for one that was not seen."""
    found = {stage.index: stage.time for stage in run.stages}
    turn, right = (found.get(index) for index in (1, 2))
    return np.nan if turn is None else turn, np.nan if right is None else right


def first_phase(run: Run) -> np.ndarray:
    """Which saved times belong to [0, T1]."""
    return run.series("time") <= moments(run)[1]


def second_phase(run: Run, begin: float = 1.0) -> np.ndarray:
    """From T1, or so many times it, to the end."""
    return run.series("time") >= begin * moments(run)[1]


def largest(run: Run, name: str, during: Callable[[Run], np.ndarray] = first_phase) -> np.float64:
    """In size, over a phase and all entries. NumPy's number: what is divided by nothing is no number, and no error."""
    values = np.abs(run.series(name)[during(run)])
    return values.max() if values.size else np.float64(np.nan)


def mean_of(measured: Callable[[Run], Any], axis: int | None = 0) -> Callable[[Sequence[Run]], Any]:
    """Over runs; with axis=None over all numbers of all runs."""
    return lambda runs: np.mean([measured(run) for run in runs], axis=axis)


def efolds(found: Any, expected: Any = 1.0) -> Any:
    """|ln| of one number over another."""
    return np.abs(np.log(found / expected))


def limit_moments(run: Run) -> np.ndarray:
    """T0.5 and T1 of the seven numbers."""
    assert run.prediction is not None
    return np.array([stage.extra["limit_time"] for stage in run.prediction.stages], float)


def exponent(rows: np.ndarray) -> float:
    x, y = np.log(rows.reshape(-1, 2).T)
    return float(leading(x, y, 1))


def leading(x: np.ndarray, y: np.ndarray, degree: int) -> Any:
    """The highest coefficient of a fitted polynomial; NaN where there is nothing to fit."""
    if len(x) <= degree or not (np.isfinite(x).all() and np.isfinite(y).all()):
        return np.full(np.shape(y)[1:], np.nan)
    return np.polyfit(x, y, degree)[0]


# ---- sizes of the law that starts are drawn from


def variances(run: Run) -> tuple[float, float]:
    """σ0² and σ1²."""
    spec = run.system.spec
    return spec.weight_deviation**2, spec.neuron_deviation**2


def clock(run: Run) -> float:
    """σ1² m m1, which |s|² is about."""
    spec = run.system.spec
    return spec.output_energy * spec.neuron_deviation**2 * spec.width


def start_of(run: Run) -> tuple[State, Frame]:
    """The whole Gram matrices at the start, and the frame."""
    return _start(run.system, run.seed)


@lru_cache(maxsize=128)
def _start(system: Any, seed: int) -> tuple[State, Frame]:
    point, frame = system.start(seed)
    if isinstance(point, Weights):
        point = grams_of(point, frame.output, system.spec.followed)
    return frame.start._replace(value=np.asarray(point.value)), frame


def concentration(count: float, width: int, risk: float) -> float:
    """√(4/m log(2 count/δ)) + 4/m log(2 count/δ) of Lemma H.2, after a union bound over `count` events."""
    part = 4 / width * np.log(2 * count / risk)
    return float(np.sqrt(part) + part)


RISK = 0.1
"""δ: the share of starts that may fail."""


def key_query_ratio(run: Run) -> float:
    """Of the largest deviation of W_K, W_Q's Gram matrices from σ0² m I to the bound of Lemma D.1."""
    start, _ = start_of(run)
    spec = run.system.spec
    whole = np.block([[start.key_gram, start.scores], [start.scores.T, start.query_gram]]) / spec.width
    return _off_identity(whole / variances(run)[0]) / concentration(len(whole) / 2, spec.width, RISK)


def value_ratios(run: Run) -> np.ndarray:
    """The same for W_V, for the neurons that are followed, and for both together: Lemma D.3."""
    start, _ = start_of(run)
    spec, (v, w) = run.system.spec, variances(run)
    k, size = len(start.neuron_readout), len(start.value)
    value = _off_identity(start.value_gram / (v * spec.width)) / concentration(size, spec.width, RISK)
    neuron = _off_identity(start.neuron_gram / (w * spec.width)) / concentration(k**2, spec.width, RISK)
    mixed = np.abs(start.neuron_value).max() / (np.sqrt(v * w) * spec.width * concentration(k * size, spec.width, RISK))
    return np.array([value, neuron, mixed])


def _off_identity(matrix: np.ndarray) -> float:
    return float(np.abs(matrix - np.eye(len(matrix))).max())


def initial_attention(run: Run) -> np.ndarray:
    """p(0) − 1/L over its standard deviation σ0² √(1 − 1/L)/L: scores over √m are normal, of variance σ0⁴."""
    start, frame = start_of(run)
    words, length = frame.train.words, run.system.spec.tokens
    inner = start.scores[words[:, None, :], words[:, :, None]] / np.sqrt(run.system.spec.width)
    p = np.exp(inner) / np.exp(inner).sum(-1, keepdims=True)
    return (length * p - 1) / (variances(run)[0] * np.sqrt(1 - 1 / length))


def mixed_value_ratio(run: Run) -> float:
    """Of the largest deviation of |W_V X p_l|² from σ0² m/L, with p = 1/L as in Corollary D.2, to Lemma D.4's bound."""
    start, frame = start_of(run)
    spec, words = run.system.spec, frame.train.words
    squares = start.value_gram[words[:, :, None], words[:, None, :]].sum((1, 2)) / spec.tokens**2
    values = squares * spec.tokens / (variances(run)[0] * spec.width)
    return np.abs(values - 1).max() / concentration(spec.samples * spec.tokens, spec.width, RISK)


def neuron_outputs(run: Run) -> np.ndarray:
    """w_j W_V X p of the neurons that are followed over σ0 σ1 √(m/L): standard normal numbers, says Corollary D.5."""
    start, frame = start_of(run)
    spec, (v, w) = run.system.spec, variances(run)
    outputs = start.neuron_value[:, frame.train.words].sum(-1) / spec.tokens
    return outputs / np.sqrt(v * w * spec.width / spec.tokens)


def initial_values(run: Run) -> np.ndarray:
    """G(0) over σ0 σ1 √(m m1): Lemma D.7."""
    start, _ = start_of(run)
    v, _ = variances(run)
    return start.value / np.sqrt(v * clock(run))


def initial_outputs(run: Run) -> np.ndarray:
    """F(0) of all sentences, with uniform attention."""
    start, frame = start_of(run)
    return start.value[frame.train.words].sum(-1)


def largest_output(run: Run) -> float:
    """max |F(0)|."""
    return np.abs(initial_outputs(run)).max()


def relative_outputs(run: Run) -> np.ndarray:
    """F(0) over σ0 σ1 √(L m m1): Lemma D.8 without its logarithm."""
    return initial_outputs(run) / np.sqrt(variances(run)[0] * run.system.spec.tokens * clock(run))


def sum_of_signs(run: Run) -> np.ndarray:
    """Σ a_j/√m1 of all neurons, or of those that are followed."""
    output = start_of(run)[1].output
    return np.array([output.sum() / np.sqrt(len(output))])


def neuron_sums(run: Run) -> np.ndarray:
    """Σ_{j'≠j} a_j' ⟨w_j, w_j'⟩ over σ1² √(m m1) of the neurons that are followed: Proposition E.5."""
    start, frame = start_of(run)
    spec, (_, w) = run.system.spec, variances(run)
    k = spec.followed
    others = start.neuron_readout - frame.output[:k] * np.diag(start.neuron_gram)
    return others / (w * np.sqrt(spec.width * spec.hidden))


def initial_cross_values(run: Run) -> np.ndarray:
    """⟨W_V X p, W_V μ1⟩ without μ1's own share, over σ0² √(m/L), of all sentences: Proposition E.5, third bound."""
    start, frame = start_of(run)
    spec, words = run.system.spec, frame.train.words
    rows = np.where(words == 0, 0.0, start.value_gram[0][words]).sum(-1) / spec.tokens
    return rows / (variances(run)[0] * np.sqrt(spec.width / spec.tokens))


def key_value_products(run: Run) -> np.ndarray:
    """|W_K μ|² G(ν) and ⟨W_K ν, W_K μ⟩ G(ν') over σ0² m and σ0² √m times σ0 σ1 √(m m1): Proposition E.22."""
    start, _ = start_of(run)
    v, _ = variances(run)
    m, values = run.system.spec.width, initial_values(run)
    own = np.diag(start.key_gram) / (v * m)
    cross = start.key_gram[~np.eye(len(own), dtype=bool)] / (v * np.sqrt(m))
    return np.array([np.std(np.outer(own, values)), np.std(np.outer(cross[:400], values))])


# ---- single neurons


def signal_rates(run: Run) -> np.ndarray:
    """Of a_j w_j W_V μ at the start, for μ1 and μ2, over (σ0² + σ1²) m: a sixth of it without fluctuations."""
    v, w = variances(run)
    rates = run.series("neuron_rate")[0][:, :2] * real_clock(run)
    return rates / ((v + w) * run.system.spec.width)


def relative_signal_rates(run: Run) -> np.ndarray:
    """The same over that sixth."""
    return 6 * signal_rates(run)


def signal_spread(run: Run) -> np.floating:
    """Standard deviation over neurons, for μ1."""
    return np.std(relative_signal_rates(run)[:, 0])


def common_share(run: Run) -> float:
    """|G3'/G1'| at the start."""
    return abs(np.divide(*run.series("value_rate")[0][[2, 0]]))


def real_clock(run: Run) -> float:
    """|s(0)|², which turns rates per τ into rates per t."""
    return run.system.clock(start_of(run)[1])


def common_rates(run: Run) -> float:
    """Of a_j w_j W_V μ3 at the start over what Lemma 4.2 allows."""
    spec, (v, w) = run.system.spec, variances(run)
    rates = np.abs(run.series("neuron_rate")[0][:, 2]) * real_clock(run)
    F = np.abs(run.series("margin")[0]).max()
    allowed = w * np.sqrt(spec.width * spec.hidden) + v * np.sqrt(spec.width * spec.tokens) + (v + w) * spec.width * F
    return float(rates.max() / allowed)


def word_rates(run: Run) -> float:
    """Of w_j W_V μ for irrelevant words during Phase 1 over (σ0² + σ1²) m/n + σ0² L √m: Lemma E.6, Theorem E.15."""
    spec, (v, w) = run.system.spec, variances(run)
    allowed = (v + w) * spec.width / spec.samples + v * spec.tokens * np.sqrt(spec.width)
    return largest(run, "neuron_word_rate") * real_clock(run) / allowed


def signal_growth_error(run: Run) -> float:
    """Largest |(a_j w_j W_V μ)' − P(μ) (σ0² + σ1²) m| during Phase 1 over L σ0² √m + σ1² √(m m1): Theorem E.14."""
    spec, (v, w) = run.system.spec, variances(run)
    during = first_phase(run)
    rates = run.series("neuron_rate")[during][:, :, :2] * real_clock(run)
    # P(μ) = (G' − what the neurons' own motion adds)/|s|²
    own = run.series("value_rate")[during] - run.series("value_rate_by_neurons")[during]
    P = own[:, :2] / (1 + run.series("readout_change")[during] / real_clock(run))[:, None]
    error = np.abs(rates - P[:, None, :] * (v + w) * spec.width)
    return float(error.max() / (spec.tokens * v * np.sqrt(spec.width) + w * np.sqrt(spec.width * spec.hidden)))


def cross_terms(run: Run) -> list[float]:
    """What other words and other neurons add to the gradient of w_j W_V μ1 during Phase 1, over their bounds."""
    spec, (v, w) = run.system.spec, variances(run)
    words, neurons = spec.tokens * v * np.sqrt(spec.width), w * np.sqrt(spec.width * spec.hidden)
    return [largest(run, "cross_value") / words, largest(run, "cross_neuron") / neurons]


def common_growth(run: Run) -> float:
    """Largest rate of a_j w_j W_V μ3 during Phase 1 over σ1² m: Lemma E.17."""
    rates = np.abs(run.series("neuron_rate")[first_phase(run)][:, :, 2])
    return float(rates.max() * real_clock(run) / (variances(run)[1] * run.system.spec.width))


def neuron_word_ratio(run: Run) -> float:
    """Largest change of w_j W_V μ of irrelevant words in Phase 1 over 1/n + 1/√m of that of μ1 to μ3."""
    spec = run.system.spec
    return largest(run, "neuron_word_change") / (largest(run, "neuron_change") * (1 / spec.samples + spec.width**-0.5))


def neuron_output_ratio(run: Run) -> float:
    """Largest change of w_j W_V X p in Phase 1 over 1/L of that of w_j W_V μ: Lemma E.7."""
    return largest(run, "neuron_output_change") * run.system.spec.tokens / largest(run, "neuron_change")


# ---- balance


def balance_margins(run: Run, during: np.ndarray) -> np.ndarray:
    """C of (1 + C) max(G1', G2') <= −G3' <= (1 − C)(G1' + G2'), for each inequality and saved time (2, t)."""
    rate = run.series("value_rate")[during]
    first, second, third = rate.T
    return np.array([-third / np.maximum(first, second) - 1, 1 + third / (first + second)])


def late_first_phase(run: Run) -> np.ndarray:
    """From midway between T0.5 and T1 to T1."""
    turn, right = moments(run)
    time = run.series("time")
    return (time >= (turn + right) / 2) & (time <= right)


def rates_from_turn(run: Run) -> np.ndarray:
    """G1' and G2' from T0.5 to T1 (t, 2)."""
    turn, right = moments(run)
    return run.series("value_rate")[(run.series("time") >= turn) & (run.series("time") <= right)][:, :2]


def early_one_signal_gap(run: Run) -> float:
    """Largest |Σ_I2 g − Σ_I3 g| over max |F(0)|, during Phase 1."""
    return np.abs(np.diff(run.series("pull")[first_phase(run)][:, 1:3])).max() / largest_output(run)


def one_signal_gap(run: Run) -> float:
    """Largest |Σ_I2 g − Σ_I3 g| over the smaller of both, during Phase 2."""
    pull = run.series("pull")[second_phase(run)]
    return float((np.abs(pull[:, 1] - pull[:, 2]) / np.minimum(pull[:, 1], pull[:, 2])).max())


def gradient_ratios(run: Run) -> np.ndarray:
    """Σ g over each of the gaps of Lemma 4.5, and G1'/G2' and its inverse, during Phase 2: the largest of each."""
    pull, rate = run.series("pull")[second_phase(run)], run.series("value_rate")[second_phase(run)]
    one, two, three, four = pull.T
    whole = pull.sum(1)
    ratios = [whole / (two + three + four - one), whole / (one - two), whole / (one - three)]
    pair = rate[:, 0] / rate[:, 1]
    worst = [np.where(ratio > 0, ratio, np.inf).max() for ratio in (*ratios, pair, 1 / pair)]
    return np.array(worst)


def order_of_pulls(run: Run) -> float:
    """Of Definition F.1: the least of min(I2, I3) − I4, I1 − max(I2, I3), I2 + I3 + I4 − I1, over Σ g, in Phase 2."""
    pull = run.series("pull")[second_phase(run)]
    one, two, three, four = pull.T
    gaps = [np.minimum(two, three) - four, one - np.maximum(two, three), two + three + four - one]
    return float((np.array(gaps) / pull.sum(1)).min())


def balance_root(run: Run) -> np.ndarray:
    """R* of the quadratic in the proof of Lemma F.6, from g' of each type, and R itself, at the end."""
    margin, kinds = run.series("margin")[-1], start_of(run)[1].train
    slope = np.bincount(kinds.kinds, kinds.weights * np.exp(-margin) / (1 + np.exp(-margin)) ** 2, minlength=4)
    one, two, three, four = slope
    a, b, c = one + two, three + four - one, -(two + three + 2 * one)
    return np.array([-b / (2 * a) + np.sqrt(b**2 / (4 * a**2) - c / a), run.series("balance_ratio")[-1]])


# ---- values, margins and losses


def values(run: Run, moment: float) -> np.ndarray:
    """G of μ1, μ2 and −G of μ3."""
    return run.at("value", moment)[:COMMON] * np.array([1, 1, -1])


def late_values(run: Run) -> np.ndarray:
    """The same over Phase 2 (t, 3)."""
    return run.series("value")[second_phase(run)][:, :COMMON] * [1, 1, -1]


def value_spread(run: Run) -> np.ndarray:
    """ln of the largest over the least of them, in size (t)."""
    return np.ptp(np.log(np.abs(late_values(run))), axis=1)


def word_values(run: Run) -> float:
    """Largest G of irrelevant words at T1 over σ0 σ1 √(m m1) + T1/2n."""
    right = moments(run)[1]
    allowed = np.sqrt(variances(run)[0] * clock(run)) + right / (2 * run.system.spec.samples)
    return np.abs(run.at("value", right)[COMMON:]).max() / allowed


def value_sums(run: Run) -> np.ndarray:
    """G1 + G2 + G3, −(G1 + G3), −(G2 + G3) over time (3, t)."""
    first, second, third = run.series("value")[:, :COMMON].T
    return np.array([first + second + third, -(first + third), -(second + third)])


def word_share(run: Run) -> np.ndarray:
    """What the irrelevant words add to y F, over time and sentences (t, n): attention is uniform to 1/m."""
    train = start_of(run)[1].train
    shown = np.where(train.words >= COMMON, run.series("value")[:, train.words], 0.0).sum(-1)
    return train.labels * shown


def word_share_by_type(run: Run) -> np.ndarray:
    """The same, averaged over the sentences of each type (t, 4)."""
    share, kinds = word_share(run), start_of(run)[1].train.kinds
    return np.stack([share[:, kinds == kind].mean(1) for kind in range(4)], 1)


def spread_within_types(run: Run) -> float:
    """Largest ratio of g between sentences of one type, during Phase 2: Corollary F.2."""
    margin = run.series("margin")[second_phase(run)]
    pull = 1 / (1 + np.exp(margin))
    kinds = start_of(run)[1].train.kinds
    return float(max((pull[:, kinds == kind].max(1) / pull[:, kinds == kind].min(1)).max() for kind in range(4)))


def late_slope(run: Run, numbers: np.ndarray, share: float = 0.25) -> np.ndarray:
    """d numbers / d ln τ over the last part of log-time; time is the first axis."""
    logs = np.log(np.maximum(run.series("time"), 1e-300))
    chosen = logs >= logs[-1] - share * (logs[-1] - np.log(moments(run)[1]))
    return leading(logs[chosen], numbers[chosen].reshape(int(chosen.sum()), -1), 1)


def loss_slope(run: Run) -> float:
    """d ln L̂ / d ln ∫(|s|² + A |W_V μ1|²) dt at the end."""
    time, rate, by_neurons = (run.series(name) for name in ("time", "value_rate", "value_rate_by_neurons"))
    speed = (1 + run.series("readout_change") / real_clock(run)) * rate[:, 0] / (rate - by_neurons)[:, 0]
    passed = np.r_[0.0, np.cumsum(np.diff(time) * (speed[1:] + speed[:-1]) / 2)]
    late = time >= 1e3 * moments(run)[1]
    return float(leading(np.log(passed[late]), np.log(run.series("loss")[late]), 1))


def loss_in_widths(run: Run) -> float:
    """m L̂ at the end."""
    return run.series("loss")[-1] * run.system.spec.width


def test_loss_left(run: Run) -> float:
    """At the end, over that at T1."""
    return run.series("test_loss")[-1] / run.at("test_loss", moments(run)[1])


def end_constants(run: Run) -> list[float]:
    """L̂ τ and d G/d ln τ of μ1 to μ3 at the end."""
    return [run.series("loss_tau")[-1], *(run.series("value_rate")[-1] * run.series("time")[-1])]


def readout_ratio(run: Run) -> float:
    """What |s|² has grown by at the end over (m1/m) (ln τ)²."""
    spec = run.system.spec
    return run.series("readout_change")[-1] / (spec.hidden / spec.width * np.log(run.series("time")[-1]) ** 2)


def readout_at_right(run: Run) -> np.ndarray:
    """|s|² at T1 over |s(0)|²."""
    return 1 + run.at("readout_change", moments(run)[1]) / real_clock(run)


def expected_readout(run: Run) -> float:
    """σ1² m m1 over |s(0)|²."""
    return clock(run) / real_clock(run)


def expected_readout_bend(run: Run) -> float:
    """d² |s|² / d (ln τ)²."""
    return 2 * limit_of(run).loss_tau * run.system.spec.hidden / real_clock(run)


def neuron_share(run: Run) -> np.ndarray:
    """What the motion of neurons adds to G' over Σ g/(n L), during Phase 2."""
    return run.series("neuron_share")[second_phase(run)] * run.system.spec.tokens


def drawn_types(run: Run) -> list[float]:
    """T1 over 20, and how far R is from where the counts put it, in units of 2%."""
    return [moments(run)[1] / 20, abs(run.series("balance_ratio")[-1] / limit_of(run).ratio - 1) * 50]


def test_slope(run: Run) -> float:
    """Of the worst fresh sentence's margin."""
    return float(late_slope(run, run.series("test_margin").min(1))[0])


def loss_pace(run: Run) -> np.ndarray:
    """(1/L̂ − 1/L̂(T1))/(τ − T1) from 2 T1 on, times the limit of L̂ τ: Theorem F.8."""
    right = moments(run)[1]
    later = run.series("time") >= 2 * right
    gained = 1 / run.series("loss")[later] - 1 / run.at("loss", right)
    return gained / (run.series("time")[later] - right) * limit_of(run).loss_tau


def limit_of(run: Run) -> Any:
    """Where the seven numbers end, by the counts of the run's own sentences."""
    return prediction.late_of(run.system.spec, start_of(run)[1])


def type_slopes(run: Run) -> np.ndarray:
    """−d ln loss / d ln τ of each type at the end."""
    return -late_slope(run, log_losses(run))


def log_losses(run: Run) -> np.ndarray:
    """ln of the loss of each type, over time (t, 4)."""
    return np.log(run.series("type_loss"))


# ---- attention


def score_sizes(run: Run) -> np.ndarray:
    """|C12|, |C21|, |C31|, |C32| over σ0² m/(√m L σ1² m m1) + σ0² √m/(√m σ1² m m1), over time (t, 4)."""
    spec, (v, _) = run.system.spec, variances(run)
    size = v * np.sqrt(spec.width) / (spec.tokens * clock(run)) + v / clock(run)
    return np.stack([np.abs(run.series("score_change")[:, k, q]) for k, q in GROWS + FALLS], 1) / size


def score_growth(run: Run) -> np.ndarray:
    """Of these sizes, from τ = 100 to the end."""
    sizes = score_sizes(run)
    return sizes[-1] / sizes[np.searchsorted(run.series("time"), 100.0)]


def word_score_ratio(run: Run) -> float:
    """Largest change of a score with an irrelevant word over 1/n + 1/√m of |C12|, at the end."""
    spec, score = run.system.spec, np.abs(run.series("score_change")[-1][0, 1])
    return run.series("moved_word_scores")[-1] / (score * (1 / spec.samples + spec.width**-0.5))


def moved_word_attention(run: Run) -> float:
    """Largest change of attention between irrelevant words in Phase 1 over 1/L + 1/n of the largest of all."""
    spec = run.system.spec
    allowed = largest(run, "moved_attention") * (1 / spec.tokens + 1 / spec.samples)
    return largest(run, "moved_word_attention") / allowed


def key_changes(run: Run) -> np.ndarray:
    """Largest changes of inner products of keys and of queries, to the end, over σ0² √m: Definition E.1."""
    sizes = np.array([np.abs(run.series(name)).max() for name in ("moved_keys", "moved_queries")])
    return sizes / (variances(run)[0] * np.sqrt(run.system.spec.width))


def signed(run: Run, name: str, rows: tuple = GROWS, falls: tuple = FALLS) -> np.ndarray:
    """Numbers of pairs that should be positive, and minus those that should be negative (t, pairs)."""
    found = run.series(name)
    return np.stack([found[:, k, q] for k, q in rows] + [-found[:, k, q] for k, q in falls], 1)


def score_rate_sizes(run: Run) -> np.ndarray:
    """S' per t of the four scores over L̂ σ0² √m/L and ln τ, during Phase 2: Lemma 4.7."""
    spec, (v, _) = run.system.spec, variances(run)
    during = second_phase(run) & (run.series("time") > 1e3)
    size = run.series("loss")[during] * v * np.sqrt(spec.width) / spec.tokens * np.log(run.series("time")[during])
    return signed(run, "score_rate")[during] * real_clock(run) / size[:, None]


def attention_rate_sizes(run: Run, power: float) -> float:
    """p' per t between μ1 and μ2 over L̂ σ0² m/(m^power L²) and ln τ, midway through Phase 2: Corollary F.17."""
    spec, (v, _) = run.system.spec, variances(run)
    right, end = moments(run)[1], run.series("time")[-1]
    moment = np.sqrt(right * end)
    rate = run.at("attention_rate", moment)[0, 1] * real_clock(run)
    size = run.at("loss", moment) * v * spec.width ** (1 - power) / spec.tokens**2 * np.log(moment)
    return float(rate / size)


def word_attention_ratio(run: Run) -> float:
    """Largest rate of attention from a signal to an irrelevant word over that between the signals, from τ = 1e3 on."""
    late = run.series("time") >= 1e3
    return float((run.series("signal_word_attention_rate")[late] / run.series("attention_rate")[late][:, 0, 1]).max())


def stated_word_attention(run: Run) -> float:
    """This ratio over the 1/n + L/√m of Corollary F.17."""
    spec = run.system.spec
    return word_attention_ratio(run) / (1 / spec.samples + spec.tokens / spec.width**0.5)


def score_rate_limit(run: Run) -> np.ndarray:
    """What `score_rate_sizes` should be: both Gram matrices give σ0² m, and p = 1/L.

    S'(ν, μ) = 2 σ0² m M(ν, μ), M(ν, μ) = Σ c_i (G(ν) − mean of the sentence)/(L √m): pulls and slopes of the limit.
    """
    late, length = limit_of(run), run.system.spec.tokens
    q, (s1, s2, s3) = late.pulls, late.slopes
    words = expected_word_slopes(run) * np.array(LABELS)
    mean = (np.array([s1 + s2 + s3, s1 + s3, s2 + s3, s3]) + words) / length
    both = 2 * q[0] * np.array([s2 - mean[0], s1 - mean[0]])
    common = 2 * np.array([q[0] * (s3 - mean[0]) - q[kind] * (s3 - mean[kind]) for kind in (1, 2)])
    return np.r_[both, -common] / q.sum()


def score_bends(run: Run) -> np.ndarray:
    """d² |C| / d (ln τ)² of the four scores, in the size that Theorem 3.3 gives them, from τ = 1e3 on."""
    return bend(run, score_sizes(run))


def bend(run: Run, numbers: np.ndarray) -> Any:
    """d² numbers / d (ln τ)², from τ = 1e3 on."""
    chosen = run.series("time") >= 1e3
    return 2 * leading(np.log(run.series("time")[chosen]), numbers[chosen], 2)


def expected_bends(run: Run) -> np.ndarray:
    spec, late = run.system.spec, limit_of(run)
    return late.loss_tau * score_rate_limit(run) / (1 + spec.tokens / np.sqrt(spec.width))


def words_may_repeat(run: Run) -> np.ndarray:
    """Positive where losses rise first, T1 is below 100, and the four scores end with their signs."""
    turn, right = moments(run)
    return np.r_[turn, 100 - right, signed(run, "score_change")[-1] / np.abs(run.series("score_change")[-1]).max()]


def word_slopes(run: Run) -> np.ndarray:
    """d/d ln τ of what irrelevant words add to y F, on average over sentences of types 1 to 3."""
    return late_slope(run, word_share_by_type(run)[:, :3])


def expected_word_slopes(run: Run) -> np.ndarray:
    """1 − γ_t of all four types: what margins gain and those of fresh sentences lack."""
    late = limit_of(run)
    return late.margins - late.fresh_margins


def largest_word_slope(run: Run) -> float:
    """Largest d/d ln τ, in size, of what irrelevant words add to F of a sentence."""
    return np.abs(late_slope(run, word_share(run))).max()


def word_value_growth(run: Run) -> float:
    """Largest |G(μ) − G(μ) at T1| of irrelevant words over ∫ L̂ dτ/n, at the end: Lemma F.14."""
    time, loss = run.series("time"), run.series("loss")
    during = second_phase(run)
    value = run.series("value")[during][:, COMMON:]
    seen = np.unique(start_of(run)[1].train.words)
    seen = seen[seen >= COMMON] - COMMON
    passed = np.trapezoid(loss[during], time[during])
    return float(np.abs(value[-1] - value[0])[seen].max() * run.system.spec.samples / passed)


def seven_end(run: Run) -> tuple[float, float]:
    """R and L τ of the seven numbers at the run's end."""
    spec, end = run.system.spec, float(run.series("time")[-1])
    model = prediction.seven_of(spec)
    course = prediction.follow(model, np.zeros(COMMON + 4), end)
    rate = model.response @ (model.weights * model.labels / (1 + np.exp(course.margin[-1])))
    return float(-rate[2] / rate[0]), float(end * prediction.log_loss(course.margin[-1]) @ model.weights)


# ---- training


def right_step(run: Run) -> float:
    """The step from which on every training sentence is right; NaN if none is."""
    wrong = np.flatnonzero(run.series("worst_margin") <= 0)
    step = run.trajectory["step"].values
    first = int(wrong[-1]) + 1 if wrong.size else 0
    return float(step[first]) if first < len(step) else np.nan


def after(run: Run) -> np.ndarray:
    return run.trajectory["step"].values >= right_step(run)


def peak_steps(run: Run) -> np.ndarray:
    """Of the losses of both types with one signal."""
    return run.trajectory["step"].values[run.series("type_loss")[:, 1:3].argmax(0)].astype(float)


def turn_window(run: Run) -> np.ndarray:
    """At most 1 where these steps lie between 400 and 800, and before all sentences are right."""
    peaks = peak_steps(run)
    return np.r_[peaks / 800, 400 / peaks, peaks / right_step(run)]


def right_window(run: Run) -> list[float]:
    """At most 1 where all sentences are right after one or two thousand steps."""
    return [right_step(run) / 2500, 1300 / right_step(run)]


def rises(run: Run) -> np.ndarray:
    """By what factor losses of both types with one signal rise before they fall."""
    loss = run.series("type_loss")[:, 1:3]
    return loss.max(0) / loss[0]


def share_before(run: Run) -> np.ndarray:
    """Of the four scores' whole change, the part that comes before the step at which all are right."""
    change = signed(run, "score_change")
    place = int(np.searchsorted(run.trajectory["step"].values, right_step(run)))
    return change[min(place, len(change) - 1)] / change[-1]


def phases(run: Run) -> np.ndarray:
    """What makes two phases: the one-signal losses rise first, all sentences become right, the scores have their signs,
    and losses end below a tenth of their peak. Each number is positive where it holds."""
    loss = run.series("type_loss")
    change = signed(run, "score_change")[-1]
    return np.r_[
        rises(run) - 1.001,
        1.0 if np.isfinite(right_step(run)) else -1.0,
        change / np.abs(change).max(),
        0.1 - loss[-1, 1:3] / loss[:, 1:3].max(0),
    ]
