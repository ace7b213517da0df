"""What the regression task draws: features, the basis that the flow lives in, and starts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from saddlescope.core.source import source

from .spec import RegressionSpec


class Weights(NamedTuple):
    """values V_k (H, d, d), logits q_k (H, T)."""

    values: Any
    logits: Any


class State(NamedTuple):
    """coefficients (rows, basis), logits (rows, columns): Euclidean coordinates of what can move.

    Rows are heads; one row that stands for H equal heads is √H times theirs. Columns are positions; a column that
    stands for n equal ones is √n times theirs. In these coordinates the flow is a plain gradient flow.
    """

    coefficients: Any
    logits: Any


class Frame(NamedTuple):
    """basis (B, d, d): orthonormal matrices, the features' span first, then that of V(0).

    features (h, B): V_j* in it.  targets (B, columns): the tensor G.  strengths (h,): m_j*.
    multiplicity (columns,): positions that each column stands for.  copies: heads that each row stands for.
    """

    basis: Any
    features: Any
    targets: Any
    strengths: Any
    multiplicity: Any
    copies: Any


def haar(rng: np.random.Generator, size: int) -> np.ndarray:
    """An orthogonal matrix, uniformly distributed: Q of a normal matrix's QR with R's diagonal positive."""
    q, r = np.linalg.qr(rng.standard_normal((size, size)))
    return q * np.sign(np.diag(r))


@source("yuksel2025", "Assumption 2", "section 3, below Eq. (4)")
def draw_features(spec: RegressionSpec) -> np.ndarray:
    """V_1*, ..., V_h* (h, d, d), each of Frobenius norm 1."""
    rng = np.random.default_rng(spec.data_seed)
    d = spec.dimension
    if spec.features == "orthogonal":
        return np.stack([haar(rng, d) for _ in range(spec.patterns)]) / np.sqrt(d)
    q, _ = np.linalg.qr(rng.standard_normal((d * d, spec.patterns)))
    return q.T.reshape(-1, d, d)


@source("yuksel2025", "Eq. (4)")
def build_frame(spec: RegressionSpec) -> Frame:
    """G = Σ_k m_k* V_k* ⊗ s_k*, s_k* the k-th position, in an orthonormal basis.

    With noise on V(0) the basis has a further direction for each head: the flow never leaves their span.
    """
    features = draw_features(spec).reshape(spec.patterns, -1)
    further = np.random.default_rng((spec.data_seed, 1)).standard_normal((extra_directions(spec), spec.dimension**2))
    basis, triangle = np.linalg.qr(np.concatenate([features, further]).T)
    sign = np.sign(np.diag(triangle))
    coordinates = (sign[:, None] * triangle)[:, : spec.patterns].T
    idle = spec.positions - spec.patterns
    multiplicity = np.ones(spec.positions)
    if spec.lumped and idle:
        multiplicity = np.r_[np.ones(spec.patterns), idle]
    strengths = np.array(spec.strengths)
    targets = np.zeros((basis.shape[1], len(multiplicity)))
    targets[:, : spec.patterns] = (strengths[:, None] * coordinates).T
    return Frame(
        (basis * sign).T.reshape(-1, spec.dimension, spec.dimension),
        coordinates,
        targets,
        strengths,
        multiplicity,
        np.array(float(spec.heads if spec.coupled else 1)),
    )


def extra_directions(spec: RegressionSpec) -> int:
    """Directions of V(0) outside the features' span."""
    return min(spec.rows, spec.dimension**2 - spec.patterns) if spec.value_noise else 0


def initial_weights(spec: RegressionSpec, frame: Frame, seed: int) -> Weights:
    """V_k(0) = c Σ_j V_j* + noise, q_k(0) = noise.

    Entries of V_k(0) are as independent normal ones: along the features they are drawn as such, and the rest of
    all heads, which only its Gram matrix matters of, is turned into fixed directions by a QR factorisation.
    """
    rng = np.random.default_rng(seed)
    rows = spec.rows
    logits = spec.init_noise * rng.standard_normal((rows, spec.positions))
    coefficients = np.tile(spec.init_value * frame.features.sum(0), (rows, 1))
    extra = extra_directions(spec)
    if spec.value_noise:
        coefficients[:, : spec.patterns] += spec.value_noise * rng.standard_normal((rows, spec.patterns))
    if extra:
        rest = rng.standard_normal((spec.dimension**2 - spec.patterns, rows))
        coefficients[:, spec.patterns :] = spec.value_noise * np.linalg.qr(rest)[1].T[:, :extra]
    if spec.lumped and spec.positions > spec.patterns:
        idle = logits[:, spec.patterns :]
        logits[:, spec.patterns :] = np.log(np.exp(idle).mean(1, keepdims=True))
    return spread(spec, frame, coefficients, logits)


def spread(spec: RegressionSpec, frame: Frame, coefficients: np.ndarray, logits: np.ndarray) -> Weights:
    """Weights of all heads from rows that may each stand for several."""
    copies = spec.heads // len(coefficients)
    values = np.tensordot(coefficients, frame.basis, 1)
    return Weights(np.repeat(values, copies, axis=0), np.repeat(logits, copies, axis=0))


def random_weights(spec: RegressionSpec, frame: Frame, seed: int) -> Weights:
    """Of order one, in the span that the flow lives in and with the equalities that its state assumes."""
    rng = np.random.default_rng((seed, 7))
    rows = spec.rows
    logits = rng.standard_normal((rows, spec.positions))
    if spec.lumped:
        logits[:, spec.patterns :] = logits[:, spec.patterns : spec.patterns + 1]
    return spread(spec, frame, rng.standard_normal((rows, len(frame.basis))), logits)
