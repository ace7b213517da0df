"""Flows: levels, solvers, log-time, outcomes as values, ensembles."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from saddlescope.core.errors import BadArgument
from saddlescope.core.registry import system
from saddlescope.core.stage import Prediction
from saddlescope.core.start import Start
from saddlescope.dynamics.ensemble import can_run_together, flow_together
from saddlescope.dynamics.flow import flow
from saddlescope.dynamics.solvers import Solver, solver
from saddlescope.dynamics.train import train
from saddlescope.lab.ensemble import run_seeds
from saddlescope.lab.outcome import measured_stages
from saddlescope.lab.run import run_face
from saddlescope.numerics.integrate import integrate

from .conftest import EXAMPLE


@pytest.mark.parametrize("seed", range(6))
def test_plateau_levels(seed):
    """init_scale 1e-3, next drop more than 1.15 x later: relative 1e-6 against Eq. (5)."""
    outcome = run_face(system("linear_icl", init_scale=1e-3), "flow", seed)
    assert outcome.prediction is not None and len(outcome.stages) == 4
    times = [*(stage.time for stage in outcome.stages), np.inf]
    for number, (found, expected) in enumerate(zip(outcome.stages, outcome.prediction.stages, strict=True)):
        if times[number + 1] > 1.15 * times[number]:
            assert found.loss == pytest.approx(expected.loss, rel=1e-6)
    assert outcome.conserved_drift is not None and outcome.conserved_drift < 1e-7


@pytest.mark.parametrize(
    "name", ["explicit", "implicit", "second", Solver("bdf"), Solver("dop853"), Solver("rodas5p-cg")], ids=str
)
def test_every_solver_tells_the_same_story(name):
    chosen = system("linear_icl", "tiny")
    expected = measured_stages(flow(chosen, solver="tight"), chosen.predict(chosen.start(0)))
    found = measured_stages(flow(chosen, solver=name), chosen.predict(chosen.start(0)))
    for one, other in zip(found, expected, strict=True):
        # BDF's order is low: its steps add up to 1e-5 of a plateau.
        assert one.time == pytest.approx(other.time, rel=1e-4 if getattr(name, "method", "") == "bdf" else 1e-5)


class WarpedSquares(EXAMPLE.Squares):
    name = "squares/warped"

    def warp(self, frame):
        return 0.1


class JaxSquares(EXAMPLE.Squares):
    name = "squares/jax"
    arrays = "jax"

    def velocity(self, state, frame):
        import jax.numpy as jnp

        return EXAMPLE.State(2 * state.p * jnp.subtract(frame.p, state.p))


@pytest.mark.parametrize("kind", [EXAMPLE.Squares, WarpedSquares, JaxSquares])
@pytest.mark.parametrize("name", ["default", "explicit"])
def test_logistic_growth_has_its_closed_form(kind, name):
    """In plain time and in log-time, by NumPy and by jax: crossings at log(s/p0 − 1)/(2s) to the solver's tolerance."""
    chosen = kind()
    start = chosen.start(0)
    prediction = chosen.predict(start)
    trajectory = flow(chosen, solver=name)
    assert trajectory.attrs["result"] == "finished"
    for found, expected in zip(measured_stages(trajectory, prediction), prediction.stages, strict=True):
        assert found.time == pytest.approx(expected.time, rel=1e-7)
    s, p0, t = start.frame.p, start.point.u**2, trajectory["time"].values[:, None]
    exact = s / (1 + (s / p0 - 1) * np.exp(-2 * s * t))
    assert trajectory["p"].values == pytest.approx(exact, abs=1e-6)


class Exploding(EXAMPLE.Squares):
    """p' = p²: reaches infinity at 1/p(0)."""

    name = "squares/exploding"

    def velocity(self, state, frame):
        return EXAMPLE.State(state.p**2)

    def predict(self, start):
        return dataclasses.replace(super().predict(start), marks=(), stages=())


@pytest.mark.parametrize("name", ["default", "explicit"])
def test_divergence_is_a_result(name):
    chosen = Exploding(EXAMPLE.SquaresSpec(horizon=1e9, init_scale=1.0))
    result = flow(chosen, solver=solver(name, max_steps=20_000)).attrs["result"]
    assert result.split(":")[0].split(" ")[0] in ("diverged", "solver_failed", "max_steps_reached")
    assert not result.startswith("finished")


def test_short_horizon_says_what_would_suffice():
    result = run_face(system("linear_icl", horizon=5000.0), "flow").result
    assert result.startswith("horizon_too_short: saw 1 of 4 stages")
    enough = float(result.split("horizon=")[1].split()[0])
    assert run_face(system("linear_icl", horizon=enough), "flow").result == "finished"


@pytest.mark.parametrize("run", [flow, train])
def test_a_prediction_that_nobody_asked_for_is_not_made(run, monkeypatch):
    """Where the Spec says how long a run is, theory is not needed for it."""
    chosen = system("linear_icl", "tiny", horizon=50.0)
    monkeypatch.setattr(type(chosen), "predict", lambda *_: pytest.fail("predicted"))
    monkeypatch.setattr(type(chosen), "landmarks", lambda *_: pytest.fail("landmarks"))
    assert run(chosen).attrs["result"] == "finished"


def test_start_below_a_level_counts_as_its_passage():
    """A large start may begin below the first midpoint: all faces then see that stage at time zero."""
    chosen = system("linear_icl", eigenvalues=(0.4, 0.3), heads=2, context_length=5, init_scale=3.0)
    for face in ("flow", "train"):
        outcome = run_face(chosen, face, 0)
        assert outcome.result.startswith("finished") and outcome.stages[0].time == 0.0


def test_stages_are_named_by_what_was_learned():
    """A head that starts along e_2 learns it first: the drop is called so, and the order of the paper is refuted."""
    from saddlescope.core.claim import judge_run
    from saddlescope.lab.judge import evidence_of

    chosen = system("linear_icl", eigenvalues=(0.3, 0.28), heads=2)
    start = chosen.start(0)
    start.point.value[:] = [[0.02], [0.001]]
    start.point.key[:] = start.point.query[:] = [[[0.0, 0.02]], [[0.001, 0.0]]]
    outcome = run_face(chosen, "flow", start=start)
    assert [stage.label for stage in outcome.stages] == ["eigenvector 2", "eigenvector 1"]
    order = next(claim for claim in chosen.claims if claim.name == "order_of_learning")
    assert judge_run(order, evidence_of(outcome)).verdict == "refuted"
    usual = run_face(chosen, "flow", 0)
    assert judge_run(order, evidence_of(usual)).verdict == "supported"


def test_claims_about_the_population_are_not_decided_by_a_sample():
    from saddlescope.lab.judge import judge

    verdicts = {v.claim.name: v.verdict for v in judge(system("linear_icl", sequences=2000, init_scale=0.03))}
    assert verdicts.pop("conservation") == "supported"
    assert verdicts.pop("zero_blocks_stay_zero") == "refuted"  # the one statement about samples
    assert set(verdicts.values()) == {"undecided"}


def test_run_without_horizon_is_prolonged():
    """A prediction that is far too early: the run goes on until the last plateau."""
    chosen = system("linear_icl", "tiny")
    prediction = chosen.predict(chosen.start(0))
    early = tuple(dataclasses.replace(stage, time=(stage.time or 0) / 9) for stage in prediction.stages)
    trajectory = flow(chosen, prediction=dataclasses.replace(prediction, stages=early))
    assert trajectory.attrs["result"] == "finished"
    assert trajectory.attrs["horizon"] > 1.3 * (early[-1].time or 0)


def test_flow_without_theory_needs_a_horizon():
    class Mute(EXAMPLE.Squares):
        def predict(self, start):
            good = super().predict(start)
            return dataclasses.replace(good, stages=tuple(dataclasses.replace(s, time=None) for s in good.stages))

    with pytest.raises(BadArgument, match="`horizon` must be set"):
        flow(Mute())


def test_times_scale_with_the_spectrum():
    """Rescaling Λ by c at fixed tr Λ/λ, and the weights by c^(-1/3) with their fixed point: t -> t c^(-5/3)."""
    c = 3.0
    base = system("linear_icl", "tiny")
    scaled = system("linear_icl", "tiny", eigenvalues=tuple(c * lam for lam in base.spec.eigenvalues))
    start = base.start(1)
    # v k q must scale as 1/c; with all three scaled alike, v' = λ² k q scales as c² c^(-2/3), so t as c^(-5/3).
    moved = Start(type(start.point)(*(part * c ** (-1 / 3) for part in start.point)), scaled.start(1).frame)
    times = [stage.time for stage in base.predict(start).stages]
    found = [stage.time for stage in scaled.predict(moved).stages]
    # 1e-4: where the stage algorithm hands over depends on the solver's steps.
    assert np.array(found) * c ** (5 / 3) == pytest.approx(times, rel=1e-4)


def test_ensemble_agrees_with_single_runs():
    chosen = system("linear_icl", init_scale=0.03)
    trajectories, landmarks = flow_together(chosen, range(3, 9))
    for seed, trajectory in zip(range(3, 9), trajectories, strict=True):
        assert trajectory.attrs["seed"] == seed and trajectory.attrs["result"] == "finished"
        alone = run_face(chosen, "flow", seed, solver="tight")
        together = measured_stages(trajectory, landmarks)
        assert [s.time for s in together] == pytest.approx([s.time for s in alone.stages], rel=1e-5)
        # Levels are read at the flattest saved interval: on a brief plateau this depends on the grid.
        assert [s.loss for s in together] == pytest.approx([s.loss for s in alone.stages], rel=1e-4)
        assert trajectory.attrs["conserved_drift"] < 1e-7


@pytest.mark.slow
def test_ensemble_at_the_smallest_scale():
    """Times of 1e15, drops of some units: the same stages as alone, to what double precision can tell apart."""
    chosen = system("linear_icl", init_scale=1e-12)
    trajectories, landmarks = flow_together(chosen, range(4))
    for seed, trajectory in enumerate(trajectories):
        alone = run_face(chosen, "flow", seed)
        assert trajectory.attrs["result"] == alone.result == "finished"
        together = measured_stages(trajectory, landmarks)
        assert [s.time for s in together] == pytest.approx([s.time for s in alone.stages], rel=1e-5)


def test_a_sample_that_is_fitted_exactly_has_no_further_stages():
    outcome = run_face(system("linear_icl", "tiny", sequences=2), "flow", 0)
    assert outcome.result.startswith("finished") and outcome.prediction is not None
    assert [s.index for s in outcome.stages] == list(range(1, len(outcome.prediction.stages) + 1))
    assert outcome.prediction.levels[-1] < 1e-6 and len(outcome.stages) < 2


def test_ensemble_keeps_a_set_horizon():
    trajectories, _ = flow_together(system("linear_icl", horizon=300.0), range(2))
    for trajectory in trajectories:
        assert trajectory["time"].values[-1] == 300.0
        assert trajectory.attrs["result"].startswith("horizon_too_short: saw 0 of 4")


def test_which_systems_run_together():
    assert can_run_together(system("linear_icl"), 36)
    assert not can_run_together(system("linear_icl"), 10_000)
    assert not can_run_together(EXAMPLE.Squares(), 2)


def test_run_seeds_on_processes_keeps_the_order():
    outcomes = run_seeds(system("linear_icl", "tiny"), "predict", range(5))
    assert [outcome.seed for outcome in outcomes] == list(range(5))
    alone = run_face(system("linear_icl", "tiny"), "predict", 4)
    assert outcomes[4].stages[-1].time == alone.stages[-1].time


def test_long_steps_are_saved_on_the_way():
    """On the stepper's interpolant, at most `spacing` apart; the steps and the end are the same."""
    settings = {"method": "dop853", "rtol": 1e-9, "atol": 1e-12, "watch": lambda y: y - 0.5}
    plain = integrate(lambda _, y: -y, np.ones(1), 0.0, 10.0, **settings)
    dense = integrate(lambda _, y: -y, np.ones(1), 0.0, 10.0, spacing=0.05, **settings)
    assert np.diff(plain.time).max() > 0.3 and np.diff(dense.time).max() <= 0.05 + 1e-12
    assert set(plain.time) <= set(dense.time) and dense.state[-1] == plain.state[-1]
    np.testing.assert_allclose(dense.state[:, 0], np.exp(-dense.time), rtol=1e-7)
    assert dense.crossings == plain.crossings


@pytest.mark.parametrize(
    ("size", "free", "jacobian", "method"),
    [
        (100, True, False, "lsoda"),
        (10**5, True, True, "rodas5p-cg"),
        (10**5, False, True, "lsoda"),
        (1000, False, False, "lsoda"),
        (10**5, False, False, "dop853"),
    ],
)
def test_the_solver_fits_the_state(size, free, jacobian, method):
    assert Solver().for_state(size, free=free, jacobian=jacobian).method == method
    assert Solver("bdf").for_state(size, free=free, jacobian=jacobian).method == "bdf"


def test_solver_names_are_checked():
    with pytest.raises(BadArgument, match="did you mean 'tight'"):
        solver("tigth")
    with pytest.raises(BadArgument, match="method"):
        Solver("euler")
    assert solver("default", rtol=1e-3).rtol == 1e-3


def test_missing_face_is_an_error_with_the_faces_there_are():
    with pytest.raises(BadArgument, match="it can train"):
        flow(system("linear_icl/softmax", "tiny"))


def test_prediction_levels_and_times():
    empty = Prediction(stages=(), marks=(), initial_loss=None)
    assert empty.last_time is None and np.isnan(empty.levels).all()
