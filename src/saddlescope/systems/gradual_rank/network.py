"""Networks h(x; p) of the form of Definition 3.1, and the objective L(p) with its derivatives, compiled once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from saddlescope.core import precision  # noqa: F401  (64 bits before the first trace)
from saddlescope.core.source import source

from .data import Frame, Samples

PAPER = "boix2023"


@source(PAPER, "Eq. (1)")
def head(tokens: Any, product: Any) -> Any:
    """Attention with diagonal weights, smax(X diag(kq) X^T) X diag(vo), and no 1/sqrt(d).

    tokens: X (N, n, d).  product: (kq, vo), the diagonals of W_K W_Q^T and of W_V W_O^T, one after the other (2d,).
    """
    kq, vo = jnp.split(product, 2)
    scores = jnp.matmul(tokens * kq, jnp.swapaxes(tokens, -1, -2))  # (N, n, n)
    return jnp.matmul(jax.nn.softmax(scores, axis=-1), tokens) * vo


def full_head(tokens: Any, key: Any, query: Any, value: Any, output: Any) -> Any:
    """Eq. (1) with any matrices, (d, d') each."""
    scores = jnp.matmul(tokens @ (key @ query.T), jnp.swapaxes(tokens, -1, -2))
    return jnp.matmul(jax.nn.softmax(scores, axis=-1), tokens) @ (value @ output.T)


@source(PAPER, "Example 3.2")
def transformer(tokens: Any, product: Any, w_a: Any, w_b: Any, activation: Callable[[Any], Any]) -> Any:
    """Layers of heads with residual connections and frozen feed-forward layers.

    tokens: X (N, n, d).  product: (p,), per layer and head (kq, vo).  w_a, w_b: (layers, d, d).
    """
    layers, dim = w_a.shape[:2]
    stream = tokens
    for layer, pairs in enumerate(product.reshape(layers, -1, 2 * dim)):
        stream = stream + sum(head(stream, pair) for pair in pairs)
        stream = stream + activation(stream @ w_a[layer]) @ w_b[layer].T
    return stream


def smooth_transformer(tokens: Any, product: Any, w_a: Any, w_b: Any) -> Any:
    return transformer(tokens, product, w_a, w_b, lambda z: jax.nn.gelu(z, approximate=False))


def relu_transformer(tokens: Any, product: Any, w_a: Any, w_b: Any) -> Any:
    return transformer(tokens, product, w_a, w_b, jax.nn.relu)


TRANSFORMERS = {"gelu": smooth_transformer, "relu": relu_transformer}


@source(PAPER, "footnote 2")
def linear(inputs: Any, product: Any) -> Any:
    """f = sum_i p_i x_i."""
    return inputs @ product


ERRORS: dict[str, Callable[[Any, Any], Any]] = {
    "squared": lambda y, f: (y - f) ** 2 / 2,
    "log_cosh": lambda y, f: jnp.logaddexp(f - y, y - f) - jnp.log(2.0),
    "quartic": lambda y, f: (y - f) ** 4 / 4,
    "logistic": lambda y, f: jax.nn.softplus(-jnp.sign(y) * f),
}


@dataclass(frozen=True)
class Objective:
    """L(p) = E error(y, h(x; p)) + penalty |p|²/2. Equal objectives share their compiled functions."""

    h: Callable[..., Any]
    error: Callable[[Any, Any], Any]
    penalty: float = 0.0

    @source(PAPER, "Eq. (2)", "Definition 3.1")
    def __call__(self, product: Any, frame: Frame, batch: Samples | None = None) -> Any:
        inputs, targets = frame.samples if batch is None else batch
        output = self.h(inputs, product, *frame.frozen)
        return jnp.mean(self.error(targets, output)) + self.penalty * (product**2).sum() / 2

    @source(PAPER, "Eq. (4)")
    def force(self, product: Any, frame: Frame) -> Any:
        """g = −dL/dp: the growth rate of log(u+v)."""
        return -jax.grad(self)(product, frame)


@cache
def compiled_output(h: Callable[..., Any]) -> Callable[..., Any]:
    return jax.jit(h)


@cache
def compiled_loss(objective: Objective) -> Callable[..., Any]:
    return jax.jit(objective)


@cache
def compiled_force(objective: Objective) -> Callable[..., Any]:
    return jax.jit(objective.force)


@cache
def _compiled_columns(objective: Objective) -> Callable[..., Any]:
    @jax.jit
    def columns(product, frame, which, count):
        """Rows which[:count] of the Hessian of L; the others zero. A loop: XLA batches small products badly."""

        def row(place, found):
            unit = jnp.zeros_like(product).at[which[place]].set(1.0)
            slope = jax.jvp(lambda p: objective.force(p, frame), (product,), (unit,))[1]
            return found.at[place].set(-slope)

        return jax.lax.fori_loop(0, count, row, jnp.zeros((len(product), len(product))))

    return columns


def hessian_columns(objective: Objective, product: np.ndarray, frame: Frame, which: np.ndarray) -> np.ndarray:
    """Columns `which` of the Hessian of L at p, (p, len(which))."""
    padded = np.zeros(len(product), int)
    padded[: len(which)] = which
    rows = _compiled_columns(objective)(product, frame, padded, len(which))
    return np.asarray(rows)[: len(which)].T
