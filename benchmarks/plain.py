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


# ---- cooccurrence


def word_gradient(weights, frame):
    """Minus the gradient of the loss of Eq. (1) of yang2024 (Appendix B), sentence by sentence: W_V, W_K, W_Q, W."""
    V, K, Q, W = weights
    a, root = frame.output, frame.root
    slopes = [np.zeros_like(part) for part in weights]
    for x, y, weight in zip(frame.train.words, frame.train.labels, frame.train.weights, strict=True):
        v, k, q = V[:, x], K[:, x], Q[:, x]
        F, parts = 0.0, []
        for i in range(len(x)):
            p = attention_of((k.T @ q[:, i] / root)[None])[0]
            F += a @ W @ v @ p
            parts.append(p)
        c = weight * y / (1 + np.exp(y * F))
        for i, p in enumerate(parts):
            heads = (a @ W) @ v
            np.add.at(slopes[0].T, x, c * np.outer(p, a @ W))
            pull = p * (heads - heads @ p) / root
            np.add.at(slopes[1].T, x, c * np.outer(pull, q[:, i]))
            slopes[2][:, x[i]] += c * (k @ pull)
            slopes[3] += c * np.outer(a, v @ p)
    return slopes


def word_flow(system, start):
    """The flow of all weights, compiled: velocity(log-time, flat) in the clock of the system, and the flat start."""
    import jax
    import jax.numpy as jnp

    from saddlescope.core.tree import layout_of, ravel

    layout, clock = layout_of(start.point), system.clock(start.frame)

    @jax.jit
    def slope(flat):
        found = jax.grad(system.training.loss)(layout.unravel(flat), start.frame)
        return -jnp.concatenate([jnp.ravel(leaf) for leaf in found]) / clock

    return lambda inner, flat: np.exp(inner) * np.asarray(slope(flat)), ravel(start.point)
