"""What is known of the regression flow in advance: plateaus, the first stage, the symmetric flow and its end."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from saddlescope.core.source import source
from saddlescope.core.tree import layout_of, ravel

from . import reduction
from .data import Frame, State, build_frame
from .spec import RegressionSpec

LONGEST = 1e6
"""End of the time in which the first stage is looked for, and of runs that do not arrive."""


@source("yuksel2025", "section 3", "Fig. 10")
def plateau_losses(spec: RegressionSpec) -> list[float]:
    """L_k = ½ Σ_{j>k} m_j², after k patterns, 0 to min(H, h).

    G has the singular values m_j* where features are orthonormal: by Eckart and Young k heads cannot do better, and
    k heads that each attend to one position do it.
    """
    squares = np.array(spec.strengths)[list(spec.by_importance)] ** 2
    return [float(squares[k:].sum() / 2) for k in range(min(spec.heads, spec.patterns) + 1)]


@source("yuksel2025", "Eq. (6)")
def printed_order(overlap: np.ndarray, attention: np.ndarray) -> bool:
    """⟨V, V_1*⟩ ≥ ⟨V, V_j*⟩ and s_1 ≥ s_j for all j: what Theorem 1 asks of a start, and not enough.

    overlap: ⟨V, V_j*⟩.  attention: s_j, both of the h patterns.
    """
    return bool(overlap[0] >= overlap.max() and attention[0] >= attention.max())


def lasting_order(overlap: np.ndarray, attention: np.ndarray, strengths: np.ndarray) -> bool:
    """m_1 ⟨V, V_1*⟩ ≥ m_j ⟨V, V_j*⟩ and s_1 ≥ s_j for all j, which the symmetric flow keeps.

    w = m_1 ⟨V, V_1*⟩ − m_j ⟨V, V_j*⟩ has w' = m_1² s_1 − m_j² s_j − H |s|² w, which is not negative where w = 0, and
    where s_1 = s_j the logits part at the rate s_1 w. Eq. (6) with ⟨V, V_1*⟩ ≥ 0 is a special case.
    """
    return printed_order(strengths * overlap, attention)


def mean_head(state: State, frame: Frame) -> tuple[np.ndarray, np.ndarray]:
    """⟨V, V_j*⟩ and s_j of the patterns, for the mean of all heads' values and logits."""
    coefficients, logits = (part.mean(0) for part in reduction.unpack(state, frame))
    attention = reduction.softmax(logits, frame.multiplicity)
    return frame.features @ coefficients, attention[: len(frame.strengths)]


def first_stage(spec: RegressionSpec, state: State, frame: Frame) -> float | None:
    """When the most important pattern is half learned if all heads start at their mean and so stay together.

    Exact as heads start closer to each other; None where the time of one million does not suffice.
    """
    from saddlescope.numerics.integrate import integrate

    symmetric = frame._replace(copies=np.array(float(spec.heads)))
    coefficients, logits = reduction.unpack(state, frame)
    mean = reduction.pack(coefficients.mean(0, keepdims=True), logits.mean(0, keepdims=True), symmetric)
    place, fold = spec.by_importance[0], layout_of(mean).unravel

    def gap(flat: np.ndarray) -> np.ndarray:
        view = reduction.view_state(fold(flat), symmetric, spec.heads)
        return np.atleast_1d(reduction.unlearned(view, symmetric)[place] - 0.5)

    path = integrate(
        lambda _, flat: ravel(reduction.velocity(fold(flat), symmetric)),
        ravel(mean),
        0.0,
        LONGEST,
        jacobian=lambda _, flat: reduction.jacobian(fold(flat), symmetric),
        watch=gap,
        stop=lambda _, flat: gap(flat)[0] <= 0,
    )
    return path.crossings[0][0] if path.crossings else None


# ---- the symmetric flow


@source("yuksel2025", "Theorem 1")
def approach_constant(positions: int, heads: int) -> float:
    """(L − L_1) t as t -> ∞: H (T − 1) / (4 T).

    A power law: near the vertex s_1 = 1 only s_i² = H / (2 T (m_1² − m_i²) t) is left of position i, and each of the
    T − 1 adds H / (4 T t) to the loss, whatever its strength.
    """
    return heads * (positions - 1) / (4 * positions)


@source("yuksel2025", "Remark 1", "section D.1")
def early_growth(strengths: np.ndarray, positions: int) -> tuple[np.ndarray, np.ndarray]:
    """c_j'(0) = m_j/T and s_j''(0) = (m_j² − Σ m²/T)/T³, from V = 0 and s = 1/T: the strongest pattern leads."""
    m, T = strengths, positions
    return m / T, (m**2 - (m**2).sum() / T) / T**3


@source("yuksel2025", "Theorem 2")
def competition_slope(spec: RegressionSpec) -> float:
    """d√t_2 / d log(1/ε): the heads part at t_2 ~ T (m_1² − m_2²) / (4 H m_2²) log²(1/ε).

    On the first plateau what is left of s_2 is u/√t, u² = H / (2 T (m_1² − m_2²)); deviations of a head grow at the
    rate √2 m_2 s_2, that is as exp(2√2 m_2 u √t), until they are of order one.

    It is a limit that is hardly ever reached: positions forget what they had when the plateau began as t^(-1/T) only.
    `parting_exponent` takes s_2 as it is.
    """
    first, second = np.array(spec.strengths)[list(spec.by_importance)][:2]
    return float(np.sqrt(spec.positions * (first**2 - second**2) / (4 * spec.heads * second**2)))


@lru_cache(maxsize=16)
def parting_exponent(spec: RegressionSpec, end: float) -> tuple[np.ndarray, np.ndarray]:
    """(time, log of the size to which small differences between heads have grown) along the symmetric flow.

    From V = 0 and s = 1/T. Heads part when this has grown by log(1/ε) and a constant. To leading order on the plateau
    δc_2' = m_2 s_2 δ(q_2 − q_1) and δ(q_2 − q_1)' = 2 m_2 s_2 δc_2: it grows at the rate √2 m_2 s_2.
    """
    from saddlescope.numerics.integrate import integrate

    alone = spec.replace(
        coupled=True, lumped=True, init_noise=0.0, value_noise=0.0, init_value=0.0, features="orthonormal"
    )
    frame = build_frame(alone)
    origin = State(np.zeros((1, len(frame.basis))), np.zeros((1, len(frame.multiplicity))))
    layout = layout_of(origin)

    def velocity(_: float, flat: np.ndarray) -> np.ndarray:
        state, difference = (layout.unravel(half) for half in np.split(flat, 2))
        moved = reduction.linearized(state, frame, apart=True)(difference)
        return np.concatenate([ravel(reduction.velocity(state, frame)), ravel(moved)])

    apart = origin._replace(logits=np.eye(1, len(frame.multiplicity), spec.by_importance[1]))
    path = integrate(velocity, np.concatenate([ravel(origin), ravel(apart)]), 0.0, end, rtol=1e-8)
    return path.time, np.log(np.linalg.norm(path.state[:, layout.size :], axis=1))
