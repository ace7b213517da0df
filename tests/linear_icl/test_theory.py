"""Closed forms of zhang2025: analytic values first, then against the loss and the flow."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp

from saddlescope.core.registry import system
from saddlescope.core.tree import layout_of, ravel
from saddlescope.lab.sources import equation_table
from saddlescope.systems.linear_icl import data, escape, network, prediction, reduction
from saddlescope.systems.linear_icl.data import Weights

LAM = np.array([0.4, 0.3, 0.2, 0.1])
SECOND = data.second_moments(LAM, 1 / 31)
MOMENTS = data.population_moments(LAM, SECOND)
SUBSETS = [subset for size in range(5) for subset in itertools.combinations(range(4), size)]


def loss_of(weights):
    return reduction.loss_of_map(reduction.attention_map(weights), MOMENTS)


def largest_gradient(weights):
    return max(np.abs(part).max() for part in reduction.velocity(weights, MOMENTS))


def test_every_numbered_equation_has_its_function():
    """(1) to (51), and the condition of Appendix C."""
    table = equation_table(type(system("linear_icl")))
    assert [name for name in ("(C3)", *(f"Eq. ({number})" for number in range(1, 52))) if name not in table] == []


def test_plateau_losses_of_one_dimension_by_hand():
    # D=1, λ=1, N=1: a = 1 + (1 + 1) = 3, so L(M_1) = 1 − 1/3.
    second = data.second_moments(np.array([1.0]), 1.0)
    assert second == pytest.approx([3.0])
    assert prediction.plateau_loss(np.array([1.0]), second, 0) == 1.0
    assert prediction.plateau_loss(np.array([1.0]), second, 1) == pytest.approx(2 / 3, abs=1e-15)


def test_plateau_losses_as_printed():
    """Eq. (5) written as in the paper, for every m."""
    for count in range(5):
        printed = 1.0 - sum(lam / (1 + (1 + 1.0 / lam) / 31) for lam in LAM[:count])
        assert prediction.plateau_loss(LAM, SECOND, count) == pytest.approx(printed, abs=1e-15)


def test_plateau_losses_of_next_token_contexts():
    second = data.second_moments(LAM, system("linear_icl/next_token").spec.inverse_length)
    found = [prediction.plateau_loss(LAM, second, count) for count in range(5)]
    assert found == pytest.approx([1, 0.725, 0.533, 0.421, 0.380], abs=5e-4)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("subset", SUBSETS, ids=str)
def test_all_fixed_points_are_stationary(subset, rank):
    """Gradient at rounding, loss of Eq. (29), conditions met: also with idle heads that are not zero."""
    for idle in (None, np.random.default_rng(3)):
        weights = prediction.fixed_point(LAM, SECOND, subset, heads=5, rank=rank, idle=idle)
        assert largest_gradient(weights) <= 1e-13
        assert loss_of(weights) == pytest.approx(prediction.fixed_point_loss(LAM, SECOND, subset), abs=1e-14)
        found = prediction.fixed_point_conditions(weights, LAM, SECOND, subset)
        assert max(found.values()) <= 1e-13
        if idle is not None and len(subset) < 4:
            assert np.abs(weights.key[-1]).max() > 0.1


def test_idle_pairs_satisfy_the_condition_as_a_sum_only():
    """Rank 2: Eq. (49) holds by cancellation between pairs, none of which would satisfy it alone."""
    weights = prediction.fixed_point(LAM, SECOND, (0,), heads=3, rank=2, idle=np.random.default_rng(0))
    pairs = (LAM[1:] ** 2 * weights.key[-1][:, 1:] * weights.query[-1][:, 1:]).sum(-1)
    assert np.abs(pairs).min() > 1e-3 and abs(pairs.sum()) < 1e-15


def test_fixed_points_are_sixteen_different_functions():
    maps = [reduction.attention_map(prediction.fixed_point(LAM, SECOND, subset, heads=4)) for subset in SUBSETS]
    gaps = [np.abs(one - other).max() for one, other in itertools.combinations(maps, 2)]
    assert len(maps) == 16 and min(gaps) > 0.1


def test_printed_c3_is_sufficient_but_not_necessary():
    """k = (1,1,0,0), q = (1/λ1², −1/λ2², 0, 0), v = 0 is stationary although neither lies in the empty span."""
    key, query = np.zeros((2, 1, 1, 4))
    key[0, 0, :2] = 1.0
    query[0, 0, :2] = 1 / LAM[0] ** 2, -1 / LAM[1] ** 2
    weights = Weights(np.zeros((1, 1)), key, query)
    assert largest_gradient(weights) < 1e-14
    assert prediction.fixed_point_conditions(weights, LAM, SECOND, ())["C3"] < 1e-14


def test_conditions_notice_what_is_wrong():
    good = prediction.fixed_point(LAM, SECOND, (0, 1), heads=3)
    assert prediction.fixed_point_conditions(good, LAM, SECOND, (0, 2))["C1"] > 0.1
    tilted = good._replace(key=good.key + 0.1)
    assert prediction.fixed_point_conditions(tilted, LAM, SECOND, (0, 1))["C2"] > 0.05


def test_rank_limits_what_heads_can_hold():
    with pytest.raises(ValueError, match="hold 2"):
        prediction.fixed_point(LAM, SECOND, (0, 1, 2), heads=2)


def test_closed_form_time_is_the_integral_of_the_scalar_equation():
    """Eq. (37) against quadrature of Eq. (7), and its slope against 1/velocity."""
    for lam, a in zip(LAM, SECOND, strict=True):
        end = np.cbrt(lam / a)
        low, high = 0.01 * end, 0.999 * end
        expected, _ = quad(
            lambda v, lam=lam, a=a: 1 / prediction.aligned_velocity(v, lam, a), low, high, epsabs=0, epsrel=1e-12
        )
        found = prediction.aligned_time(high, lam, a) - prediction.aligned_time(low, lam, a)
        assert found == pytest.approx(expected, rel=1e-10)


def test_aligned_head_follows_the_scalar_equation():
    """With k = q = v e_d the full flow of Eq. (24) keeps this form, and v obeys Eq. (7)."""
    v = 0.3
    key = np.zeros((1, 1, 4))
    key[0, 0, 2] = v
    moved = reduction.velocity(Weights(np.array([[v]]), key, key.copy()), MOMENTS)
    expected = prediction.aligned_velocity(v, LAM[2], SECOND[2])
    assert moved.value[0, 0] == pytest.approx(expected, rel=1e-14)
    assert moved.key[0, 0] == pytest.approx(expected * np.eye(4)[2], rel=1e-14)


def test_drift_is_the_exact_early_solution():
    """One scalar per head against the decoupled vector equations (39), through a change of sign of v."""
    rng = np.random.default_rng(4)
    weights = Weights(*(1e-3 * rng.normal(size=shape) for shape in ((6, 1), (6, 2, 4), (6, 2, 4))))
    weights.key[0] = -weights.query[0]  # pulls v down: a head that starts above zero has to turn
    weights.value[0] = 1e-4
    pull = np.diag(LAM**2)
    leg = escape.drift_until(weights, pull, 0.05, 1e9)
    assert leg.arrived and leg.weights.value[0] < 0
    layout = layout_of(weights)
    by_hand = solve_ivp(
        lambda _, flat: ravel(reduction.pull_back(pull[None], layout.unravel(flat))),
        (0, leg.duration),
        ravel(weights),
        method="DOP853",
        rtol=1e-12,
        atol=1e-16,
    )
    # 1e-6 of the largest: blow-up amplifies the drift's own tolerance of 1e-10 by the factor 50 it grew.
    assert np.abs(by_hand.y[:, -1] - ravel(leg.weights)).max() < 1e-6 * 0.05


def test_time_of_a_drift_is_the_integral_of_one_over_speed():
    """t = ∫ ds/|v| with v² from energy conservation, for a head that does not turn."""
    plus, minus = np.full((1, 1, 4), 2e-3), np.full((1, 1, 4), 1e-3)
    drift = escape.Drift(np.array([1e-3]), plus, minus, LAM**2)
    path = solve_ivp(lambda _, y: [y[1], drift.force(y[:1])[0]], (0, 2e3), [0, 1e-3], rtol=1e-12, atol=1e-16)
    s, v = path.y[:, -1]
    assert drift.speed_squared(np.array([s]))[0] == pytest.approx(v**2, rel=1e-9)
    time, _ = quad(lambda x: 1 / np.sqrt(drift.speed_squared(np.array([x]))[0]), 0, s, epsabs=0, epsrel=1e-11)
    assert time == pytest.approx(2e3, rel=1e-8)


def test_in_context_prediction_is_the_network_at_a_fixed_point():
    """Eq. (8) on fresh prompts against the network that reads their tokens."""
    spec = system("linear_icl", sequences=50).spec
    sequences = data.draw_sequences(spec)
    x, y = sequences
    correlation = np.einsum("pn,pnd->pd", y[:, :-1], x[:, :-1]) / 31
    for count in range(5):
        weights = prediction.fixed_point(LAM, SECOND, range(count), heads=4)
        expected = prediction.in_context_prediction(correlation, x[:, -1], LAM, SECOND, count)
        assert np.asarray(network.predict_last(weights, sequences)) == pytest.approx(expected, abs=1e-13)
