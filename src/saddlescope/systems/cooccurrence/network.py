"""The networks themselves, in jax: Eq. (1), and what section 5 leaves for later."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from saddlescope.core import precision  # noqa: F401  (64 bits before the first trace)
from saddlescope.core.source import source
from saddlescope.core.start import OfTheStart

from . import data
from .data import PAPER, Frame, Sentences, Weights
from .reduction import losses
from .spec import COMMON, VariantSpec


@source(PAPER, "Eq. (1)", "Eq. (2)")
def mean_loss(weights: Weights, frame: Frame, train: Sentences) -> Any:
    """Of F(X) = Σ_l Σ_j a_j w_j W_V X softmax(Xᵀ W_Kᵀ W_Q x_l / √m).

    Words that are met too rarely to be learned are constants: their outputs, and scores with them.
    """
    learned = frame.learns[train.words]
    pairs = learned[:, :, None] * learned[:, None, :]
    keys, queries = weights.key[:, train.words], weights.query[:, train.words]  # (m, n, L)
    scores = _where_learned(pairs, jnp.einsum("mnk,mnl->nlk", keys, queries) / frame.root)
    neurons = jnp.einsum("jm,mnk->jnk", weights.neuron, weights.value[:, train.words])
    outputs = _where_learned(learned, jnp.tensordot(frame.output, neurons, 1))
    F = (jax.nn.softmax(scores, axis=-1) * outputs[:, None, :]).sum((1, 2))
    return _mean(train, losses(train.labels * F))


def _mean(sentences: Sentences, numbers: Any) -> Any:
    """By weights, which sum to one over all sentences but not over a batch of them."""
    return (sentences.weights * numbers).sum() / sentences.weights.sum()


def _where_learned(learned: Any, x: Any) -> Any:
    return learned * x + (1 - learned) * jax.lax.stop_gradient(x)


# ---- variants


class VariantWeights(NamedTuple):
    """value, key, query (layers, heads, m, D); back (layers − 1, m, D): to words; neuron (m1, m); output (m1,): a."""

    value: Any
    key: Any
    query: Any
    back: Any
    neuron: Any
    output: Any


class VariantFrame(NamedTuple):
    train: Sentences
    test: Sentences
    start: OfTheStart[VariantWeights]


def initial_variant(spec: VariantSpec, size: int, seed: int) -> VariantWeights:
    """Every head and layer is drawn as Eq. (1)'s are; with one of each, these are Eq. (1)'s weights."""
    shape = spec.layers, spec.heads
    drawn = [data.initial_weights(spec, size, seed)]
    rngs = np.random.default_rng((seed, 1)).integers(2**31, size=spec.layers * spec.heads)
    drawn += [data.initial_weights(spec, size, int(rng)) for rng in rngs[1:]]
    value, key, query = (
        np.stack([getattr(one, name) for one, _ in drawn]).reshape(*shape, spec.width, size)
        for name in ("value", "key", "query")
    )
    back = spec.weight_deviation * np.random.default_rng((seed, 2)).standard_normal((spec.layers - 1, spec.width, size))
    first, output = drawn[0]
    return VariantWeights(value, key, query, back, first.neuron, output)


def forward_variant(weights: VariantWeights, spec: VariantSpec, words: Any) -> Any:
    """F of every sentence."""
    root = spec.width**0.5
    stream = jax.nn.one_hot(words, weights.value.shape[-1], dtype=float)  # (n, L, D)
    for layer in range(spec.layers):
        keys, queries, values = (
            jnp.einsum("hmd,nld->nhlm", part[layer], stream) for part in (weights.key, weights.query, weights.value)
        )
        attention = jax.nn.softmax(jnp.einsum("nhlm,nhkm->nhlk", queries, keys) / root, axis=-1)
        mixed = jnp.einsum("nhlk,nhkm->nlm", attention, values)
        if layer < spec.layers - 1:
            stream = stream + jnp.einsum("nlm,md->nld", mixed, weights.back[layer])
    hidden = jnp.einsum("jm,nlm->nlj", weights.neuron, mixed)
    if spec.activation == "relu":
        hidden = jax.nn.relu(hidden)
    output = weights.output if spec.trained_output else jax.lax.stop_gradient(weights.output)
    return jnp.einsum("nlj,j->n", hidden, output)


def variant_loss(weights: VariantWeights, spec: VariantSpec, sentences: Sentences) -> Any:
    F = forward_variant(weights, spec, sentences.words)
    return _mean(sentences, losses(sentences.labels * F))


def measure_variant(weights: VariantWeights, spec: VariantSpec, frame: VariantFrame) -> dict[str, Any]:
    train, test = frame.train, frame.test
    margin = train.labels * forward_variant(weights, spec, train.words)
    fresh = test.labels * forward_variant(weights, spec, test.words)
    kinds = train.kinds[None, :] == jnp.arange(4)[:, None]
    loss = losses(margin)
    common = [part[-1, :, :, :COMMON] for part in (weights.key, weights.query)]
    before = [part[-1, :, :, :COMMON] for part in (frame.start.key, frame.start.query)]
    scores, first = (jnp.einsum("hmk,hmq->kq", *pair) for pair in (common, before))
    return {
        "loss": (train.weights * loss).sum(),
        "train_loss": (train.weights * loss).sum(),
        "test_loss": (test.weights * losses(fresh)).sum(),
        "type_loss": (kinds * train.weights * loss).sum(-1) / (kinds * train.weights).sum(-1),
        "worst_margin": margin.min(),
        "test_margin": fresh.reshape(-1, 4).min(0),
        "score_change": scores - first,
    }
