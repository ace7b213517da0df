"""Numbers that show the errata: how far off is what the paper prints, and what holds instead.

Truths come from gradients of the network's own loss, from the flow of all Gram matrices, from the seven numbers that it
becomes where W_V, W_K and W_Q start small, or from draws of the initial weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from saddlescope.core.tree import layout_of, ravel

from .. import data, prediction
from ..data import Frame, State, Weights
from ..spec import COMMON, CooccurrenceSpec
from .measures import RISK

PAPER_SIZES = CooccurrenceSpec(samples=60, tokens=5, test_sets=1, sampled_neurons=0)
"""Sentences as many and as long as in Appendix A."""

FEW = CooccurrenceSpec(samples=24, tokens=3, test_sets=1, sampled_neurons=0)
"""Above the threshold n = 3(L+1), and soon followed: 21 words."""

TINY = CooccurrenceSpec(width=32, neurons=5, samples=12, tokens=3, test_sets=1, init_scale=1.0)
"""Small enough for all weights. Five neurons: the signs of a cannot cancel."""

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


def _off(found: Any, true: Any) -> float:
    """Largest deviation, as a share of the largest entry of the truth."""
    return float(np.abs(np.asarray(found) - true).max() / np.abs(true).max())


def _excess(found: Any) -> float:
    return max(0.0, float(np.max(found)))


def _words_of(samples: int | None, tokens: int) -> prediction.Linear:
    spec = replace(FEW, samples=samples, tokens=tokens)
    return prediction.seven_of(spec)


@cache
def _course(samples: int | None, tokens: int) -> prediction.Course:
    """The seven numbers from zero. samples: None for infinitely many, which leaves G of μ1, μ2, μ3."""
    return prediction.follow(_words_of(samples, tokens), np.zeros(COMMON + 4), LATE)


def _pulls(model: prediction.Linear, states: np.ndarray) -> np.ndarray:
    """Σ g/n of each type of sentences."""
    return model.weights / (1 + np.exp(model.labels * (states @ model.outputs.T)))


def _rates(model: prediction.Linear, states: np.ndarray) -> np.ndarray:
    return (model.labels * _pulls(model, states)) @ model.response.T


def _at(course: prediction.Course, time: float) -> np.ndarray:
    return np.array([np.interp(np.log1p(time), np.log1p(course.time), part) for part in course.state.T])


def _endless() -> prediction.Linear:
    return _words_of(None, 5)


def _when(signal: Callable[[np.ndarray], float], low: float = 0.0, high: float = 20.0) -> np.ndarray:
    """State of the limit n = infinity, from zero, where a signal of it changes its sign."""
    from saddlescope.numerics.integrate import integrate

    model = _endless()
    path = integrate(
        lambda _, x: _rates(model, x),
        np.zeros(COMMON + 4),
        0.0,
        high,
        method="dop853",
        rtol=1e-11,
        atol=1e-13,
        watch=lambda x: np.array([signal(x)]),
    )
    first = next(time for time, _ in path.crossings if time > low)
    return path.state[path.time == first][0]


class _Run(NamedTuple):
    """time (t,): τ.  states (t, size): flat.  fold: to a State.  clock: of τ against t."""

    time: np.ndarray
    states: np.ndarray
    fold: Any
    frame: Frame
    clock: float

    def state(self, tau: float) -> State:
        inner = np.log1p(self.time)
        return self.fold(np.array([np.interp(np.log1p(tau), inner, part) for part in self.states.T]))


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

    found = observe.measure(run.state(tau), run.frame)
    return np.asarray(found["attention_rate"]) * run.clock, float(found["loss"])


class _Net(NamedTuple):
    """Weights of the tiny network, their motion −dL/dW by automatic differentiation, and a."""

    weights: Weights
    motion: Weights
    output: np.ndarray
    frame: Frame


@cache
def _net() -> _Net:
    import jax

    from .. import network
    from ..system import Cooccurrence

    weights, frame = Cooccurrence(TINY).start(0)
    slope = jax.grad(network.mean_loss)(weights, frame, frame.train)
    return _Net(weights, Weights(*(-np.asarray(part) for part in slope)), frame.output, frame)


def _pull_on_words(net: _Net) -> np.ndarray:
    """P of each word: Σ_i y_i g_i Σ_l p_i(l, μ)/n."""
    w, train = net.weights, net.frame.train
    seen = prediction.outputs_of(train, w.key.T @ w.query, float(net.frame.root))
    F = seen @ (net.output @ w.neuron @ w.value)
    return (train.weights * train.labels / (1 + np.exp(train.labels * F))) @ seen


def _neuron_rates(net: _Net) -> np.ndarray:
    """d(a_j w_jᵀ W_V μ)/dt (m1, D)."""
    w, v = net.weights, net.motion
    return net.output[:, None] * (v.neuron @ w.value + w.neuron @ v.value)


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


def _phase_2() -> tuple[_Run, np.ndarray]:
    """A flow at width 2^14 to τ = 1e7, and which of its moments are in Phase 2: all sentences are right."""
    run = _flow(replace(FEW, width=WIDE[0]), 0, 1e7)
    margins = prediction.frozen(run.frame)
    right = (margins.labels * (run.fold(run.states).value @ margins.outputs.T)).min(-1) > 0
    return run, np.arange(len(right)) > np.flatnonzero(~right)[-1]


def shows_common_sign() -> Shown:
    run, late = _phase_2()
    size = -run.fold(run.states).value[late, 2]
    return _excess(size / size[0] - 1), _excess(1 - size / size[0])


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
    run, _ = _phase_2()
    inner = np.linspace(np.log(1e3), np.log(1e7), 60)
    grown = np.interp(inner, np.log(run.time[1:]), run.fold(run.states).scores[1:, 1, 0])
    misses = [np.abs(grown - np.polyval(np.polyfit(inner, grown, degree), inner)).max() for degree in (0, 2)]
    return float(misses[0] / grown.mean()), float(misses[1] / grown.mean())


def shows_test_exponent() -> Shown:
    """−d ln(test loss)/d ln τ over the last two decades; training loses as 1/τ."""
    model, course = _words_of(60, 5), _course(60, 5)
    fresh = [model.labels * (_at(course, tau)[:COMMON] @ model.outputs[:, :COMMON].T) for tau in (LATE / 100, LATE)]
    before, after = (np.log(model.weights @ prediction.log_loss(margin)) for margin in fresh)
    exponent = (before - after) / np.log(100)
    return abs(1 - exponent), abs(prediction.late((30, 10, 10, 10), (2, 3, 3, 4)).exponent - exponent)


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


def _second_term(net: _Net) -> np.ndarray:
    """Σ_j a_j w_j'ᵀ W_V μ."""
    return net.output @ net.motion.neuron @ net.weights.value


def shows_eq_4() -> Shown:
    net = _net()
    true, m1 = _second_term(net), len(net.output)
    inner = m1 * net.weights.value.T @ (net.weights.value @ _pull_on_words(net))
    return max(_off(a * inner, true) for a in net.output), _off(inner, true)


def shows_output_weights() -> Shown:
    net = _net()
    # W_Vᵀ W_V P times Σ_j a_j² is the second term of Eq. (4).
    true = len(net.output) * net.weights.value.T @ (net.weights.value @ _pull_on_words(net))
    return _off(net.motion.neuron.sum(0) @ net.weights.value, true), _off(_second_term(net), true)


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


def shows_transposes() -> Shown:
    """W_K W_Q, which exists for m = d, and W_Kᵀ W_Q against inner products of keys and queries."""
    spec = replace(TINY, width=32)
    weights, _ = data.initial_weights(spec, spec.width, 0)
    true = np.array([[key @ query for query in weights.query.T] for key in weights.key.T])
    return _off(weights.key @ weights.query, true), _off(weights.key.T @ weights.query, true)


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


def shows_neuron_range() -> Shown:
    spec = PAPER_SIZES
    ranges = np.arange(spec.width), np.arange(spec.hidden)
    printed, repaired = (float((j >= spec.hidden).mean()) for j in ranges)
    return printed, repaired


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


def shows_word_sign() -> Shown:
    net = _net()
    true, a = _neuron_rates(net)[:, COMMON:], net.output[:, None]
    rates = (net.motion.neuron @ net.weights.value + net.weights.neuron @ net.motion.value)[:, COMMON:]
    return _off(rates, true), _off(a * rates, true)


def shows_leftovers() -> Shown:
    """Σ_j a_j w_jᵀ W_V μ, with the derivative of ReLU at w_jᵀ V p of the first sentence, p = 1/L, and without."""
    w, a, frame = _net().weights, _net().output, _net().frame
    true = (a @ w.neuron) @ w.value
    active = (w.neuron @ w.value)[:, frame.train.words[0]].mean(-1) > 0
    return _off((a * active) @ (w.neuron @ w.value), true), _off(a @ (w.neuron @ w.value), true)


def shows_common_value() -> Shown:
    """The rate of a_j w_jᵀ W_V μ3 from its three terms, |v|² being that of μ1 or of μ3."""
    net = _net()
    w, a, P = net.weights, net.output, _pull_on_words(net)
    grams, values = w.neuron @ w.neuron.T, w.value.T @ w.value
    among = a * (grams @ a - np.diag(grams) * a) * P[2]
    others = values[2] @ P - values[2, 2] * P[2]
    true = _neuron_rates(net)[:, 2]
    printed, repaired = (P[2] * (np.diag(grams) + values[k, k]) + among + others for k in (0, 2))
    return _off(printed, true), _off(repaired, true)


def shows_uniform_error() -> Shown:
    """By how much the second line of the bound exceeds the last, 2F + 1/m, with 1/L² and with 1/(L m) beside 1/L."""
    F, L, m = 0.01, 5, 1024
    last = 2 * F + 1 / m
    lines = [((0.5 + F) * L * (1 / L + e) - (0.5 - F) * L * (1 / L - e)) / 2 for e in (1 / L**2, 1 / (L * m))]
    return _excess(lines[0] / last - 1), _excess(lines[1] / last - 1)


def shows_common_time() -> Shown:
    """G3' at T0.5, n = infinity, by differences of the flow."""
    model = _endless()
    there = _when(lambda x: _one_signal_rate(model, x), low=1.0)
    v, step = _rates(model, there), 1e-4
    ahead, behind = (there + s * v + s**2 / 2 * _turning(model, there) for s in (step, -step))
    true = (ahead - behind)[2] / (2 * step)
    return _off(_rates(model, np.zeros(COMMON + 4))[2], true), _off(v[2], true)


def _turning(model: prediction.Linear, x: np.ndarray) -> np.ndarray:
    """Second derivative of the state."""
    v, step = _rates(model, x), 1e-5
    return (_rates(model, x + step * v) - _rates(model, x - step * v)) / (2 * step)


def _one_signal_rate(model: prediction.Linear, x: np.ndarray) -> float:
    """F' of sentences with μ1 only."""
    return float(model.outputs[1] @ _rates(model, x))


def shows_balance_factor() -> Shown:
    """How far −G3'/G1' is below 1.2 where the sum passes zero, n = infinity; the paper's constant L is 0.2."""
    model, c = _endless(), 0.2
    short = []
    for first, third in ((1.0, 1 + c), (1 + c, 1.0)):
        there = _when(lambda x, f=first, t=third: float(_rates(model, x)[[0, 2]] @ [f, t]), low=0.1)
        rates = _rates(model, there)
        short.append(_excess(1 + rates[2] / rates[0] / (1 + c)))
    return short[0], short[1]


def shows_slope_sign() -> Shown:
    """At t', where −G3' = G1': against minus Eq. (8) per G1'."""
    model = _endless()
    there = _when(lambda x: float(_rates(model, x)[[0, 2]].sum()), low=0.1)
    v = _rates(model, there)

    def sides(x: np.ndarray) -> float:
        return float(_pulls(model, x) @ [2, -2, -1, -1])

    step = 1e-5
    true = -(sides(there + step * v) - sides(there - step * v)) / (2 * step) / v[0]
    g = _pulls(model, there) / model.weights
    slopes = model.weights * g * (1 - g)  # of Σ g, per unit of y F, without its minus
    printed = -model.labels * slopes
    return _off(2 * printed[0] - printed[3], true), _off(2 * slopes[0] - slopes[3], true)


def shows_neither_delay() -> Shown:
    """Exponent in F of the time at which sentences with neither signal turn right, G3(0) = F = 1e-10 and 1e-8."""
    from saddlescope.numerics.integrate import integrate

    model, sizes = _endless(), (1e-10, 1e-8)
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


def shows_margin_sign() -> Shown:
    """How far y F of sentences with one signal is below C = 0.1 at T', in C."""
    model, C = _endless(), 0.1
    short = []
    for sign in (1, -1):
        there = _when(lambda x, s=sign: s * float(model.outputs[1] @ x) - C, high=60.0)
        short.append(_excess(1 - model.labels[1] * (model.outputs[1] @ there) / C))
    return short[0], short[1]


def shows_eq_9() -> Shown:
    """At τ = 10: the change of the sum over the largest change of a neuron, and over m1 times it, beyond 1."""
    spec = replace(FEW, width=64, neurons=8, sampled_neurons=8)
    run = _flow(spec, 0, 10.0)
    state, frame, word = run.state(10.0), run.frame, 0
    a = frame.output
    keys = [frame.start.key_gram[word, word], 0.0]
    keys[1] = keys[0] + frame.units.key_gram * state.key_gram[word, word]
    values = [frame.start.neuron_value[:, word], np.zeros(8)]
    values[1] = values[0] + frame.units.neuron_value * state.neuron_value[:, word]
    change = keys[1] * values[1] - keys[0] * values[0]
    ratio = abs(a @ change) / np.abs(change).max()
    return _excess(ratio - 1), _excess(ratio / len(a) - 1)


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
    expected = (1 - prediction.late((30, 10, 10, 10), (2, 3, 3, 4)).exponent) * np.log(1e4)
    return growth, abs(growth - expected)


ASTRAY = np.array([3.0, 2.6, -4.2, 0, 0, 0, 0])
"""G in Phase 2, all sentences right, sentences with μ1 only less so than those with μ2 only."""


def shows_ratio_swap() -> Shown:
    """The rate of ln(Σ_I2 g/Σ_I3 g) at a point of Phase 2."""
    model, step = _endless(), 1e-5
    v = _rates(model, ASTRAY)
    logs = [np.log(_pulls(model, ASTRAY + s * v)[1:3]) for s in (step, -step)]
    true = float(((logs[0] - logs[1]) @ [1, -1]) / (2 * step))
    speed = (model.labels * (model.outputs @ v))[1:3]
    kept = 1 - (_pulls(model, ASTRAY) / model.weights)[1:3]  # Σ g (1 − g)/Σ g
    printed = kept[1] * speed[0] - kept[0] * speed[1]
    return _off(printed, true), _off(kept[1] * speed[1] - kept[0] * speed[0], true)


def shows_derivative_bound() -> Shown:
    """−Σ g'/Σ g of each type, by differences, at the same point."""
    model, step = _endless(), 1e-5
    margin = model.labels * (model.outputs @ ASTRAY)

    def g(x: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(x))

    true = -(g(margin + step) - g(margin - step)) / (2 * step) / g(margin)
    return _off(g(margin), true), _off(g(-margin), true)


def shows_quadratic() -> Shown:
    """c/a from the root R that the flow tends to, n = infinity, and b/a there."""
    late = prediction.late(None, (2, 3, 3, 4))
    I1, I2, I3, I4 = late.pulls  # g' = −g where margins are large
    b = (I3 + I4 - I1) / (I1 + I2)
    true = -(late.ratio**2 + b * late.ratio)
    return _off(2.0, true), _off(-2.0, true)


def shows_loss_rate() -> Shown:
    """dL/dτ at T1 of 60 sentences, by differences."""
    state, frame = _start(replace(PAPER_SIZES, width=WIDE[0]), 0)
    model = prediction.frozen(frame)
    course = prediction.follow(model, state.value, 1e3)
    there = course.state[np.searchsorted(course.time, course.right or 0.0)]
    step = 1e-4

    def margins(x: np.ndarray) -> np.ndarray:
        return model.labels * (model.outputs @ x)

    g = 1 / (1 + np.exp(margins(there)))
    v = model.response @ (model.weights * model.labels * g)
    losses = [prediction.log_loss(margins(there + s * v)).mean() for s in (step, -step)]
    true = (losses[0] - losses[1]) / (2 * step)
    total = float(-g @ margins(v))
    return _off(total, true), _off(total / len(g), true)


def shows_log_time() -> Shown:
    """Share of moments of Phase 2, up to τ = 1e4, at which |s|² has grown and the bound is not positive."""
    run, late = _phase_2()
    some = np.flatnonzero(late & (run.time <= 1e4))[1:]
    size = run.fold(run.states).readout
    grown = size[some] > size[some[0] - 1]
    logs = np.log(run.time[some] / run.clock), np.log(run.time[some])
    return float((grown & (logs[0] <= 0)).mean()), float((grown & (logs[1] <= 0)).mean())


def shows_word_scores() -> Shown:
    """τ = 1e3, width 2^30: share of d(μᵀ W_Kᵀ W_Q γ)/dt below minus the rest, then outside ± the size and the rest."""
    spec = replace(FEW, width=WIDE[2])
    run = _flow(spec, 0, 1e3)
    state, m, variance = run.state(1e3), spec.width, spec.weight_deviation**2
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
    found = observe.measure(run.state(1e7), run.frame)
    ratio = float(found["signal_word_attention_rate"] / found["attention_rate"][0, 1])
    q, (s1, s2, s3) = (late := prediction.late(None, (2, 3, 3, 4))).pulls, late.slopes
    both, one = (s1 + s2 + s3) / 5, (s1 + s3) / 5
    keys = [q[0] * (s1 - both) - q[1] * (s1 - one), q[0] * (s2 - both), q[0] * (s3 - both) - q[1] * (s3 - one)]
    predicted = -(keys[0] + keys[2]) / 5 / (keys[1] - sum(keys) / 5)
    return abs(ratio - 5 / 1e9**0.5) / ratio, abs(ratio - predicted) / ratio


# ---- Appendix H


def shows_bernstein() -> Shown:
    """ln P[Z > t] beyond the bound: 10000 centred coins that show 1 with chance 0.01, t = 99."""
    n, p, t = 10_000, 0.01, 99
    M, square = 1 - p, n * p * (1 - p)
    first = n * p + t + 1
    logs = [
        math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * math.log(p) + (n - k) * math.log1p(-p)
        for k in range(int(first), int(first) + 400)
    ]
    chance = float(np.logaddexp.reduce(logs))
    bounds = -min(t**2 / (2 * square), t / (2 * M)), -min(t**2 / (4 * square), 3 * t / (4 * M))
    return _excess(chance - bounds[0]), _excess(chance - bounds[1])
