"""The closed system of Gram matrices (Appendix C), as changes since the start.

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


def pairs(words: Any) -> tuple[Any, Any]:
    """Places in a (key, query) matrix of every pair of words in a sentence, queries first."""
    return words[:, None, :], words[:, :, None]


def attend(state: State, frame: Frame, words: Any) -> Attention:
    """The change is that of the scores, exactly: p − p0 = p0 (e − Σ p0 e)/(1 + Σ p0 e) with e = exp(δ) − 1."""
    key, query = pairs(words)
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
    M = jnp.zeros((size, size)).at[pairs(train.words)].add(c[:, None, None] * p * ahead / frame.root)
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


@jax.jit
def largest_weight(state: State, frame: Frame) -> Any:
    """Norm of the longest of the vectors W_V μ, s/√A, W_K μ, W_Q μ."""
    now = grams(state, frame)
    squares = [jnp.diagonal(gram, axis1=-2, axis2=-1).max() for gram in (now.value_gram, now.key_gram, now.query_gram)]
    return jnp.sqrt(jnp.maximum(jnp.stack(squares).max(), (now.readout / frame.energy).max()))
