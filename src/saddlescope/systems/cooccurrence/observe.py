"""What is measured on a state."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from saddlescope.core.source import source

from .data import PAPER, Frame, State
from .reduction import Pass, forces, forward, grams, losses, moves, pairs
from .spec import COMMON


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
    moved = State(*(unit * jnp.abs(part) for unit, part in zip(frame.units, state, strict=True)))
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
        "moved_scores": moved.scores.max(),
        "moved_word_scores": moved.scores.at[:COMMON, :COMMON].set(0.0).max(),
        "moved_values": moved.value_gram.max(),
        "moved_keys": moved.key_gram.max(),
        "moved_queries": moved.query_gram.max(),
        "moved_attention": jnp.abs(run.attention.change).max(),
        "moved_word_attention": jnp.where(both_words, jnp.abs(run.attention.change), 0.0).max(),
        "signal_word_attention_rate": jnp.where(signal_to_word, jnp.abs(speed), 0.0).max(),
        "cross_value": jnp.abs(now.value_gram[0] @ P - now.value_gram[0, 0] * P[0]),
        **_neurons(state, rate, now, frame, run, P),
    }


def _attention_speed(score_rate: Any, frame: Frame, run: Pass, words: Any) -> Any:
    """p' (n, L, L)."""
    inner, p = score_rate[pairs(words)] / frame.root, run.attention.now
    return p * (inner - (p * inner).sum(-1, keepdims=True))


def _output_rate(value_rate: Any, speed: Any, run: Pass, words: Any) -> Any:
    """F' (n,)."""
    return (run.attention.now * value_rate[words][:, None, :] + speed * run.seen[:, None, :]).sum((1, 2))


def _both(words: Any) -> tuple[Any, Any]:
    """Where μ1, μ2, μ3 are (n, L, 3), and how many sentences have each pair."""
    where = (words[..., None] == jnp.arange(COMMON)).astype(float)
    held = where.sum(1)
    return where, held.T @ held


def _mean_over(where: Any, count: Any, numbers: Any) -> Any:
    """Of numbers (n, query, key), the mean over sentences that have both words: (key, query) of μ1, μ2, μ3."""
    return jnp.einsum("nlq,nlk,nkc->cq", where, numbers, where) / count


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
        "cross_neuron": jnp.abs((now.neuron_readout - a * square) * P[0]),
    }
