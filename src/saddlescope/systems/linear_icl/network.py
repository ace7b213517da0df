"""The attention network itself, on sequences of tokens. jax."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from saddlescope.core.source import source

from .data import Frame, Sequences, Weights


def whole_weights(weights: Weights) -> Weights:
    """Weights with all blocks: population weights are padded with the zero blocks that they leave out."""
    D = weights.query.shape[-1]
    if weights.value.shape[-1] == D + 1:
        return weights
    value = jnp.pad(weights.value, ((0, 0), (D, 0)))
    return Weights(value, jnp.pad(weights.key, ((0, 0), (0, 0), (0, 1))), weights.query)


def tokens(sequences: Sequences) -> tuple[jax.Array, jax.Array]:
    """Columns of X as seen in context (..., N+1, D+1), and as queries with their label hidden."""
    x, y = sequences
    return (
        jnp.concatenate([x, y[..., None]], axis=-1),
        jnp.concatenate([x, jnp.zeros_like(y)[..., None]], axis=-1),
    )


@source("zhang2025", "Eq. (1)", "Eq. (2)")
def predict_last(weights: Weights, sequences: Sequences) -> jax.Array:
    """ŷ_q (P,): bottom right entry of X + Σ_h (1/N) W^V X Xᵀ W^Kᵀ W^Q X."""
    value, key, query = whole_weights(weights)
    seen, hidden = tokens(sequences)
    X = jnp.concatenate([seen[:, :-1], hidden[:, -1:]], axis=1)  # (P, N+1, D+1)
    values = jnp.einsum("pna,ha->pnh", X, value)
    keys = jnp.einsum("pnb,hrb->pnhr", X, key)
    queries = jnp.einsum("pd,hrd->phr", sequences.x[:, -1], query)
    return jnp.einsum("pnh,pnhr,phr->p", values, keys, queries) / (X.shape[1] - 1)


@source("zhang2025", "Eq. (9)")
def predict_each(weights: Weights, sequences: Sequences) -> jax.Array:
    """ŷ_{n+1} (P, N) from the first n pairs and x_{n+1}, for n = 1..N."""
    value, key, query = whole_weights(weights)
    seen, hidden = tokens(sequences)
    values, keys = jnp.einsum("pna,ha->pnh", seen, value), jnp.einsum("pnb,hrb->pnhr", seen, key)
    own = jnp.einsum("pna,ha->pnh", hidden, value)[..., None] * jnp.einsum("pnb,hrb->pnhr", hidden, key)
    context = jnp.cumsum((values[..., None] * keys)[:, :-1], axis=1) + own[:, 1:]  # (P, N, H, R)
    queries = jnp.einsum("pnd,hrd->pnhr", sequences.x[:, 1:], query)
    return (context * queries).sum((2, 3)) / jnp.arange(1, context.shape[1] + 1)


def predict_softmax(weights: Weights, sequences: Sequences) -> jax.Array:
    """ŷ_q (P,) with softmax over the tokens in place of 1/N (section B.1)."""
    value, key, query = whole_weights(weights)
    seen, hidden = tokens(sequences)
    X = jnp.concatenate([seen[:, :-1], hidden[:, -1:]], axis=1)
    values = jnp.einsum("pna,ha->phn", X, value)
    # (key query) is formed first: the scores then cost D+1 per token and head, whatever the rank.
    reads = jnp.einsum("hrb,hrd,pd->phb", key, query, sequences.x[:, -1])
    scores = jnp.einsum("pnb,phb->phn", X, reads)
    return (jax.nn.softmax(scores, axis=-1) * values).sum((1, 2))


ERRORS = {
    "squared": lambda gap: gap**2,
    "absolute": jnp.abs,
    "log_cosh": lambda gap: jnp.logaddexp(gap, -gap) - jnp.log(2.0),
    "quartic": lambda gap: gap**4,
}


def mean_error(predictions: jax.Array, sequences: Sequences, error: str = "squared") -> jax.Array:
    """Mean over all predictions: of the last label (P,), or of every label but the first (P, N)."""
    labels = sequences.y[:, -1] if predictions.ndim == 1 else sequences.y[:, 1:]
    return ERRORS[error](labels - predictions).mean()


def draw(frame: Frame, key: jax.Array, size: int, context_length: int) -> Sequences:
    """Fresh sequences for online training."""
    for_tokens, for_tasks = jax.random.split(key)
    D = frame.eigenvalues.shape[0]
    x = jax.random.normal(for_tokens, (size, context_length + 1, D)) * jnp.sqrt(frame.eigenvalues)
    task = jax.random.normal(for_tasks, (size, D))
    return Sequences(x, jnp.einsum("pnd,pd->pn", x, task))
