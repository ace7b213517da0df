"""The exact dynamics on sufficient statistics: cost does not depend on the number of sequences.

Everything the data can tell the network passes through the map T = Σ_h Σ_r v_h ⊗ k_hr ⊗ q_hr and the moments of
the loss, a quadratic in T. Written with what NumPy and jax arrays share, so that every solver can call it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from saddlescope.core.source import source

from .data import Frame, PopulationMoments, SampleMoments, Weights

CLOCK = 2.0
"""The paper flows along −½ ∂L/∂W (below Eq. (2)), so a GD step of rate η advances its time by 2η."""


class View(NamedTuple):
    """The weights and the map T (A, B, D) that they make."""

    value: Any
    key: Any
    query: Any
    map: Any


def attention_map(weights: Weights) -> Any:
    """T_abc = Σ_h Σ_r v_ha k_hrb q_hrc (..., A, B, D); leading axes are a batch, here and below."""
    value, key, query = weights
    *lead, H, R, B = key.shape
    A, D = value.shape[-1], query.shape[-1]
    outer = _value_key(weights).swapaxes(-1, -2)
    return (outer @ query.reshape(*lead, H * R, D)).reshape(*lead, A, B, D)


def _value_key(weights: Weights) -> Any:
    """v_ha k_hrb (..., H R, A B)."""
    value, key, _ = weights
    *lead, H, R, B = key.shape
    outer = value[..., :, None, :, None] * key[..., :, :, None, :]
    return outer.reshape(*lead, H * R, value.shape[-1] * B)


def fold(T: Any) -> Any:
    """Features t (..., F) of T: T_abc + T_bac for a < b, T_aac on the diagonal."""
    rows, columns, _ = _triangle(T.shape[-2])
    both = T[..., rows, columns, :] + T[..., columns, rows, :]
    return (both * np.where(rows == columns, 0.5, 1.0)[:, None]).reshape(*T.shape[:-3], -1)


def unfold(t: Any, dim: int) -> Any:
    """The (..., D+1, D+1, D) tensor, symmetric in its first two axes, whose upper triangle is t."""
    _, _, place = _triangle(dim + 1)
    return t.reshape(*t.shape[:-1], -1, dim)[..., place, :]


def loss_of_map(T: Any, moments: PopulationMoments | SampleMoments) -> Any:
    if isinstance(moments, PopulationMoments):
        M = T[..., 0, :, :]
        curved = moments.left[:, None] * M * moments.right
        return moments.constant + (M * (curved - 2 * moments.linear)).sum((-2, -1))
    t = fold(T)
    return moments.constant + (t * (t @ moments.quadratic - 2 * moments.linear)).sum(-1)


@source("zhang2025", "Eq. (23)", "Eq. (35)", "Eq. (41)")
def residual(T: Any, moments: PopulationMoments | SampleMoments) -> Any:
    """−½ ∂L/∂T (..., A, B, D). On the population, E(β (y_q − ŷ_q) x_qᵀ) = Λ² − E(Λ̂²) M Λ of Eq. (23)."""
    if isinstance(moments, PopulationMoments):
        return moments.linear - moments.left[:, None] * T * moments.right
    return unfold(moments.linear - fold(T) @ moments.quadratic, T.shape[-1])


def shift(moments: PopulationMoments | SampleMoments, T: Any) -> PopulationMoments | SampleMoments:
    """The moments of the problem that remains when the map T is already there: L_shifted(U) = L(T + U)."""
    constant = loss_of_map(T, moments)
    if isinstance(moments, PopulationMoments):
        return moments._replace(constant=constant, linear=residual(T, moments)[0])
    return moments._replace(constant=constant, linear=moments.linear - moments.quadratic @ fold(T))


@source("zhang2025", "Eq. (22)", "Eq. (24)", "Eq. (45)")
def velocity(weights: Weights, moments: PopulationMoments | SampleMoments) -> Weights:
    """Gradient flow of all heads, tau = 1: v' = Σ_r E k q, k' = E v q, q' = E v k with E = −½ ∂L/∂T.

    Eq. (24c) is printed with k qᵀ where q kᵀ is meant.
    """
    return pull_back(residual(attention_map(weights), moments), weights)


def pull_back(E: Any, weights: Weights) -> Weights:
    """Chain rule through T: the pull of a residual E on each factor of every head."""
    value, key, query = weights
    *lead, H, R, B = key.shape
    A, D = value.shape[-1], query.shape[-1]
    flat = E.reshape(*E.shape[:-3], A * B, D)
    by_query = (query.reshape(*lead, H * R, D) @ flat.swapaxes(-1, -2)).reshape(*lead, H, R, A, B)  # Σ_c E_abc q_c
    d_value = (by_query * key[..., :, :, None, :]).sum((-3, -1))
    d_key = (by_query * value[..., :, None, :, None]).sum(-2)
    d_query = (_value_key(weights) @ flat).reshape(*lead, H, R, D)
    return Weights(d_value, d_key, d_query)


def linearized(weights: Weights, moments: PopulationMoments | SampleMoments) -> Callable[[Weights], Weights]:
    """x -> J x for weights x, where J is `jacobian`, at the cost of two velocities. NumPy."""
    value, key, query = weights
    H, R, B = key.shape
    A, D = value.shape[-1], query.shape[-1]
    v, k = value[:, None, :, None], key[:, :, None, :]
    q = query.reshape(H * R, D)
    outer = _value_key(weights)
    E = residual(attention_map(weights), moments).reshape(A * B, D)
    by_query = (q @ E.T).reshape(H, R, A, B)
    still = moments._replace(linear=np.zeros_like(moments.linear))  # its residual is the curvature alone

    def product(x: Weights) -> Weights:
        dv, dk, dq = x.value[:, None, :, None], x.key[:, :, None, :], x.query.reshape(H * R, D)
        d_outer = (dv * k + v * dk).reshape(H * R, A * B)
        dT = d_outer.T @ q + outer.T @ dq
        dE = residual(dT.reshape(A, B, D), still).reshape(A * B, D)
        d_by_query = (dq @ E.T + q @ dE.T).reshape(H, R, A, B)
        return Weights(
            (d_by_query * k + by_query * dk).sum((1, 3)),
            (d_by_query * v + by_query * dv).sum(2),
            (d_outer @ E + outer @ dE).reshape(H, R, D),
        )

    return product


def jacobian(weights: Weights, moments: PopulationMoments | SampleMoments) -> np.ndarray:
    """d velocity / d weights (..., n, n), symmetric: it is −½ the Hessian of the loss. NumPy."""
    value, key, query = weights
    *lead, H, R, B = key.shape
    A, D = value.shape[-1], query.shape[-1]
    nv, nk, nq = H * A, H * R * B, H * R * D

    # How the map T changes with each weight (..., n, A, B, D), and what the loss's curvature in T makes of it.
    change = np.zeros((*lead, nv + nk + nq, A, B, D))
    of_value = change[..., :nv, :, :, :].reshape(*lead, H, A, A, B, D)  # views: filling them fills `change`
    of_key = change[..., nv : nv + nk, :, :, :].reshape(*lead, H, R, B, A, B, D)
    of_query = change[..., nv + nk :, :, :, :].reshape(*lead, H, R, D, A, B, D)
    for a in range(A):
        of_value[..., a, a, :, :] = key.swapaxes(-1, -2) @ query
    for b in range(B):
        of_key[..., b, :, b, :] = value[..., :, None, :, None] * query[..., :, :, None, :]
    for d in range(D):
        of_query[..., d, :, :, d] = value[..., :, None, :, None] * key[..., :, :, None, :]
    if isinstance(moments, PopulationMoments):
        flat = change.reshape(*lead, -1, D * D) * np.sqrt(moments.left[:, None] * moments.right).reshape(-1)
        slope = -(flat @ flat.swapaxes(-1, -2))
    else:
        flat = fold(change)
        slope = -(flat @ moments.quadratic @ flat.swapaxes(-1, -2))

    # How T's second change pulls: pairs of different factors of one head.
    E = residual(attention_map(weights), moments)
    value_key = np.einsum("...abc,...hrc->...hrab", E, query)
    value_query = np.einsum("...abc,...hrb->...hrac", E, key)
    key_query = np.einsum("...abc,...ha->...hbc", E, value)
    for h in range(H):
        v = slice(h * A, (h + 1) * A)
        for r in range(R):
            pair = h * R + r
            k = slice(nv + pair * B, nv + (pair + 1) * B)
            q = slice(nv + nk + pair * D, nv + nk + (pair + 1) * D)
            for rows, columns, block in (
                (v, k, value_key[..., h, r, :, :]),
                (v, q, value_query[..., h, r, :, :]),
                (k, q, key_query[..., h, :, :]),
            ):
                slope[..., rows, columns] += block
                slope[..., columns, rows] += block.swapaxes(-1, -2)
    return slope


@source("zhang2025", "Eq. (44)", "Eq. (50)")
def conserved(weights: Weights) -> Any:
    """|k_r|² − |q_r|² for every pair, and Σ_r |k_r|² − |v|² for every head: kept by the flow of any loss."""
    value, key, query = weights
    keys, queries, values = (key**2).sum(-1), (query**2).sum(-1), (value**2).sum(-1)
    pairs = (keys - queries).reshape(*values.shape[:-1], -1)
    return value.__array_namespace__().concatenate([pairs, keys.sum(-1) - values], axis=-1)


def measure(view: View, frame: Frame) -> dict[str, Any]:
    """Observables of a view; `gain` is the share of each eigenvector that is learned (1 at M_m for d <= m)."""
    D = view.query.shape[-1]
    modes = np.arange(D)
    key = view.key[..., :D]
    learned = view.map[..., -1, modes, modes]
    if view.map.shape[-3] > 1:
        learned = learned + view.map[..., modes, -1, modes]
    squares = (key**2).sum(-2)  # (..., H, D)
    stray = (view.value[..., :-1] ** 2).sum((-2, -1)) + (view.key[..., D:] ** 2).sum((-3, -2, -1))
    found = {
        "value": view.value[..., -1],
        "key": key,
        "query": view.query,
        "gain": learned * frame.second_moments / frame.eigenvalues,
        "alignment": (squares / (squares.sum(-1)[..., None] + np.finfo(float).tiny)) ** 0.5,
        "stray": stray**0.5,
    }
    if frame.moments is not None:
        found["loss"] = loss_of_map(view.map, frame.moments)
    return found


@cache
def _triangle(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows, columns = np.triu_indices(size)
    place = np.zeros((size, size), int)
    place[rows, columns] = place[columns, rows] = np.arange(rows.size)
    return rows, columns, place
