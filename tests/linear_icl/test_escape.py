"""The stage algorithm against the flow: what it was built for, at the size that was promised."""

from __future__ import annotations

import numpy as np
import pytest

import saddlescope as ss
from saddlescope.dynamics.ensemble import flow_together

from ..neighbours import times


def assert_times_are_predicted(fields, tolerance):
    """Returns the measured and the predicted stages."""
    run = ss.run(ss.system("linear_icl", **fields), "flow")
    assert run.result == "finished" and run.stages and run.prediction is not None
    assert times(run.prediction.stages) == pytest.approx(times(run.stages), rel=tolerance)
    return run.stages, run.prediction.stages


@pytest.mark.parametrize(
    ("heads", "seeds"), [(5, 12), *(pytest.param(heads, 64, marks=pytest.mark.slow) for heads in (4, 5))]
)
def test_escape_times_of_many_seeds(heads, seeds):
    """Promised: median 1e-3 and 95% within 0.5%. Held to what the algorithm reaches, with room for rounding: the
    residual error is of second order in the size 0.05 at which a head is handed over, times a runner-up's share."""
    chosen = ss.system("linear_icl", init_scale=1e-3, heads=heads)
    trajectories, landmarks = flow_together(chosen, range(seeds))
    predicted = np.array([times(ss.predict(chosen, seed).stages) for seed in range(seeds)])
    measured = np.array([times(ss.measured_stages(trajectory, landmarks)) for trajectory in trajectories])
    assert predicted.shape == measured.shape == (seeds, 4)
    gaps = np.abs(predicted / measured - 1)
    assert np.median(gaps) < 2e-5
    assert (gaps < 5e-3).mean() >= 0.99


@pytest.mark.parametrize(
    ("fields", "tolerance"),
    [
        ({"rank": 2, "heads": 3}, 1e-3),
        ({"rank": 4, "heads": 1}, 1e-3),
        ({"heads": 2}, 1e-3),
        ({"eigenvalues": (0.35, 0.35, 0.15, 0.15)}, 5e-3),
        ({"eigenvalues": (0.3, 0.2999, 0.1), "heads": 3}, 1e-3),
        ({"eigenvalues": (1.0,), "heads": 1, "context_length": 1}, 1e-3),
        ({"eigenvalues": tuple(1 / d for d in range(1, 9)), "heads": 9, "init_scale": 0.003}, 1e-3),
        ({"eigenvalues": (0.6, 0.2, 0.1, 0.07, 0.03), "heads": 6, "context_length": 10, "init_scale": 0.003}, 1e-3),
        ({"eigenvalues": (3, 1), "heads": 2, "rank": 2, "context_length": 100}, 1e-3),
        ({"eigenvalues": (0.5, 0.3), "heads": 3, "sequences": 3000, "context_length": 12}, 0.1),  # plateaus creep
        ({"init_scale": 0.5}, 1e-5),
        ({"init_scale": 4.0}, 1e-5),
        ({"init_scale": 1e-8}, 1e-3),
    ],
    ids=str,
)
def test_escape_times_elsewhere(fields, tolerance):
    """Ranks, few heads, ties and near-ties, other spectra; large starts are integrated throughout, so exact."""
    assert_times_are_predicted(fields, tolerance)


def test_finite_samples():
    """On a sample the grown heads creep while the rest drifts: a tenth in time and 0.3% in loss is what is claimed."""
    measured, predicted = assert_times_are_predicted({"sequences": 5000}, 0.1)
    levels = [[stage.loss for stage in stages[:-1]] for stages in (measured, predicted)]
    assert levels[0] == pytest.approx(levels[1], rel=3e-3)


def test_matrix_free_drops_give_the_same_times(monkeypatch):
    chosen = ss.system("linear_icl", init_scale=0.03)
    dense = times(ss.predict(chosen).stages)
    monkeypatch.setattr("saddlescope.systems.linear_icl.escape.DENSE", 0)
    assert times(ss.predict(chosen).stages) == pytest.approx(dense, rel=1e-3)


def test_large_states_are_flowed_without_a_matrix():
    eigenvalues = tuple(1 / d for d in range(1, 17))
    run = ss.run(ss.system("linear_icl", eigenvalues=eigenvalues, heads=14, init_scale=0.05, horizon=300.0), "flow")
    assert run.solver.startswith("rodas5p-cg") and run.conserved_drift is not None
    assert len(run.stages) >= 1 and run.conserved_drift < 1e-7
    assert run.prediction is not None
    assert run.stages[0].time == pytest.approx(run.prediction.stages[0].time, rel=1e-3)
