"""Errata whose numbers are known without running anything, and an equation that is right as printed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import saddlescope as ss
from saddlescope.systems.linear_icl import LinearICL
from saddlescope.systems.linear_icl.data import build_frame
from saddlescope.systems.linear_icl.escape import drift_until
from saddlescope.systems.linear_icl.prediction import plateau_duration, plateau_loss
from saddlescope.systems.linear_icl.spec import LinearICLSpec

from ..test_errata import shown

FIG1 = LinearICLSpec(eigenvalues=(0.4, 0.3, 0.2, 0.1), context_length=31, heads=4)

GOLDEN = {
    "fixed_point_count": 5 / 11,  # 1 + 4 + 6 of the 16 subsets have at most two elements
    "repeated_eigenvalues": 1.0,  # u uᵀ with u between e_1 and e_2 is at distance 1 from 0, e_1 e_1ᵀ, e_2 e_2ᵀ and I
    "c3": 1.0,  # with S empty everything is outside the span
    "signs": 2.0,  # k = −q
    "rank_divides": 10 / 24,  # wrong at m = 0, 1, 4, 6 (R=2), 0, 1, 6 (R=3), 0, 1, 2 (R=4)
    "e5": 0.75,  # times scale as λ^-2
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_values(name: str):
    assert shown("linear_icl", name)[0] == pytest.approx(GOLDEN[name], rel=2e-3)


def test_large_n_is_the_loss_that_training_ends_with():
    frame = build_frame(FIG1)
    assert shown("linear_icl", "large_n")[0] == pytest.approx(
        plateau_loss(frame.eigenvalues, frame.second_moments, 4) / 1.0
    )
    assert shown("linear_icl", "large_n")[0] == pytest.approx(1 / 7, rel=0.1)


def test_eq9_own_label_arrives_through_the_skip_connection():
    """∂ŷ_n/∂y_n = 1 + x_nᵀ M x_n/(n−1) with M positive."""
    assert shown("linear_icl", "eq9")[0] > 1


def test_eq38_is_off_by_the_same_factor_at_every_scale():
    """The plateau is homogeneous in the weights: were Eq. (38) a limit, the factor would tend to 1."""
    factors = np.zeros((2, 8))
    for row, scale in enumerate((1e-3, 1e-6)):
        system = LinearICL(replace(FIG1, init_scale=scale))
        for seed in range(8):
            start = system.start(seed)
            leg = drift_until(start.point, np.diag(start.frame.eigenvalues**2), 0.05, 1e4 / scale)
            winner = np.abs(leg.weights.value[:, 0]).argmax()
            time = ss.predict(system, seed).stages[0].time
            assert time is not None
            factors[row, seed] = plateau_duration(0.4, start.point.value[winner, 0]) / time
    assert np.allclose(factors[0], factors[1], rtol=1e-2)
    assert np.median(np.abs(factors[1] - 1)) > 0.3


def test_eq41_is_right_as_printed():
    """λ_d/a_d looks like a slip for λ_i/a_i, but e_dᵀ e_i leaves only d = i of the outer sum."""
    frame = build_frame(FIG1)
    lam, a, e, m = frame.eigenvalues, frame.second_moments, np.eye(4), 2
    printed = sum(
        a[d] * np.outer(e[d], e[d]) @ sum(lam[d] / a[d] * np.outer(e[i], e[i]) for i in range(m)) for d in range(4)
    )
    assert np.allclose(printed @ np.diag(lam), np.diag(np.where(np.arange(4) < m, lam**2, 0)), atol=1e-15)
