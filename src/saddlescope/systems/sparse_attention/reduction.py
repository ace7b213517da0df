"""The regression flow in coordinates in which neither d nor, where they are alike, heads and positions count.

V_k never leaves the span of the features and of V(0), so a few coefficients in an orthonormal basis of it are all
there is to know of a d x d matrix; Gram matrices of features that are not orthogonal enter through their coordinates.
Positions that start alike stay alike, and so do heads: one column or row then stands for them all. Leading axes are a
batch. Written with what NumPy and jax arrays share.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from saddlescope.core.source import source
from saddlescope.core.tree import layout_of

from .data import Frame, State, Weights


class View(NamedTuple):
    """coefficients (..., H, B) of V_k; attention (..., H, columns) s_k of one position in each column; residual
    (..., B, columns) G − P; each in the frame's basis."""

    coefficients: Any
    attention: Any
    residual: Any


def reduce(weights: Weights, frame: Frame, rows: int) -> State:
    """Coordinates in the basis, of one head and one position for all that are alike; rows: heads that are not."""
    d = frame.basis.shape[-1]
    coefficients = weights.values[:rows].reshape(-1, d * d) @ frame.basis.reshape(-1, d * d).T
    return pack(coefficients, weights.logits[:rows, : len(frame.multiplicity)], frame)


def pack(coefficients: Any, logits: Any, frame: Frame) -> State:
    """The state of heads with these coefficients and logits (of one head, at one position)."""
    size = frame.copies**0.5
    return State(size * coefficients, size * frame.multiplicity**0.5 * logits)


def unpack(state: State, frame: Frame) -> tuple[Any, Any]:
    """Inverse of `pack`."""
    size = frame.copies**0.5
    return state.coefficients / size, state.logits / (size * frame.multiplicity**0.5)


def softmax(logits: Any, multiplicity: Any) -> Any:
    """Probability of one position in each column."""
    xp = logits.__array_namespace__()
    grown = xp.exp(logits - logits.max(-1, keepdims=True))
    return grown / (grown * multiplicity).sum(-1, keepdims=True)


def residual(coefficients: Any, attention: Any, frame: Frame) -> Any:
    """R = G − P, of all heads (..., B, columns)."""
    return frame.targets - frame.copies * coefficients.swapaxes(-1, -2) @ attention


def project(s: Any, x: Any, multiplicity: Any) -> Any:
    """Π(s) x = s ∘ (x − ⟨s, x⟩), of Eq. (5)."""
    return s * (x - (multiplicity * s * x).sum(-1, keepdims=True))


@source("yuksel2025", "Proposition 1", "Eq. (5)", "section 3, symmetric flow")
def velocity(state: State, frame: Frame) -> State:
    """V_k' = R s_k, q_k' = Π(s_k) V_kᵀ R, which is s_k' = Π(s_k)² V_kᵀ R of Eq. (5) in the logits.

    With copies = H it is the symmetric flow: R = G − H V ⊗ s.
    """
    n = frame.multiplicity
    c, q = unpack(state, frame)
    s = softmax(q, n)
    R = residual(c, s, frame)
    return pack((n * s) @ R.swapaxes(-1, -2), project(s, c @ R, n), frame)


def linearized(state: State, frame: Frame, apart: bool = False) -> Callable[[State], State]:
    """x -> J x; x may have leading axes. Minus the Hessian of the loss, hence symmetric.

    apart: of differences between heads that start alike. Their sum is zero, and so they leave the residual as it is.
    """
    n = frame.multiplicity
    c, q = unpack(state, frame)
    s = softmax(q, n)
    R = residual(c, s, frame)
    pull = c @ R
    ahead = pull - (n * s * pull).sum(-1, keepdims=True)

    def product(x: State) -> State:
        dc, dq = unpack(x, frame)
        ds = project(s, dq, n)
        dR = (apart - 1) * frame.copies * (dc.swapaxes(-1, -2) @ s + c.swapaxes(-1, -2) @ ds)
        dpull = dc @ R + c @ dR
        back = (n * (ds * pull + s * dpull)).sum(-1, keepdims=True)
        dc = (n * s) @ dR.swapaxes(-1, -2) + (n * ds) @ R.swapaxes(-1, -2)
        return pack(dc, ds * ahead + s * (dpull - back), frame)

    return product


def jacobian(state: State, frame: Frame) -> Any:
    """d velocity / d state, over the ravelled state."""
    layout = layout_of(state)
    columns = linearized(state, frame)(layout.unravel(np.eye(layout.size)))
    xp = columns.logits.__array_namespace__()
    return xp.concat([leaf.reshape(layout.size, -1) for leaf in columns], axis=1).T


def view_state(state: State, frame: Frame, heads: int) -> View:
    c, q = unpack(state, frame)
    s = softmax(q, frame.multiplicity)
    R = residual(c, s, frame)
    if c.shape[-2] != heads:
        xp = c.__array_namespace__()
        c, s = xp.repeat(c, heads, axis=-2), xp.repeat(s, heads, axis=-2)
    return View(c, s, R)


def unlearned(view: View, frame: Frame) -> Any:
    """R_jj / m_j: of every pattern the share that is not learned."""
    xp, h = view.residual.__array_namespace__(), len(frame.strengths)
    return (frame.features * xp.swapaxes(view.residual[..., :, :h], -1, -2)).sum(-1) / frame.strengths


@source("yuksel2025", "Eq. (8)", "Fig. 10")
def measure(view: View, frame: Frame) -> dict[str, Any]:
    """Losses, masses and coefficients by pattern; the last entry of `position` and `feature` is all the others.

    L = ½ |G − P|² falls apart into ½ R_ji² of feature j at position i; with features that are not orthogonal, of the
    part of feature j that is orthogonal to those before it.
    """
    xp = view.residual.__array_namespace__()
    h, n, R = len(frame.strengths), frame.multiplicity, view.residual
    parts = n * R**2 / 2
    spread = view.coefficients - view.coefficients.mean(-2, keepdims=True)
    wander = view.attention - view.attention.mean(-2, keepdims=True)
    apart = xp.maximum((spread**2).sum(-1).max(-1), (n * wander**2).sum(-1).max(-1)) ** 0.5
    return {
        "loss": parts.sum((-1, -2)),
        "residual": unlearned(view, frame),
        "loss_parts": _gather(_gather(parts, h, -1), h, -2),
        "attention": _gather(n * view.attention, h, -1),
        "value": view.coefficients @ frame.features.T,
        "value_norm": (view.coefficients**2).sum(-1) ** 0.5,
        "deviation": apart,
    }


def _gather(parts: Any, kept: int, axis: int) -> Any:
    """The first entries, and the sum of the others."""
    xp = parts.__array_namespace__()
    first, rest = (slice(None, kept), slice(kept, None))
    if axis == -1:
        return xp.concat([parts[..., first], parts[..., rest].sum(-1, keepdims=True)], axis=-1)
    return xp.concat([parts[..., first, :], parts[..., rest, :].sum(-2, keepdims=True)], axis=-2)


def conserved(state: State, frame: Frame) -> Any:
    """Σ_i q_i of every head (of a row that stands for all, √H times it): a softmax does not see it."""
    return (state.logits * frame.multiplicity**0.5).sum(-1)


def tensor_loss(weights: Weights, frame: Frame, positions: int) -> Any:
    """½ |G − P|² of Proposition 1, with all its d x d x T numbers."""
    import jax.numpy as jnp

    h = len(frame.strengths)
    features = jnp.tensordot(frame.features, frame.basis, 1)  # V_j* (h, d, d)
    target = jnp.zeros((*features.shape[1:], positions))
    target = target.at[..., :h].set(jnp.moveaxis(frame.strengths[:, None, None] * features, 0, -1))
    attention = softmax(weights.logits, 1.0)
    return ((target - jnp.tensordot(weights.values, attention, ((0,), (0,)))) ** 2).sum() / 2
