"""The transformers that are trained on the chain, minimal and full, in jax.

Both turn inputs (n, inputs) into scores of the next token at the last `outputs` positions, and say where each head
looks. Tokens are never made into one-hot vectors where a row of a matrix can be looked up instead.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from saddlescope.core import precision  # noqa: F401  (64 bits before the first trace)
from saddlescope.core.source import source

from .chain import Frame, Tokens, lags, shape
from .spec import FullSpec, MarkovSpec


class Minimal(NamedTuple):
    """logits A_k (H, outputs, inputs), values V_k (H, d, d); column x of V_k is what a token x adds."""

    logits: Any
    values: Any


class Full(NamedTuple):
    """S: width of the stream (hidden, or d + inputs for one-hot vectors), I: hidden.

    tokens (d, S), places (inputs, S): embeddings.  query, key, value (S, I), output (I, S); without keys, query is A
    (H, S, S); without an output matrix, value is (H, S, S).  up (S, F), down (F, S): the MLP.  read (S, d).
    norms (3, 2, S): gain and bias before attention, MLP and unembedding.  What the network lacks has size zero.
    """

    tokens: Any
    places: Any
    query: Any
    key: Any
    value: Any
    output: Any
    up: Any
    up_bias: Any
    down: Any
    down_bias: Any
    read: Any
    read_bias: Any
    norms: Any


# ---- what both share


@jax.custom_vjp
def look_up(table: Any, places: Any) -> Any:
    """Rows of a table (d, D) by number, with a gradient that is fast on a GPU."""
    return table[places]


def _looked_up(table: Any, places: Any) -> tuple[Any, Any]:
    return look_up(table, places), (places, len(table))


def _back_to_rows(kept: tuple[Any, int], slope: Any) -> tuple[Any, None]:
    # A sum into a few rows is a product with one-hot vectors; as a scatter its terms would wait for each other.
    places, size = kept
    one_hot = jax.nn.one_hot(places.ravel(), size, dtype=slope.dtype)
    return one_hot.T @ slope.reshape(-1, slope.shape[-1]), None


look_up.defvjp(_looked_up, _back_to_rows)


@source("yuksel2025", "section 2.1, causal mask")
def mask(spec: MarkovSpec) -> np.ndarray:
    """What each prediction may see (outputs, inputs)."""
    behind = lags(spec)
    seen = behind >= 1
    return seen if spec.context is None else seen & (behind <= spec.context)


def cut(spec: MarkovSpec, tokens: Any) -> Any:
    """Sequences (n, w + T) as the network reads them: all but the last token, or windows (n T, c)."""
    _, inputs = shape(spec)
    if inputs == spec.inputs:
        return tokens[:, :-1]
    places = spec.window - inputs + np.arange(spec.positions)[:, None] + np.arange(inputs)
    return tokens[:, places].reshape(-1, inputs)


def log_probabilities(weights: Minimal | Full, spec: MarkovSpec, tokens: Any, key: Any = None) -> tuple[Any, Any]:
    """log of the predicted shares (n, T, d), and attention (H, outputs, inputs), averaged over sequences."""
    inputs = cut(spec, tokens)
    if isinstance(weights, Minimal):
        scores, attention = minimal(weights, spec, inputs)
    else:
        assert isinstance(spec, FullSpec)
        scores, attention = full(weights, spec, inputs, key)
    return jax.nn.log_softmax(scores.reshape(len(tokens), spec.positions, -1)), attention


@source("yuksel2025", "section 2")
def cross_entropy(weights: Minimal | Full, spec: MarkovSpec, batch: Tokens, key: Any) -> Any:
    """Over all tokens that the chain has drawn, not the first w."""
    found, _ = log_probabilities(weights, spec, batch.tokens, key)
    return -jnp.take_along_axis(found, batch.tokens[:, spec.window :, None], -1).mean()


def draw(spec: MarkovSpec, frame: Frame, key: Any, count: int) -> Tokens:
    """Fresh sequences of the chain, as chain.sample draws them."""
    w, d = spec.window, spec.vocabulary
    for_first, for_rest = jax.random.split(key)

    def advance(before, key):
        scores = frame.tables[jnp.arange(w)[:, None], before.T[::-1]].sum(0)
        token = (scores + jax.random.gumbel(key, scores.shape, scores.dtype)).argmax(-1).astype(jnp.int32)
        return jnp.concatenate([before[:, 1:], token[:, None]], 1), token

    first = jax.random.randint(for_first, (count, w), 0, d, jnp.int32)
    _, drawn = jax.lax.scan(advance, first, jax.random.split(for_rest, spec.positions))
    return Tokens(jnp.concatenate([first, drawn.T], 1))


# ---- the minimal model


def minimal_attention(logits: Any, spec: MarkovSpec) -> Any:
    return jax.nn.softmax(jnp.where(mask(spec), logits, -jnp.inf))


@source("yuksel2025", "section 2.1", "section C.1")
def minimal(weights: Minimal, spec: MarkovSpec, inputs: Any) -> tuple[Any, Any]:
    """Σ_k V_k X a_t^(k) with a_t^(k) = softmax(A_k's row t): attention by position alone."""
    attention = minimal_attention(weights.logits, spec)
    count = attention.shape[-1] * spec.heads
    # One product over heads and inputs together: (outputs, H inputs) with (H inputs, n d).
    added = jnp.take(weights.values.swapaxes(1, 2), inputs.T, axis=1).reshape(count, -1)
    scores = attention.swapaxes(0, 1).reshape(-1, count) @ added
    return scores.reshape(len(scores), len(inputs), -1).swapaxes(0, 1), attention


def initial_minimal(spec: MarkovSpec, seed: int) -> Minimal:
    """A_k uniform in [-u, u], V_k = 0 (section C.1)."""
    u, d = spec.init_scale, spec.vocabulary
    logits = np.random.default_rng(seed).uniform(-u, u, (spec.heads, *shape(spec)))
    return Minimal(logits.astype(spec.precision), np.zeros((spec.heads, d, d), spec.precision))


@source("yuksel2025", "section 2.1, construction")
def construction(spec: MarkovSpec, frame: Frame, sharpness: float) -> Minimal:
    """V_k = A_k*, logits λ on I(k) and 0 elsewhere: exact as λ -> ∞."""
    behind = lags(spec)
    logits = np.stack([sharpness * np.isin(behind, interval) for interval in spec.lags])
    return Minimal(logits.astype(spec.precision), frame.features.astype(spec.precision))


# ---- the full model


def widths(spec: FullSpec) -> tuple[int, int]:
    """(stream, hidden)."""
    return (spec.hidden if spec.embedding else spec.vocabulary + shape(spec)[1]), spec.hidden


def initial_full(spec: FullSpec, seed: int) -> Full:
    """Normal with variance 1/(inputs of the layer), embeddings with variance 1, biases 0, all times `init_scale`."""
    rng = np.random.default_rng(seed)
    S, hidden = widths(spec)
    H, d, F = spec.heads, spec.vocabulary, spec.feedforward

    def normal(present: bool, scale: float, *dims: int) -> np.ndarray:
        size = dims if present else (0, *dims[1:])
        return (spec.init_scale * scale * rng.standard_normal(size)).astype(spec.precision)

    def zeros(present: bool, *dims: int) -> np.ndarray:
        return np.zeros(dims if present else (0,), spec.precision)

    narrow = S**-0.5
    norms = np.zeros((3, 2, S), spec.precision)
    norms[:, 0] = 1.0
    return Full(
        tokens=normal(spec.embedding, 1.0, d, S),
        places=normal(spec.embedding, 1.0, shape(spec)[1], S),
        query=normal(True, narrow, S, hidden) if spec.keys else normal(True, 1 / S, H, S, S),
        key=normal(spec.keys, narrow, S, hidden),
        value=normal(True, narrow, S, hidden) if spec.output else normal(True, narrow / H**0.5, H, S, S),
        output=normal(spec.output, hidden**-0.5, hidden, S),
        up=normal(spec.mlp, narrow, S, F),
        up_bias=zeros(spec.mlp, F),
        down=normal(spec.mlp, F**-0.5, F, S),
        down_bias=zeros(spec.mlp, S),
        read=normal(spec.embedding, narrow, S, d),
        read_bias=zeros(spec.embedding, d),
        norms=norms if spec.layer_norm else norms[:0],
    )


@source("yuksel2025", "Appendix B", "Tab. 3")
def full(weights: Full, spec: FullSpec, inputs: Any, key: Any = None) -> tuple[Any, Any]:
    """One pre-norm decoder block. Only the last `outputs` positions ask and are read."""
    outputs, _ = shape(spec)
    drops = iter(jax.random.split(key, 3)) if key is not None and spec.dropout else None

    def dropped(x: Any) -> Any:
        if drops is None:
            return x
        kept = jax.random.bernoulli(next(drops), 1 - spec.dropout, x.shape)
        return jnp.where(kept, x / (1 - spec.dropout), 0).astype(x.dtype)

    def normed(x: Any, which: int) -> Any:
        if not spec.layer_norm:
            return x
        centred = x - x.mean(-1, keepdims=True)
        gain, bias = weights.norms[which]
        return gain * centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) + bias

    stream = dropped(_embedded(weights, spec, inputs))
    seen = normed(stream, 0)
    asking = seen[:, -outputs:]
    attention = jax.nn.softmax(jnp.where(mask(spec), _scores(weights, spec, asking, seen), -jnp.inf))
    stream = dropped(_mixed(weights, spec, attention, seen)) + (stream[:, -outputs:] if spec.residual else 0)
    if spec.mlp:
        inner = jax.nn.relu(normed(stream, 1) @ weights.up + weights.up_bias)
        stream = dropped(inner @ weights.down + weights.down_bias) + (stream if spec.residual else 0)
    stream = normed(stream, 2)
    scores = stream @ weights.read + weights.read_bias if spec.embedding else stream[..., : spec.vocabulary]
    return scores, attention.mean(0)


def _embedded(weights: Full, spec: FullSpec, inputs: Any) -> Any:
    """(n, inputs, S)."""
    if spec.embedding:
        return look_up(weights.tokens, inputs) + weights.places
    count = inputs.shape[1]
    kind = weights.query.dtype
    places = jnp.broadcast_to(jnp.eye(count, dtype=kind), (len(inputs), count, count))
    return jnp.concatenate([jax.nn.one_hot(inputs, spec.vocabulary, dtype=kind), places], -1)


def _heads(x: Any, spec: FullSpec) -> Any:
    """(n, positions, hidden) -> (n, H, positions, hidden / H)."""
    return x.reshape(*x.shape[:2], spec.heads, -1).swapaxes(1, 2)


def _scores(weights: Full, spec: FullSpec, asking: Any, seen: Any) -> Any:
    """Of every head (n, H, outputs, inputs)."""
    if not spec.keys:
        return jnp.einsum("nts,hsr,nir->nhti", asking, weights.query, seen)
    query, key = _heads(asking @ weights.query, spec), _heads(seen @ weights.key, spec)
    return query @ key.swapaxes(-1, -2) / query.shape[-1] ** 0.5


def _mixed(weights: Full, spec: FullSpec, attention: Any, seen: Any) -> Any:
    """What attention adds to the stream (n, outputs, S)."""
    if not spec.output:
        return jnp.einsum("nhti,nir,hrs->nts", attention, seen, weights.value)
    found = attention @ _heads(seen @ weights.value, spec)
    return found.swapaxes(1, 2).reshape(len(seen), -1, spec.hidden) @ weights.output


# ---- what is measured


def measure(weights: Minimal | Full, spec: MarkovSpec, frame: Frame) -> dict[str, Any]:
    """On the test sequences, with the next token averaged over exactly.

    divergence: KL(f_{A*_{1:i}} || model) for i = 1..h, the last of which is the excess loss.
    mass (H, h+1): attention on each interval, averaged over predictions, and on everything else.
    """
    found, attention = log_probabilities(weights, spec, frame.test)
    truths = frame.truths
    divergence = (jnp.exp(truths) * (truths - found)).sum(-1).mean((1, 2)).astype(float)
    inside = jnp.stack([jnp.asarray(np.isin(lags(spec), interval)) for interval in spec.lags])
    mass = jnp.einsum("hti,gti->hg", attention, inside.astype(attention.dtype)) / attention.shape[1]
    return {
        "loss": divergence[-1] + frame.entropy,
        "excess": divergence[-1],
        "divergence": divergence,
        "mass": jnp.concatenate([mass, 1 - mass.sum(-1, keepdims=True)], -1).astype(float),
        "map": attention.astype(jnp.float32),
        "probe": found[frame.probes[:, 0], frame.probes[:, 1]].astype(jnp.float32),
    }


def feature_share(weights: Minimal, spec: MarkovSpec, frame: Frame, mass: Any) -> Any:
    """How much of each A_k* the heads hold that look at I(k): ⟨Σ_j M_jk V_j, A_k*⟩ / |A_k*|², up to what a softmax
    cannot see."""
    blind = lambda matrix: matrix - matrix.mean(-2, keepdims=True)  # noqa: E731
    held = blind(jnp.einsum("hg,hij->gij", mass[:, : spec.patterns], weights.values))
    true = blind(frame.features)
    return (held * true).sum((1, 2)) / (true**2).sum((1, 2))
