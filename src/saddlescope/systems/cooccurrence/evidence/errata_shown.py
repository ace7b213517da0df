"""Numbers that show the errata: how far off is what the paper prints, and what holds instead.

Truths come from the flow of all Gram matrices, from the seven numbers that it becomes where W_V, W_K and W_Q start
small, or from draws of the initial weights.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from saddlescope.core.tree import layout_of, ravel

from .. import data, prediction
from ..data import Frame, State
from ..spec import COMMON, CooccurrenceSpec
from .measures import RISK

PAPER_SIZES = CooccurrenceSpec(samples=60, tokens=5, test_sets=1, sampled_neurons=0)
"""Sentences as many and as long as in Appendix A."""

FEW = CooccurrenceSpec(samples=24, tokens=3, test_sets=1, sampled_neurons=0)
"""Above the threshold n = 3(L+1), and soon followed: 21 words."""

EXPERIMENT = CooccurrenceSpec(
    width=128, neurons=256, samples=60, tokens=5, vocabulary=64, init="kaiming", test_sets=1, data_seed=1
)
"""Appendix A, with a = ±1 as in section 2.2."""

WIDE = 2**14, 2**18, 2**30
"""Widths; from the second to the third, what is left out at finite width changes an exponent by less than 0.001."""

LATE = 1e8
"""τ by which slopes in ln τ have settled."""

Shown = tuple[float, float]


# ---- what the evidence shares


def _excess(found: Any) -> float:
    return max(0.0, float(np.max(found)))


def _words_of(samples: int | None, tokens: int) -> prediction.Linear:
    return prediction.seven_of(replace(FEW, samples=samples, tokens=tokens))


@cache
def _course(samples: int | None, tokens: int) -> prediction.Course:
    """The seven numbers from zero. samples: None for infinitely many, which leaves G of μ1, μ2, μ3."""
    return prediction.follow(_words_of(samples, tokens), np.zeros(COMMON + 4), LATE)


def _rates(model: prediction.Linear, states: np.ndarray) -> np.ndarray:
    pulls = model.weights / (1 + np.exp(model.labels * (states @ model.outputs.T)))  # Σ g/n of each type of sentences
    return (model.labels * pulls) @ model.response.T


def _at(course: prediction.Course | _Run, tau: float) -> np.ndarray:
    return np.array([np.interp(np.log1p(tau), np.log1p(course.time), part) for part in course.state.T])


def _late_exponent() -> float:
    """γ of 60 sentences of 5 words."""
    return prediction.late((30, 10, 10, 10), (2, 3, 3, 4)).exponent


class _Run(NamedTuple):
    """time (t,): τ.  state (t, size): flat.  fold: to a State.  clock: of τ against t."""

    time: np.ndarray
    state: np.ndarray
    fold: Any
    frame: Frame
    clock: float


@cache
def _flow(spec: CooccurrenceSpec, seed: int, end: float) -> _Run:
    """Of all Gram matrices, in log-time."""
    import jax
    import jax.numpy as jnp

    from saddlescope.numerics.integrate import integrate

    from .. import reduction

    state, frame = _start(spec, seed)
    fold = layout_of(state).unravel

    @jax.jit
    def velocity(inner: Any, flat: Any) -> Any:
        moved = reduction.velocity(fold(flat), frame)
        return jnp.exp(inner) * jnp.concatenate([jnp.ravel(part) for part in moved])

    path = integrate(
        lambda inner, flat: np.asarray(velocity(inner, flat)),
        ravel(state),
        0.0,
        float(np.log1p(end)),
        method="dop853",
        rtol=1e-9,
        atol=1e-11,
        spacing=0.05,
    )
    return _Run(np.expm1(path.time), path.state, fold, frame, float(frame.start.readout))


def _start(spec: CooccurrenceSpec, seed: int) -> tuple[State, Frame]:
    from ..system import Cooccurrence

    system = Cooccurrence(spec)
    start = system.start(seed)
    state = system.view(start.point, start.frame)
    return State(*(np.asarray(part, float) for part in state)), start.frame


def _moves(state: State, frame: Frame) -> State:
    """Rates of the Gram matrices per unit of t."""
    from .. import reduction

    force = reduction.forces(state, frame, reduction.forward(state, frame, frame.train))
    return State(*map(np.asarray, reduction.moves(state, frame, force).first))


def _attention_rate(run: _Run, tau: float) -> tuple[np.ndarray, float]:
    """dp/dt of (key, query) among μ1, μ2, μ3, and the training loss."""
    from .. import observe

    found = observe.measure(run.fold(_at(run, tau)), run.frame)
    return np.asarray(found["attention_rate"]) * run.clock, float(found["loss"])


# ---- section 2


def shows_words_needed() -> Shown:
    train, _, _ = data.draw_sentences(PAPER_SIZES)
    needed = len(np.unique(train.words))
    n, L = 60, 5
    return n * L / needed - 1, abs((COMMON + n * (L - 7 / 3)) / needed - 1)


def _starting_outputs(scale: float) -> np.ndarray:
    """F(0) of eight starts at width 2^14."""
    outputs = []
    for seed in range(8):
        state, frame = _start(replace(PAPER_SIZES, width=WIDE[0], init_scale=scale), seed)
        outputs.append(prediction.frozen(frame).outputs @ state.value)
    return np.abs(outputs)


def shows_condition_1() -> Shown:
    small = 0.01 / (2 * math.sqrt(2 * math.log(2 * 5 * 60 / RISK)))
    return float((_starting_outputs(1.0) > 0.01).mean()), float((_starting_outputs(small) > 0.01).mean())


# ---- section 3


def _long_flow() -> _Run:
    return _flow(replace(FEW, width=WIDE[0]), 0, 1e7)


def shows_one_signal_margin() -> Shown:
    """The larger of G1 + G3 and G2 + G3 where all margins become positive, then where they become 1; three starts."""
    found = []
    for seed in range(3):
        state, frame = _start(replace(PAPER_SIZES, width=WIDE[0]), seed)
        course = prediction.follow(prediction.frozen(frame), state.value, 1e4)
        assert course.right is not None
        clear = course.time[np.flatnonzero(course.margin.min(-1) <= 1)[-1] + 1]
        states = [_at(course, float(time))[:COMMON] for time in (course.right, clear)]
        found.append([G[:2].max() + G[2] for G in states])
    printed, repaired = np.max(found, 0)
    return _excess(printed), _excess(repaired)


def shows_score_logarithms() -> Shown:
    """C_12 on τ from 1e3 to 1e7: deviation from the best constant, and from the best quadratic in ln τ."""
    run = _long_flow()
    inner = np.linspace(np.log(1e3), np.log(1e7), 60)
    grown = np.interp(inner, np.log(run.time[1:]), run.fold(run.state).scores[1:, 1, 0])
    misses = [np.abs(grown - np.polyval(np.polyfit(inner, grown, degree), inner)).max() for degree in (0, 2)]
    return float(misses[0] / grown.mean()), float(misses[1] / grown.mean())


def shows_test_exponent() -> Shown:
    """−d ln(test loss)/d ln τ over the last two decades; training loses as 1/τ."""
    model, course = _words_of(60, 5), _course(60, 5)
    fresh = [model.labels * (_at(course, tau)[:COMMON] @ model.outputs[:, :COMMON].T) for tau in (LATE / 100, LATE)]
    before, after = (np.log(model.weights @ prediction.log_loss(margin)) for margin in fresh)
    exponent = (before - after) / np.log(100)
    return abs(1 - exponent), abs(_late_exponent() - exponent)


# ---- section 4


def _ratios(samples: int, tokens: int, since: float) -> np.ndarray:
    """−G3'/G1', from `since` T1 on."""
    model, course = _words_of(samples, tokens), _course(samples, tokens)
    assert course.right is not None
    rates = _rates(model, course.state[course.time >= since * course.right])
    return -rates[:, 2] / rates[:, 0]


def shows_balance_threshold() -> Shown:
    """How far below 1 the largest is for n = 12 < 3(L+1), late, and the least for n = 60, from T1 on."""
    return _excess(1 - _ratios(12, 5, 100.0).max()), _excess(1 - _ratios(60, 5, 1.0))


# ---- Appendix A


def _repeated(spec: CooccurrenceSpec) -> float:
    """Share of the places of irrelevant words whose word is in another place too."""
    train, _, _ = data.draw_sentences(spec)
    _, places, counts = np.unique(train.words[train.words >= COMMON], return_inverse=True, return_counts=True)
    return float((counts[places] > 1).mean())


def shows_vocabulary() -> Shown:
    return _repeated(EXPERIMENT), _repeated(replace(EXPERIMENT, vocabulary=None))


def _backward_neurons(spec: CooccurrenceSpec) -> float:
    """Share of a_j w_jᵀ W_V μ, μ one of μ1 and μ2, that fall at the start; four starts."""
    shares = []
    for seed in range(4):
        state, frame = _start(replace(spec, sampled_neurons=256), seed)
        shares.append((frame.output[:256, None] * _moves(state, frame).neuron_value[:, :2] < 0).mean())
    return float(np.mean(shares))


def shows_more_neurons() -> Shown:
    return _backward_neurons(EXPERIMENT), _backward_neurons(replace(PAPER_SIZES, width=2**20, neurons=256))


def _first_step(spec: CooccurrenceSpec) -> float:
    """Largest change of an output in the first step of gradient descent, learning rate 0.01."""
    from .. import reduction

    state, frame = _start(replace(spec, sampled_neurons=0), 0)
    margins = [
        np.asarray(reduction.forward(point, frame, frame.train).margin)
        for point in (state, reduction.descend(state, frame, 0.01))
    ]
    return float(np.abs(margins[1] - margins[0]).max())


def shows_output_scale() -> Shown:
    return _first_step(EXPERIMENT), _first_step(replace(EXPERIMENT, output="kaiming"))


# ---- Appendices C and D


def shows_gaussian_tail() -> Shown:
    """How much more often than δ some |w_jᵀ V p_l| is above the bound, 60 starts."""
    spec = replace(PAPER_SIZES, width=256, neurons=128)
    train, _, size = data.draw_sentences(spec)
    words, m, m1, n, L = train.words, 256, 128, 60, 5
    unit = spec.neuron_deviation * spec.weight_deviation * math.sqrt(m / L)
    count = m1 * n * L
    bounds = unit * np.sqrt([math.log(count / RISK), 2 * math.log(2 * count / RISK)])
    above = []
    for seed in range(60):
        weights, _ = data.initial_weights(spec, size, seed)
        inner = (weights.key.T @ weights.query)[words[:, None, :], words[:, :, None]] / math.sqrt(m)
        p = np.exp(inner) / np.exp(inner).sum(-1, keepdims=True)
        outputs = np.einsum("nlk,jnk->jnl", p, (weights.neuron @ weights.value)[:, words])
        above.append(np.abs(outputs).max() > bounds)
    printed, repaired = np.mean(above, 0)
    return _excess(printed - RISK), _excess(repaired - RISK)


# ---- Appendix E


def shows_one_sixth() -> Shown:
    """The factor of |w_j|² + |v(μ1)|² where F(0) = 0, width 2^20."""
    from .. import reduction

    state, frame = _start(replace(PAPER_SIZES, width=2**20), 0)
    zero = state._replace(value=np.zeros_like(state.value))
    force = reduction.forces(zero, frame, reduction.forward(zero, frame, frame.train))
    true = float(np.asarray(force.values)[0])
    return abs(1 / 3 / true - 1), abs(1 / 6 / true - 1)


def shows_queries() -> Shown:
    """Chance that ε2 of μ1 is above its bound beyond δ: given v(μ1), ε2 is Gaussian. L=1e5, n=L², m=1e12, F(0)=0."""
    L, m = 1e5, 1e12
    n = L**2
    words = n * (L - 7 / 3)
    deviation = math.sqrt((1 / 6) ** 2 + words / (2 * n) ** 2)  # of ε2 over σ0² √m; μ3 has P = 0
    log = math.log(2 * n * L * (COMMON + words) / RISK)
    bound = math.sqrt(m / L) * (math.sqrt(4 / m * log) + 4 / m * log)
    chances = [math.erfc(factor * bound / deviation / math.sqrt(2)) for factor in (1, L)]
    return _excess(chances[0] - RISK), _excess(chances[1] - RISK)


def shows_neither_delay() -> Shown:
    """Exponent in F of the time at which sentences with neither signal turn right, G3(0) = F = 1e-10 and 1e-8."""
    from saddlescope.numerics.integrate import integrate

    model, sizes = _words_of(None, 5), (1e-10, 1e-8)
    times = []
    for F in sizes:
        path = integrate(
            lambda _, x: _rates(model, x),
            np.r_[0.0, 0.0, F, np.zeros(4)],
            0.0,
            20 * math.sqrt(F),
            method="dop853",
            rtol=1e-12,
            atol=1e-24,
            watch=lambda x: x[2:3],
        )
        times.append(path.crossings[0][0])
    exponent = math.log(times[1] / times[0]) / math.log(sizes[1] / sizes[0])
    return abs(1 - exponent), abs(0.5 - exponent)


def _width_exponent(tau: float, per_loss: bool) -> float:
    """Of the largest |dp/dt| among μ1, μ2, μ3, divided by loss times σ0² m if per_loss."""
    sizes = []
    for width in WIDE[1:]:
        spec = replace(FEW, width=width)
        rate, loss = _attention_rate(_flow(spec, 0, 1e3), tau)
        unit = loss * spec.weight_deviation**2 * width if per_loss else 1.0
        sizes.append(np.abs(rate).max() / unit)
    return math.log(sizes[1] / sizes[0]) / math.log(WIDE[2] / WIDE[1])


def shows_phase_1_softmax() -> Shown:
    exponent = _width_exponent(5.0, False)
    return abs(-1 / 2 - exponent), abs(-1 - exponent)


# ---- Appendix F


def shows_word_contribution() -> Shown:
    """Growth, from τ = 1e4 to 1e8, of what their own words add to y F of sentences with μ1 only."""
    model, course = _words_of(60, 5), _course(60, 5)
    parts = [model.labels[1] * (_at(course, tau)[COMMON:] @ model.outputs[1, COMMON:]) for tau in (1e4, LATE)]
    growth = float(parts[1] - parts[0])
    expected = (1 - _late_exponent()) * np.log(1e4)
    return growth, abs(growth - expected)


def shows_log_time() -> Shown:
    """Share of moments of Phase 2, up to τ = 1e4, at which |s|² has grown and the bound is not positive."""
    run = _long_flow()
    state, margins = run.fold(run.state), prediction.frozen(run.frame)
    wrong = (margins.labels * (state.value @ margins.outputs.T)).min(-1) <= 0
    late = slice(np.flatnonzero(wrong)[-1] + 1, np.searchsorted(run.time, 1e4))
    tau, grown = run.time[late][1:], state.readout[late][1:] > state.readout[late][0]
    return float((grown & (tau <= run.clock)).mean()), float((grown & (tau <= 1)).mean())


def shows_word_scores() -> Shown:
    """τ = 1e3, width 2^30: share of d(μᵀ W_Kᵀ W_Q γ)/dt below minus the rest, then outside ± the size and the rest."""
    spec = replace(FEW, width=WIDE[2])
    run = _flow(spec, 0, 1e3)
    state, m, variance = run.fold(_at(run, 1e3)), spec.width, spec.weight_deviation**2
    _, loss = _attention_rate(run, 1e3)
    rates = _moves(state, run.frame).scores[:COMMON, COMMON : 1 + run.frame.train.words.max()]
    size, rest = loss * variance * m / (24 * math.sqrt(m) * 3), loss * variance
    logs = 4 * np.abs(state.value).max()  # what the tilde hides: G, and the two maps that add up
    return float((rates < -logs * rest).mean()), float((np.abs(rates) > logs * (size + rest)).mean())


def shows_phase_2_softmax() -> Shown:
    exponent = _width_exponent(1e3, True)
    return abs(-1 / 2 - exponent), abs(-1 - exponent)


def shows_word_attention() -> Shown:
    """By the softmax's mean: S' of the limit, keys μ1, μ2, μ3 as seen from μ1, in a sentence without μ2."""
    from .. import observe

    run = _flow(CooccurrenceSpec(samples=None, width=10**9, sampled_neurons=0), 0, 1e7)
    found = observe.measure(run.fold(_at(run, 1e7)), run.frame)
    ratio = float(found["signal_word_attention_rate"] / found["attention_rate"][0, 1])
    q, (s1, s2, s3) = (late := prediction.late(None, (2, 3, 3, 4))).pulls, late.slopes
    both, one = (s1 + s2 + s3) / 5, (s1 + s3) / 5
    keys = [q[0] * (s1 - both) - q[1] * (s1 - one), q[0] * (s2 - both), q[0] * (s3 - both) - q[1] * (s3 - one)]
    predicted = -(keys[0] + keys[2]) / 5 / (keys[1] - sum(keys) / 5)
    return abs(ratio - 5 / 1e9**0.5) / ratio, abs(ratio - predicted) / ratio


# ---- Appendix H


def shows_bernstein() -> Shown:
    """ln P[Z > t] beyond the bound: 10000 centred coins that show 1 with chance 0.01, t = 99."""
    from scipy.stats import binom

    n, p, t = 10_000, 0.01, 99
    M, square = 1 - p, n * p * (1 - p)
    chance = float(binom.logsf(n * p + t, n, p))
    bounds = -min(t**2 / (2 * square), t / (2 * M)), -min(t**2 / (4 * square), 3 * t / (4 * M))
    return _excess(chance - bounds[0]), _excess(chance - bounds[1])
