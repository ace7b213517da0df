"""The claims of linear_icl lose to errors that a careless author could make, not only to noise."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import saddlescope as ss
from saddlescope.core.claim import Quantifier, judge
from saddlescope.lab.judge import claims_of_one_run
from saddlescope.systems.linear_icl import data
from saddlescope.systems.linear_icl.evidence.claims import CLAIMS
from saddlescope.systems.linear_icl.evidence.measures import common, landscape, sampling

BY_NAME = {claim.name: claim for claim in CLAIMS}


def doubled(eigenvalues, inverse_length):
    """Eq. (18) with twice its term in 1/N."""
    lam = np.asarray(eigenvalues, float)
    return lam**2 + 2 * inverse_length * (lam + lam.sum()) * lam


def verdict(name, run):
    return judge(BY_NAME[name].of_one_run(), [run]).verdict


def assert_refuted(run, *names):
    spoken = {claim.name for claim in claims_of_one_run(run.system, run.face)}
    assert spoken >= set(names)
    assert {name: verdict(name, run) for name in names} == dict.fromkeys(names, "refuted")


def test_wrong_moments_in_the_code_are_noticed(monkeypatch):
    """Flow and prediction share the code's a_d; the claims compare with the printed formulas."""
    monkeypatch.setattr(data, "second_moments", doubled)
    flowed = ss.run(ss.system("linear_icl", init_scale=1e-3), "flow")
    assert_refuted(
        flowed, "plateau_levels", "last_plateau", "learned_gain", "visited_fixed_points", "regression_in_context"
    )
    landed = ss.run("linear_icl", "predict")
    assert_refuted(landed, "fixed_points", "fixed_point_losses", "global_minimum")
    second = dataclasses.replace(BY_NAME["second_moments"], seeds=Quantifier(together=True))
    assert judge(second, [landed]).verdict == "refuted"


def test_wrong_theory_is_noticed_on_data(monkeypatch):
    """On sequences the flow knows nothing of Eq. (18)."""
    run = ss.run(ss.system("linear_icl", sequences=5000, init_scale=0.1), "flow")
    assert verdict("levels_on_sequences", run) == "supported"
    gap = sampling.gradient_gap(run)
    true = common.theory_of(run)
    wrong = common.Theory(true.eigenvalues, doubled(true.eigenvalues, 1 / 31))
    for module in (common, sampling):
        monkeypatch.setattr(module, "theory_of", lambda _: wrong)
    assert verdict("levels_on_sequences", run) == "refuted"
    # 5000 sequences know the mean square to some thousandths; a wrong a_d adds a hundredth, whatever their number.
    assert sampling.gradient_gap(run) > 3 * gap


def test_a_drop_that_never_comes_is_a_refutation():
    """A run long enough that stays on the third plateau for ever."""
    run = ss.run(ss.system("linear_icl", init_scale=1e-3), "flow")
    last = common.plateaus(run)[3].row
    frozen = run.trajectory.copy(deep=True)
    for name, variable in frozen.data_vars.items():
        values = variable.values.copy()
        values[last:] = values[last] * (1 - 1e-9 * np.arange(len(values) - last)).reshape(-1, *(1,) * (values.ndim - 1))
        frozen[name] = (variable.dims, values)
    stages = ss.measured_stages(frozen, run.prediction, run.system)
    assert len(stages) == 3
    stuck = dataclasses.replace(run, trajectory=frozen, stages=stages)
    assert_refuted(stuck, "number_of_drops", "order_of_learning", "last_plateau", "learned_gain", "stage_times")


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_curvature_theorem_at_random_points_of_every_fixed_point(rank):
    run = ss.run(ss.system("linear_icl", rank=rank), "predict")
    kinds = list(landscape.random_fixed_points(run))
    assert {kind.calm for kind in kinds} == {True, False}
    for kind in kinds:
        velocity = run.system.flow.velocity(kind.point, common.frame_of(run))
        assert max(np.abs(part).max() for part in velocity) < 1e-12  # rounding: weights of order one
        assert (landscape.growth_rate(run, kind.point) > 1e-9) != kind.calm, kind.learned


def test_growth_without_a_rise_supports_nothing():
    run = ss.run(ss.system("linear_icl", "tiny"), "flow")
    assert verdict("scalar_growth", dataclasses.replace(run, stages=())) != "supported"


def test_share_of_a_drop_made_while_speeding_up():
    """Eq. (7): with m = v³ a/λ the speed of the loss is m^(4/3) (1 − m)², highest at m = 0.4."""
    m = np.linspace(0, 1, 100_001)
    fastest = m[np.argmax(m ** (4 / 3) * (1 - m) ** 2)]
    assert BY_NAME["rich_shape"].expected == pytest.approx(1 - (1 - fastest) ** 2, abs=1e-3)
