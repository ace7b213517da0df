"""Networks and flows written out as the papers have them, apart from the package: for comparison and for tests."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def head(p: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Eq. (1) of boix2023 with diagonal weights, for tokens x (samples, tokens, dim)."""
    return _mixed(p, x)[1] * np.split(p, 2)[1]


def force(p: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Minus the gradient of the mean squared error over 2, derived by hand."""
    vo = np.split(p, 2)[1]
    weights, mixed = _mixed(p, x)
    rest = (y - mixed * vo) / y.size
    pull = np.einsum("aid,d,ajd->aij", rest, vo, x)
    pull = weights * (pull - (weights * pull).sum(axis=-1, keepdims=True))
    return np.r_[np.einsum("aij,aid,ajd->d", pull, x, x), (rest * mixed).sum(axis=(0, 1))]


def _mixed(p: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Attention weights, and the tokens that they mix."""
    scores = np.einsum("aid,d,ajd->aij", x, np.split(p, 2)[0], x)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights, np.einsum("aij,ajd->aid", weights, x)


# ---- sparse_attention


def tensor_flow(regression, start) -> tuple[Callable[[float, np.ndarray], np.ndarray], np.ndarray]:
    """Eq. (5) in logits with all V_k (H, d, d) and q_k (H, T): velocity(time, flat), and the flat start."""
    spec = regression.spec
    d, T, H = spec.dimension, spec.positions, spec.heads
    features = np.tensordot(start.frame.features, start.frame.basis, 1)
    G = np.zeros((d, d, T))
    for k, strength in enumerate(spec.strengths):
        G[:, :, k] = strength * features[k]

    def velocity(_: float, flat: np.ndarray) -> np.ndarray:
        V, s = flat[: H * d * d].reshape(H, d, d), attention_of(flat[H * d * d :].reshape(H, T))
        R = G - np.tensordot(V, s, ((0,), (0,)))
        pull = np.einsum("kij,ijt->kt", V, R, optimize=True)
        dq = s * (pull - (s * pull).sum(1, keepdims=True))
        return np.concatenate([np.moveaxis(R @ s.T, -1, 0).ravel(), dq.ravel()])

    return velocity, np.concatenate([np.ravel(part) for part in start.point])


def attention_of(logits: np.ndarray) -> np.ndarray:
    grown = np.exp(logits - logits.max(1, keepdims=True))
    return grown / grown.sum(1, keepdims=True)


def one_hot_loss(weights, spec, tokens):
    """Cross entropy of the minimal model with tokens as one-hot vectors."""
    import jax
    import jax.numpy as jnp

    from saddlescope.systems.sparse_attention.network import minimal_attention

    X = jax.nn.one_hot(tokens, spec.vocabulary, dtype=weights.values.dtype)
    mixed = jnp.einsum("hti,nix->nthx", minimal_attention(weights.logits, spec), X[:, :-1])
    scores = jnp.einsum("nthx,hdx->ntd", mixed, weights.values)
    return -(jax.nn.log_softmax(scores) * X[:, spec.window :]).sum(-1).mean()
