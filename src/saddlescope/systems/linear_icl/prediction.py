"""What theory says in closed form: fixed points, plateau losses, growth of one head, in-context predictor.

All in the eigenbasis of Λ, with a_d the eigenvalues of E(Λ̂²) (`data.second_moments`). NumPy only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from saddlescope.core.source import source

from .data import Weights


@source("zhang2025", "Eq. (4)", "Eq. (25)", "Eq. (48)")
def learned_gain(eigenvalues: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Coefficient λ_d/a_d of e_d e_dᵀ in Σ v k qᵀ once e_d is learned."""
    return eigenvalues / second


@source("zhang2025", "Eq. (29)")
def fixed_point_loss(eigenvalues: np.ndarray, second: np.ndarray, learned: Iterable[int]) -> float:
    """L(M(S)) = tr Λ − Σ_{d in S} λ_d³/a_d.  S: `learned`, 0-based."""
    lam = eigenvalues
    return float(lam.sum() - sum(lam[d] ** 3 / second[d] for d in learned))


@source("zhang2025", "Eq. (5)", "Eq. (12)")
def plateau_loss(eigenvalues: np.ndarray, second: np.ndarray, count: int) -> float:
    """Loss while exactly the first `count` eigenvectors are fitted, L(M_m)."""
    return fixed_point_loss(eigenvalues, second, range(count))


@source("zhang2025", "Eq. (3)", "Eq. (6)", "Eq. (28)", "Eq. (34)", "Eq. (46)", "Eq. (47)")
def fixed_point(
    eigenvalues: np.ndarray,
    second: np.ndarray,
    learned: Iterable[int],
    heads: int,
    rank: int = 1,
    idle: np.random.Generator | None = None,
) -> Weights:
    """Balanced weights of the population network at M(S), the first eigenvector of S in the first head.

    A head that holds the directions d in G has |v|² = Σ_r |k_r|² (Eq. (50) from vanishing weights), hence
    v = (Σ_G λ_d/a_d)^{1/3} and k_r = q_r = √(λ_d/(a_d v)) e_d: Eq. (6a) for rank one.
    idle: fills the heads without a value by random keys and queries that satisfy (C3), instead of zeros; for
    rank > 1 they satisfy Eq. (49) as a sum, not pair by pair.
    """
    D = len(eigenvalues)
    gain = learned_gain(eigenvalues, second)
    learned = list(learned)
    if len(learned) > heads * rank:
        raise ValueError(
            f"`learned` has {len(learned)} directions, but {heads} heads of rank {rank} hold {heads * rank}"
        )
    value, key, query = np.zeros((heads, 1)), np.zeros((heads, rank, D)), np.zeros((heads, rank, D))
    for head, first in enumerate(range(0, len(learned), rank)):
        group = learned[first : first + rank]
        value[head] = np.cbrt(gain[group].sum())
        for pair, d in enumerate(group):
            key[head, pair, d] = query[head, pair, d] = np.sqrt(gain[d] / value[head, 0])
    if idle is not None:
        outside = np.setdiff1d(np.arange(D), learned)
        for head in range(-(-len(learned) // rank), heads):
            key[head], query[head] = idle.normal(size=(2, rank, D))
            if rank == 1:
                query[head, 0, outside] = 0.0
            elif outside.size:
                omega = eigenvalues[outside] ** 2
                k, q = key[head][:, outside], query[head][:, outside]
                excess = (omega * k[:-1] * q[:-1]).sum()
                query[head, -1, outside] = -excess * k[-1] / (omega * k[-1] ** 2).sum()
    return Weights(value, key, query)


@source("zhang2025", "Eq. (49)", "(C1)", "(C2)", "(C3)")
def fixed_point_conditions(
    weights: Weights, eigenvalues: np.ndarray, second: np.ndarray, learned: Iterable[int]
) -> dict[str, float]:
    """How far population weights are from each condition of M(S); zero means satisfied. (C3) as in Eq. (49).

    For rank one the printed (C3), that k or q lies in the span of S, implies Eq. (49) but is not implied by it.
    """
    learned = list(learned)
    D = len(eigenvalues)
    outside = np.setdiff1d(np.arange(D), learned)
    value, key, query = weights.value[:, 0], weights.key, weights.query
    target = np.zeros((D, D))
    target[learned, learned] = learned_gain(eigenvalues, second)[learned]
    made = np.einsum("h,hri,hrj->ij", value, key, query)
    active = value != 0
    omega = eigenvalues[outside] ** 2
    idle = (omega * key[~active][..., outside] * query[~active][..., outside]).sum((1, 2))
    return {
        "C1": float(np.abs(made - target).max()),
        "C2": float(max(np.abs(w[active][..., outside]).max(initial=0.0) for w in (key, query))),
        "C3": float(np.abs(idle).max(initial=0.0)),
    }


@source("zhang2025", "Eq. (7)", "Eq. (36)", "Eq. (42)")
def aligned_velocity(v: Any, eigenvalue: float, second: float) -> Any:
    """dv/dt of one head whose key and query are v e_d: λ² v² − λ a v⁵."""
    return eigenvalue**2 * v**2 - eigenvalue * second * v**5


@source("zhang2025", "Eq. (37)")
def aligned_time(v: Any, eigenvalue: float, second: float) -> Any:
    """Time, up to a constant, at which the aligned head of Eq. (7) has the value v (0 < v < (λ/a)^{1/3}).

    The printed antiderivative is right; the printed integrand has v² for v⁵ in its second term.
    """
    c = np.cbrt(second / eigenvalue)
    cv = c * np.asarray(v, float)
    logs = np.log((cv**2 + cv + 1) / (1 - cv) ** 2)
    arcs = 2 * np.sqrt(3) * np.arctan((2 * cv + 1) / np.sqrt(3))
    return (c / 6 * (logs - arcs) - c / cv) / eigenvalue**2


@source("zhang2025", "Eq. (38)", "Eq. (43)")
def plateau_duration(eigenvalue: float, value: float) -> float:
    """As printed: 1/(λ² v) for a head with value v at the plateau's beginning.

    It assumes a head aligned from the start. Alignment takes a fixed share of the plateau at every initial scale,
    so the error is a factor of order one that does not vanish; `escape.escape_times` is the repair.
    """
    return 1.0 / (eigenvalue**2 * abs(value))


def strict_saddle_rate(eigenvalues: np.ndarray, second: np.ndarray, learned: Iterable[int]) -> float:
    """Largest growth rate at M(S), one head per direction, other heads zero; zero for S = {1..m}. Ours.

    A head that holds e_d may turn its key by κ and its query by χ towards e_d' outside S. Half the change of the loss
    is then v/2 (A κ² + B χ² − 2 C κ χ) with A = λ_d² a_d'/a_d, B = λ_d λ_d', C = λ_d'², and the rate is the larger
    eigenvalue of −v [[A, −C], [−C, B]]. It is positive iff C² > A B, that is iff λ_d'³/a_d' > λ_d³/a_d, that is iff
    λ_d' > λ_d.
    """
    lam, a = eigenvalues, second
    learned = set(learned)
    rates = [0.0]
    for d in learned:
        value = np.cbrt(lam[d] / a[d])
        for other in set(range(len(lam))) - learned:
            A, B, C = lam[d] ** 2 * a[other] / a[d], lam[d] * lam[other], lam[other] ** 2
            rates.append(float(value * (-(A + B) / 2 + np.hypot((A - B) / 2, C))))
    return max(rates)


@source("zhang2025", "Eq. (8)", "Eq. (10)", "Eq. (11)")
def in_context_prediction(
    correlation: np.ndarray, query: np.ndarray, eigenvalues: np.ndarray, second: np.ndarray, count: int
) -> np.ndarray:
    """ŷ_q of the network at M_m: Σ_{d<=m} (λ_d/a_d) β_d x_d.  β: `correlation` (..., D), x_q: `query` (..., D)."""
    gain = learned_gain(eigenvalues, second)[:count]
    return (gain * correlation[..., :count] * query[..., :count]).sum(-1)
