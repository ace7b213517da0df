"""The stage algorithm against the flow: what it was built for, at the size that was promised."""

from __future__ import annotations

import numpy as np
import pytest

from saddlescope.core.registry import system
from saddlescope.dynamics.ensemble import flow_together
from saddlescope.lab.outcome import measured_stages
from saddlescope.lab.run import run_face


def errors(chosen, seeds):
    trajectories, landmarks = flow_together(chosen, seeds)
    gaps = []
    for seed, trajectory in zip(seeds, trajectories, strict=True):
        predicted = chosen.predict(chosen.start(seed)).stages
        measured = measured_stages(trajectory, landmarks)
        assert len(measured) == len(predicted)
        gaps.append([p.time / m.time - 1 for p, m in zip(predicted, measured, strict=True)])
    return np.abs(gaps)


@pytest.mark.parametrize(
    ("heads", "seeds"), [(5, 12), *(pytest.param(heads, 64, marks=pytest.mark.slow) for heads in (4, 5))]
)
def test_escape_times_of_many_seeds(heads, seeds):
    """Promised: median 1e-3 and 95% within 0.5%. Held to what the algorithm reaches, with room for rounding: the
    residual error is of second order in the size 0.05 at which a head is handed over, times a runner-up's share."""
    gaps = errors(system("linear_icl", init_scale=1e-3, heads=heads), range(seeds))
    assert gaps.shape == (seeds, 4)
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
        ({"init_scale": 0.5}, 1e-5),
        ({"init_scale": 4.0}, 1e-5),
        ({"init_scale": 1e-8}, 1e-3),
    ],
    ids=str,
)
def test_escape_times_elsewhere(fields, tolerance):
    """Ranks, few heads, ties and near-ties, other spectra; large starts are integrated throughout, so exact."""
    outcome = run_face(system("linear_icl", **fields), "flow", 0)
    assert outcome.result == "finished" and outcome.prediction is not None
    assert len(outcome.stages) == len(outcome.prediction.stages)
    for predicted, measured in zip(outcome.prediction.stages, outcome.stages, strict=True):
        assert predicted.time == pytest.approx(measured.time, rel=tolerance)


def test_matrix_free_drops_give_the_same_times(monkeypatch):
    chosen = system("linear_icl", init_scale=0.03)
    dense = [stage.time for stage in chosen.predict(chosen.start(0)).stages]
    monkeypatch.setattr("saddlescope.systems.linear_icl.escape.DENSE", 0)
    assert [stage.time for stage in chosen.predict(chosen.start(0)).stages] == pytest.approx(dense, rel=1e-3)


def test_large_states_are_flowed_without_a_matrix():
    chosen = system(
        "linear_icl", eigenvalues=tuple(1 / d for d in range(1, 17)), heads=14, init_scale=0.05, horizon=300.0
    )
    outcome = run_face(chosen, "flow", 0)
    assert outcome.solver.startswith("rodas5p-cg") and outcome.conserved_drift is not None
    assert len(outcome.stages) >= 1 and outcome.conserved_drift < 1e-7
    assert outcome.prediction is not None
    assert outcome.stages[0].time == pytest.approx(outcome.prediction.stages[0].time, rel=1e-3)


def test_finite_samples():
    """On a sample the grown heads creep while the rest drifts: a tenth in time and 0.3% in loss is what is claimed."""
    outcome = run_face(system("linear_icl", sequences=5000), "flow", 0)
    assert outcome.prediction is not None and outcome.result == "finished"
    for predicted, measured in zip(outcome.prediction.stages, outcome.stages, strict=True):
        assert predicted.time == pytest.approx(measured.time, rel=0.1)
    levels = [stage.loss for stage in outcome.stages[:-1]]
    assert levels == pytest.approx([stage.loss for stage in outcome.prediction.stages[:-1]], rel=3e-3)
