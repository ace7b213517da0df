"""The exact dynamics on sufficient statistics: cost does not depend on the number of sequences.

Everything the data can tell the network passes through the map T = Σ_h Σ_r v_h ⊗ k_hr ⊗ q_hr and the moments of
the loss, a quadratic in T. Written with what NumPy and jax arrays share, so that every solver can call it.
"""

from __future__ import annotations

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
    """T_abc = Σ_h Σ_r v_ha k_hrb q_hrc."""
    value, key, query = weights
    H, R, B = key.shape
    A, D = value.shape[-1], query.shape[-1]
    spread = (value[:, None, :, None] * key[:, :, None, :]).reshape(H * R, A * B)
    return (spread.T @ query.reshape(H * R, D)).reshape(A, B, D)


def fold(T: Any, xp: Any) -> Any:
    """Features t of T: T_abc + T_bac for a < b, T_aac on the diagonal."""
    rows, columns, _ = _triangle(T.shape[0])
    twice = T + xp.swapaxes(T, 0, 1)
    return (twice[rows, columns] * np.where(rows == columns, 0.5, 1.0)[:, None]).reshape(-1)


def unfold(t: Any, dim: int) -> Any:
    """The (D+1, D+1, D) tensor, symmetric in its first two axes, whose upper triangle is t."""
    _, _, place = _triangle(dim + 1)
    return t.reshape(-1, dim)[place]


def loss_of_map(T: Any, moments: PopulationMoments | SampleMoments) -> Any:
    if isinstance(moments, PopulationMoments):
        M = T[0]
        diagonal = M.diagonal()
        return (
            moments.constant
            - 2 * (moments.linear * diagonal).sum()
            + (moments.left[:, None] * M**2 * moments.right).sum()
        )
    t = fold(T, _namespace(T))
    return moments.constant - 2 * moments.linear @ t + t @ (moments.quadratic @ t)


def residual(T: Any, moments: PopulationMoments | SampleMoments) -> Any:
    """−½ ∂L/∂T (A, B, D). On the population, E(β (y_q − ŷ_q) x_qᵀ) = Λ² − E(Λ̂²) M Λ of Eq. (23)."""
    if isinstance(moments, PopulationMoments):
        linear = np.eye(moments.linear.shape[0]) * moments.linear
        return (linear - moments.left[:, None] * T[0] * moments.right)[None]
    t = fold(T, _namespace(T))
    return unfold(moments.linear - moments.quadratic @ t, T.shape[-1])


def shift(moments: PopulationMoments | SampleMoments, T: Any) -> PopulationMoments | SampleMoments:
    """The moments of the problem that remains when the map T is already there: L_shifted(U) = L(T + U).

    On the population T must be diagonal, as it is at every M_m.
    """
    constant = loss_of_map(T, moments)
    if isinstance(moments, PopulationMoments):
        linear = moments.linear - moments.left * T[0].diagonal() * moments.right
        return moments._replace(constant=constant, linear=linear)
    return moments._replace(constant=constant, linear=moments.linear - moments.quadratic @ fold(T, np))


@source("zhang2025", "Eq. (22)", "Eq. (24)", "Eq. (45)")
def velocity(weights: Weights, moments: PopulationMoments | SampleMoments) -> Weights:
    """Gradient flow of all heads, tau = 1: v' = Σ_r E k q, k' = E v q, q' = E v k with E = −½ ∂L/∂T.

    Eq. (24c) is printed with k qᵀ where q kᵀ is meant.
    """
    E = residual(attention_map(weights), moments)
    return pull_back(E, weights)


def pull_back(E: Any, weights: Weights) -> Weights:
    """Chain rule through T: the pull of a residual E on each factor of every head."""
    value, key, query = weights
    H, R, B = key.shape
    A, D = value.shape[-1], query.shape[-1]
    by_query = (query.reshape(H * R, D) @ E.reshape(A * B, D).T).reshape(H, R, A, B)  # Σ_c E_abc q_c
    d_value = (by_query * key[:, :, None, :]).sum((1, 3))
    d_key = (by_query * value[:, None, :, None]).sum(2)
    outer = (value[:, None, :, None] * key[:, :, None, :]).reshape(H * R, A * B)
    d_query = (outer @ E.reshape(A * B, D)).reshape(H, R, D)
    return Weights(d_value, d_key, d_query)


def jacobian(weights: Weights, moments: PopulationMoments | SampleMoments) -> np.ndarray:
    """d velocity / d weights (n, n), symmetric: it is −½ the Hessian of the loss. NumPy."""
    value, key, query = weights
    H, R, B = key.shape
    A, D = value.shape[-1], query.shape[-1]
    T = attention_map(weights)
    E = residual(T, moments)
    # dT: (n, A, B, D), the change of the map with each weight.
    eye_a, eye_b, eye_d = np.eye(A), np.eye(B), np.eye(D)
    d_value = np.einsum("ax,hrb,hrc->haxbc", eye_a, key, query)
    d_key = np.einsum("hx,yb,hrc->hryxbc", value, eye_b, query)
    d_query = np.einsum("hx,hrb,yc->hryxbc", value, key, eye_d)
    dT = np.concatenate([d.reshape(-1, A, B, D) for d in (d_value, d_key, d_query)])
    if isinstance(moments, PopulationMoments):
        flat = dT.reshape(-1, D * D) * np.sqrt(moments.left[:, None] * moments.right).reshape(-1)
        bend = flat @ flat.T
    else:
        rows, columns, _ = _triangle(A)
        twice = dT[:, rows, columns] + dT[:, columns, rows]
        flat = (twice * np.where(rows == columns, 0.5, 1.0)[:, None]).reshape(len(dT), -1)
        bend = flat @ moments.quadratic @ flat.T
    pull = np.zeros_like(bend)
    nv, nk = value.size, key.size
    v = np.arange(nv).reshape(H, A)
    k = nv + np.arange(nk).reshape(H, R, B)
    q = nv + nk + np.arange(query.size).reshape(H, R, D)
    by_query = np.einsum("abc,hrc->hrab", E, query)
    by_key = np.einsum("abc,hrb->hrac", E, key)
    by_value = np.einsum("abc,ha->hbc", E, value)
    for h in range(H):
        for r in range(R):
            pull[np.ix_(v[h], k[h, r])] = by_query[h, r]
            pull[np.ix_(v[h], q[h, r])] = by_key[h, r]
            pull[np.ix_(k[h, r], q[h, r])] = by_value[h]
    return pull + pull.T - bend


@source("zhang2025", "Eq. (44)", "Eq. (50)")
def conserved(weights: Weights) -> Any:
    """|k_r|² − |q_r|² for every pair, and Σ_r |k_r|² − |v|² for every head: kept by the flow of any loss."""
    value, key, query = weights
    xp = _namespace(value)
    keys, queries, values = (key**2).sum(-1), (query**2).sum(-1), (value**2).sum(-1)
    return xp.concatenate([(keys - queries).reshape(-1), keys.sum(-1) - values])


def measure(view: View, frame: Frame) -> dict[str, Any]:
    """Observables of a view; `gain` is the share of each eigenvector that is learned (1 at M_m for d <= m)."""
    D = view.query.shape[-1]
    key = view.key[..., :D]
    learned = view.map[-1, :D]
    if view.map.shape[0] > 1:
        learned = learned + view.map[:D, -1]
    length = (key**2).sum((1, 2)) ** 0.5
    floor = np.finfo(float).tiny
    found = {
        "value": view.value[:, -1],
        "key": key,
        "query": view.query,
        "gain": learned.diagonal() * frame.second_moments / frame.eigenvalues,
        "alignment": (key**2).sum(1) ** 0.5 / (length + floor)[:, None],
        "stray": ((view.value[:, :-1] ** 2).sum() + (view.key[..., D:] ** 2).sum()) ** 0.5,
    }
    if frame.moments is not None:
        found["loss"] = loss_of_map(view.map, frame.moments)
    return found


def _namespace(array: Any) -> Any:
    if isinstance(array, np.ndarray):
        return np
    import jax.numpy as jnp

    return jnp


@cache
def _triangle(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows, columns = np.triu_indices(size)
    place = np.zeros((size, size), int)
    place[rows, columns] = place[columns, rows] = np.arange(rows.size)
    return rows, columns, place
