"""The closed system of Gram matrices (Appendix C), as changes since the start, and what is measured on it.

W, W_V, W_K, W_Q act on sentences through s = Σ_j a_j w_j and through inner products alone, and these move by each
other: the state has no width. With c_i = w_i y_i g_i, p the softmax of S/√m and

    P(μ)    = Σ_i c_i Σ_l p_i(l, μ)
    M(ν, μ) = Σ_i c_i Σ_{l: x_l=μ} p_i(l, ν) (G(ν) − Σ_k p_i(l, k) G(x_k)) / √m,

the weights move by s' = A W_V P, w_j' = a_j W_V P, W_V' = s Pᵀ, W_K' = W_Q Mᵀ, W_Q' = W_K M, where A = Σ_j a_j².
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from saddlescope.core import precision  # noqa: F401  (64 bits before the first trace)
from saddlescope.core.source import source

from .data import PAPER, Frame, Sentences, State, Weights, grams_of
from .spec import COMMON


def reduce(weights: Weights, frame: Frame) -> State:
    grams = grams_of(weights, frame.output, frame.start.neuron_readout.shape[0])
    return State(*((gram - base) / unit for gram, base, unit in zip(grams, frame.start, frame.units, strict=True)))


def grams(state: State, frame: Frame) -> State:
    return State(*(base + unit * part for base, unit, part in zip(frame.start, frame.units, state, strict=True)))


# ---- forward


class Attention(NamedTuple):
    """now, change (n, L, L): p and p − p(0), queries first."""

    now: Any
    change: Any


def _pairs(words: Any) -> tuple[Any, Any]:
    """Places in a (key, query) matrix of every pair of words in a sentence, queries first."""
    return words[:, None, :], words[:, :, None]


def attend(state: State, frame: Frame, words: Any) -> Attention:
    """The change is that of the scores, exactly: p − p0 = p0 (e − Σ p0 e)/(1 + Σ p0 e) with e = exp(δ) − 1."""
    key, query = _pairs(words)
    before = jax.nn.softmax(frame.start.scores[key, query] / frame.root, axis=-1)
    grown = before * jnp.expm1(frame.units.scores * state.scores[key, query] / frame.root)
    total = grown.sum(-1, keepdims=True)
    return Attention((before + grown) / (1 + total), (grown - before * total) / (1 + total))


class Pass(NamedTuple):
    """Of all sentences: attention; seen (n, L): G of each word; margin (n,): y F; pull (n,): g = 1/(1 + exp(y F))."""

    attention: Attention
    seen: Any
    margin: Any
    pull: Any


@source(PAPER, "Eq. (1)", "Definition E.18")
def forward(state: State, frame: Frame, sentences: Sentences) -> Pass:
    attention = attend(state, frame, sentences.words)
    seen = state.value[sentences.words]
    margin = sentences.labels * (attention.now * seen[:, None, :]).sum((1, 2))
    return Pass(attention, seen, margin, jax.nn.sigmoid(-margin))


@source(PAPER, "Eq. (2)")
def losses(margin: Any) -> Any:
    return jax.nn.softplus(-margin)


# ---- motion


class Forces(NamedTuple):
    """P (D,) and M (D, D) of the module's head."""

    values: Any
    scores: Any


@source(PAPER, "Appendix B")
def forces(state: State, frame: Frame, run: Pass) -> Forces:
    train, p = frame.train, run.attention.now
    size = state.value.shape[0]
    c = train.weights * train.labels * run.pull
    P = jnp.zeros(size).at[train.words].add(c[:, None] * p.sum(1)) * frame.learns
    ahead = run.seen[:, None, :] - (p * run.seen[:, None, :]).sum(-1, keepdims=True)
    M = jnp.zeros((size, size)).at[_pairs(train.words)].add(c[:, None, None] * p * ahead / frame.root)
    return Forces(P, M * frame.learns[:, None] * frame.learns)


class Moves(NamedTuple):
    """Changes of the Gram matrices under a step of gradient descent: rate * first + rate² * second."""

    first: State
    second: State


@source(PAPER, "Eq. (6)", "Eq. (7)", "Lemma C.1", "Lemma C.2", "Lemma C.3", "Lemma C.4", "Appendix C")
def moves(state: State, frame: Frame, force: Forces) -> Moves:
    """W_V + rate s Pᵀ, s + rate A W_V P and so on, multiplied out; the first order is Appendix C."""
    (P, M), A, a = force, frame.energy, frame.output[: frame.start.neuron_readout.shape[0]]
    now = grams(state, frame)
    GP, PG = now.value @ P, now.value_gram @ P
    NP = now.neuron_value @ P
    PP = P @ PG
    KM, MQ = now.key_gram @ M, M @ now.query_gram
    SM, S_M = now.scores @ M.T, now.scores.T @ M
    first = State(
        now.readout * P + A * PG,
        2 * A * GP,
        _twice(jnp.outer(now.value, P)),
        KM + MQ,
        _twice(SM),
        _twice(S_M),
        jnp.outer(now.neuron_readout, P) + jnp.outer(a, PG),
        a * GP + A * NP,
        _twice(jnp.outer(NP, a)),
    )
    second = State(
        A * GP * P,
        A**2 * PP,
        now.readout * jnp.outer(P, P),
        M @ S_M,
        MQ @ M.T,
        M.T @ KM,
        GP * jnp.outer(a, P),
        A * PP * a,
        PP * jnp.outer(a, a),
    )
    return Moves(first, second)


def _twice(matrix: Any) -> Any:
    return matrix + matrix.T


def velocity(state: State, frame: Frame) -> State:
    """In the clock τ = |s(0)|² t."""
    force = forces(state, frame, forward(state, frame, frame.train))
    first = moves(state, frame, force).first
    return State(*(part / (unit * frame.start.readout) for part, unit in zip(first, frame.units, strict=True)))


def descend(state: State, frame: Frame, rate: Any) -> State:
    """The exact image of a step of gradient descent on the weights."""
    change = moves(state, frame, forces(state, frame, forward(state, frame, frame.train)))
    return State(
        *(
            part + (rate * one + rate**2 * two) / unit
            for part, one, two, unit in zip(state, *change, frame.units, strict=True)
        )
    )


def conserved(state: State, frame: Frame) -> Any:
    """Changes of tr(H η), tr((H η)²), tr(J η), tr((J η)²), the squares over the start's largest entry.

    H is the Gram matrix of [W_V, s/√A] and η = diag(I, −1); J that of [W_K, W_Q] and η = diag(I, −I). Both move as
    H' = H B + B H with B η = −η B, which keeps tr((H η)^k). They are formed from changes, whatever the start's size.
    """
    moved = State(*(unit * part for unit, part in zip(frame.units, state, strict=True)))
    parts, splits = [], (-1, len(state.value))
    for base, change, split in zip(_blocks(frame.start, frame), _blocks(moved, frame), splits, strict=True):
        signs = jnp.ones(len(base)).at[split:].set(-1.0)
        size = jnp.maximum(jnp.abs(base).max(), jnp.finfo(float).tiny)
        # Both are symmetric: the trace of a product is a sum over entries.
        twice = (signs[:, None] * signs * (2 * base + change) * change).sum()
        parts += [(signs * jnp.diagonal(change)).sum(), twice / size]
    return jnp.stack(parts)


def _blocks(of: State, frame: Frame) -> tuple[Any, Any]:
    """H and J."""
    row = of.value[None, :] / frame.energy**0.5
    H = jnp.block([[of.value_gram, row.T], [row, jnp.reshape(of.readout / frame.energy, (1, 1))]])
    return H, jnp.block([[of.key_gram, of.scores], [of.scores.T, of.query_gram]])


def largest_weight(state: State, frame: Frame) -> Any:
    """Norm of the longest of the vectors W_V μ, s/√A, W_K μ, W_Q μ."""
    now = grams(state, frame)
    squares = [jnp.diagonal(gram, axis1=-2, axis2=-1).max() for gram in (now.value_gram, now.key_gram, now.query_gram)]
    return jnp.sqrt(jnp.maximum(jnp.stack(squares).max(), (now.readout / frame.energy).max()))


# ---- what is measured


@source(PAPER, "Eq. (3)", "Eq. (4)", "Eq. (5)", "Lemma G.1", "Eq. (17)", "Definition E.1")
def measure(state: State, frame: Frame) -> dict[str, Any]:
    """Rates are per unit of τ = |s(0)|² t; changes are since the start."""
    train, clock = frame.train, frame.start.readout
    run, fresh = forward(state, frame, train), forward(state, frame, frame.test)
    force = forces(state, frame, run)
    rate = State(*(part / clock for part in moves(state, frame, force).first))
    now, P = grams(state, frame), force.values
    loss = losses(run.margin)
    test_loss = losses(fresh.margin)
    kinds = train.kinds[None, :] == jnp.arange(4)[:, None]
    pull = (kinds * train.weights * run.pull).sum(-1)
    by_mlp = frame.energy * (now.value_gram @ P) / clock
    change = {
        name: unit * jnp.abs(getattr(state, name))
        for name, unit in zip(State._fields, frame.units, strict=True)
        if name != "value"
    }
    words = change["scores"].at[:COMMON, :COMMON].set(0.0)
    speed = _attention_speed(rate.scores, frame, run, train.words)
    one = kinds[1] | kinds[2]
    share = (train.weights * one).sum()
    output_rate = _output_rate(rate.value, speed, run, train.words)
    by_attention = jnp.abs((speed * run.seen[:, None, :]).sum((1, 2)))
    common, between = _both(train.words)
    irrelevant = train.words >= COMMON
    both_words = irrelevant[:, :, None] & irrelevant[:, None, :]
    signal_to_word = (train.words < COMMON - 1)[:, :, None] & irrelevant[:, None, :]
    return {
        "loss": (train.weights * loss).sum(),
        "train_loss": (train.weights * loss).sum(),
        "test_loss": (frame.test.weights * test_loss).sum(),
        "type_loss": (kinds * train.weights * loss).sum(-1) / (kinds * train.weights).sum(-1),
        "test_type_loss": test_loss.reshape(-1, 4).mean(0),
        "pull": pull,
        "margin": run.margin,
        "worst_margin": run.margin.min(),
        "test_margin": fresh.margin.reshape(-1, 4).min(0),
        "balance_ratio": -rate.value[2] / rate.value[0],
        "one_signal_loss": (train.weights * one * loss).sum() / share,
        "one_signal_rate": -(train.weights * one * run.pull * train.labels * output_rate).sum() / share,
        "value": state.value,
        "value_rate": rate.value[:COMMON],
        "value_rate_by_neurons": by_mlp[:COMMON],
        "neuron_share": jnp.abs(by_mlp).max() / (now.readout / clock * pull.sum()),
        "attention_share": by_attention.max() / (now.readout / clock * pull.sum()),
        "readout_change": frame.units.readout * state.readout,
        "score_change": frame.units.scores * state.scores[:COMMON, :COMMON],
        "score_rate": rate.scores[:COMMON, :COMMON],
        "value_gram_change": frame.units.value_gram * state.value_gram[:COMMON, :COMMON],
        "value_gram_rate": rate.value_gram[:COMMON, :COMMON],
        "attention_change": _mean_over(common, between, run.attention.change),
        "attention_rate": _mean_over(common, between, speed),
        "moved_scores": change["scores"].max(),
        "moved_word_scores": words.max(),
        "moved_values": change["value_gram"].max(),
        "moved_keys": change["key_gram"].max(),
        "moved_queries": change["query_gram"].max(),
        "moved_attention": jnp.abs(run.attention.change).max(),
        "moved_word_attention": jnp.where(both_words, jnp.abs(run.attention.change), 0.0).max(),
        "word_attention_rate": jnp.where(both_words, jnp.abs(speed), 0.0).max(),
        "signal_word_attention_rate": jnp.where(signal_to_word, jnp.abs(speed), 0.0).max(),
        "cross_value": jnp.abs(now.value_gram[0] @ P - now.value_gram[0, 0] * P[0]),
        **_neurons(state, rate, now, frame, run, P),
    }


def _attention_speed(score_rate: Any, frame: Frame, run: Pass, words: Any) -> Any:
    """p' (n, L, L)."""
    inner, p = score_rate[_pairs(words)] / frame.root, run.attention.now
    return p * (inner - (p * inner).sum(-1, keepdims=True))


def _output_rate(value_rate: Any, speed: Any, run: Pass, words: Any) -> Any:
    """F' (n,)."""
    return (run.attention.now * value_rate[words][:, None, :] + speed * run.seen[:, None, :]).sum((1, 2))


def _both(words: Any) -> tuple[Any, Any]:
    """Where μ1, μ2, μ3 are (n, L, 3), and how many sentences have each pair."""
    where = (words[..., None] == jnp.arange(COMMON)).astype(float)
    held = where.sum(1)
    return where, held.T @ held


def _mean_over(where: Any, count: Any, pairs: Any) -> Any:
    """Of numbers (n, query, key), the mean over sentences that have both words: (key, query) of μ1, μ2, μ3."""
    return jnp.einsum("nlq,nlk,nkc->cq", where, pairs, where) / count


def _neurons(state: State, rate: State, now: State, frame: Frame, run: Pass, P: Any) -> dict[str, Any]:
    """Of the neurons that are followed; "largest" is over words other than μ1, μ2, μ3, sentences and pairs."""
    count = state.neuron_readout.shape[0]
    a = frame.output[:count]
    change = frame.units.neuron_value * state.neuron_value
    square = jnp.diagonal(now.neuron_gram)
    moved = frame.units.neuron_gram * jnp.abs(state.neuron_gram)
    words = frame.train.words
    # w_j W_V X p − w_j(0) W_V(0) X p(0), by the changes of both factors
    output = jnp.einsum("nlk,jnk->jnl", run.attention.now, change[:, words]) + jnp.einsum(
        "nlk,jnk->jnl", run.attention.change, frame.start.neuron_value[:, words]
    )
    irrelevant = jnp.arange(len(P)) >= COMMON
    return {
        "neuron_value": a[:, None] * now.neuron_value[:, :COMMON],
        "neuron_change": a[:, None] * change[:, :COMMON],
        "neuron_rate": a[:, None] * rate.neuron_value[:, :COMMON],
        "neuron_word_change": jnp.where(irrelevant, jnp.abs(change), 0.0).max(-1),
        "neuron_word_rate": jnp.where(irrelevant, jnp.abs(rate.neuron_value), 0.0).max(-1),
        "neuron_output_change": jnp.abs(output).max((-1, -2)),
        "neuron_gram_change": moved.max(-1) if count else moved.reshape(0),
        "neuron_gram_rate": jnp.abs(rate.neuron_gram).max(-1) if count else moved.reshape(0),
        "neuron_norm_change": jnp.diagonal(moved),
        "cross_neuron": jnp.abs((now.neuron_readout - a * square) * P[0]),
    }
