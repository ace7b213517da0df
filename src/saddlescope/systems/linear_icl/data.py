"""Sequences of the in-context regression task, their sufficient statistics, and the initial weights. NumPy only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from saddlescope.core.source import source

from .spec import LinearICLSpec

CHUNK = 1000
"""Sequences drawn at a time: the stream, and so the first P sequences, do not depend on P."""


class Weights(NamedTuple):
    """value (H, A), key (H, R, B), query (H, R, D): rows of W^V, W^K, W^Q that reach the prediction.

    Population: A=1, B=D, the model of Eq. (2), whose other blocks are zero and stay zero (E.1).
    Finite P: A=B=D+1, token space last coordinate the label, whose zero blocks do leave zero.
    """

    value: Any
    key: Any
    query: Any


class Sequences(NamedTuple):
    """x (P, N+1, D), y (P, N+1); the last token is the query and its label the target."""

    x: Any
    y: Any


class PopulationMoments(NamedTuple):
    """L(T) = constant − 2 Σ_ij linear_ij T_ij + Σ_ij left_i T_ij² right_j over T = Σ v k qᵀ (D x D).

    linear = Λ², left_i right_j = a_i λ_j (Eq. (23)).
    """

    constant: np.ndarray
    linear: np.ndarray
    left: np.ndarray
    right: np.ndarray


class SampleMoments(NamedTuple):
    """L(t) = constant − 2 linear·t + tᵀ quadratic t over the symmetrised features t of the map (see `fold`)."""

    constant: np.ndarray
    linear: np.ndarray
    quadratic: np.ndarray


class Frame(NamedTuple):
    """eigenvalues λ_d of Λ, second_moments a_d of E(Λ̂²); moments of the loss (none for softmax attention); sequences
    where training reads them.
    """

    eigenvalues: np.ndarray
    second_moments: np.ndarray
    moments: Any
    sequences: Sequences | None


@source("zhang2025", "Eq. (16)", "Eq. (17)", "Eq. (18)", "Eq. (19)")
def second_moments(eigenvalues: np.ndarray, inverse_length: float) -> np.ndarray:
    """Eigenvalues a_d of E(Λ̂²): a_d = λ_d² + E(1/N) (λ_d + tr Λ) λ_d."""
    lam = np.asarray(eigenvalues, float)
    return lam**2 + inverse_length * (lam + lam.sum()) * lam


@source("zhang2025", "Eq. (20)")
def initial_weights(spec: LinearICLSpec, seed: int) -> Weights:
    """v ~ N(0, w²/H); k, q ~ N(0, w²/(H R D)) per entry; the other blocks start at zero."""
    rng = np.random.default_rng(seed)
    H, R, D, w = spec.heads, spec.rank, spec.dim, spec.init_scale
    value = rng.normal(0.0, w / np.sqrt(H), (H, 1))
    key = rng.normal(0.0, w / np.sqrt(H * R * D), (H, R, D))
    query = rng.normal(0.0, w / np.sqrt(H * R * D), (H, R, D))
    if spec.sequences is None:
        return Weights(value, key, query)
    return Weights(np.pad(value, ((0, 0), (D, 0))), np.pad(key, ((0, 0), (0, 0), (0, 1))), query)


def population_moments(eigenvalues: np.ndarray, second: np.ndarray) -> PopulationMoments:
    lam = np.asarray(eigenvalues, float)
    return PopulationMoments(np.array(lam.sum()), np.diag(lam**2), second, lam)


def draw_chunks(spec: LinearICLSpec) -> Iterator[Sequences]:
    """The training set, in order, at most `CHUNK` sequences at a time."""
    assert spec.sequences is not None
    rng = np.random.default_rng((spec.data_seed, 1))
    scale = np.sqrt(np.array(spec.eigenvalues))
    for first in range(0, spec.sequences, CHUNK):
        x = rng.standard_normal((CHUNK, spec.context_length + 1, spec.dim)) * scale
        task = rng.standard_normal((CHUNK, spec.dim))
        keep = min(CHUNK, spec.sequences - first)
        x, y = x[:keep], np.einsum("pnd,pd->pn", x[:keep], task[:keep])
        yield Sequences(np.concatenate([x, x]), np.concatenate([y, -y])) if spec.mirrored else Sequences(x, y)


def draw_sequences(spec: LinearICLSpec) -> Sequences:
    chunks = list(draw_chunks(spec))
    return Sequences(*(np.concatenate(parts) for parts in zip(*chunks, strict=True)))


@source("zhang2025", "Eq. (14)")
def contexts(sequences: Sequences, objective: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """XXᵀ/N (S, D+1, D+1), query (S, D) and target (S,) of every prediction that the objective asks for.

    The query token takes part in XXᵀ with its label hidden. For next_token the prediction of y_{n+1} sees the
    first n pairs and x_{n+1} alone: as printed, Eq. (9) would also show it its own label.
    """
    x, y = sequences
    length = x.shape[1] - 1
    tokens = np.concatenate([x, y[..., None]], axis=-1)  # (P, N+1, D+1)
    hidden = np.concatenate([x, np.zeros_like(y)[..., None]], axis=-1)
    if objective == "last_token":
        seen = tokens[:, :-1]
        gram = np.swapaxes(seen, 1, 2) @ seen + hidden[:, -1, :, None] * hidden[:, -1, None, :]
        return gram / length, x[:, -1], y[:, -1]
    outer = np.cumsum(tokens[:, :-1, :, None] * tokens[:, :-1, None, :], axis=1)  # (P, N, D+1, D+1)
    gram = outer + hidden[:, 1:, :, None] * hidden[:, 1:, None, :]
    gram = gram / np.arange(1, length + 1)[:, None, None]
    flat = gram.reshape(-1, *gram.shape[2:])
    return flat, x[:, 1:].reshape(-1, x.shape[-1]), y[:, 1:].reshape(-1)


def sample_moments(spec: LinearICLSpec) -> SampleMoments:
    """Everything that the loss of linear attention knows of P sequences: (D+1)(D+2)/2 · D features.

    ŷ = Σ_abc T_abc (XXᵀ/N)_ab x_c is linear in T and sees only its part symmetric in (a, b), so the features are
    the products of the upper triangle of XXᵀ/N with the query.
    """
    rows, columns = np.triu_indices(spec.dim + 1)
    size = rows.size * spec.dim
    constant, linear, quadratic, count = 0.0, np.zeros(size), np.zeros((size, size)), 0
    for chunk in draw_chunks(spec):
        gram, query, target = contexts(chunk, spec.objective)
        features = (gram[:, rows, columns, None] * query[:, None, :]).reshape(-1, size)
        constant += target @ target
        linear += features.T @ target
        quadratic += features.T @ features
        count += target.size
    return SampleMoments(np.array(constant / count), linear / count, quadratic / count)


def build_frame(spec: LinearICLSpec, with_moments: bool = True) -> Frame:
    """What does not move. Sequences are kept only where training reads them."""
    lam = np.array(spec.eigenvalues)
    second = second_moments(lam, spec.inverse_length)
    if spec.sequences is None:
        return Frame(lam, second, population_moments(lam, second) if with_moments else None, None)
    reads_sequences = not spec.statistics or not with_moments or (spec.batch_size and not spec.fresh_data)
    return Frame(
        lam,
        second,
        sample_moments(spec) if with_moments else None,
        draw_sequences(spec) if reads_sequences else None,
    )
