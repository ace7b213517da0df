"""Flows: solvers, log-time, where a run ends, results as values, ensembles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import saddlescope as ss
from saddlescope.core.errors import BadArgument
from saddlescope.dynamics.ensemble import can_run_together, flow_together
from saddlescope.dynamics.flow import flow
from saddlescope.dynamics.solvers import Solver, solver
from saddlescope.dynamics.train import train
from saddlescope.lab.ensemble import run_seeds
from saddlescope.numerics.integrate import integrate
from saddlescope.templates.squares import Squares
from saddlescope.templates.squares.data import State, Weights
from saddlescope.templates.squares.system import SquaresFlow, SquaresTheory

from .neighbours import Pairs, PairsTheory, times, tiny


@pytest.mark.parametrize(
    "name", ["explicit", "implicit", "second", Solver("bdf"), Solver("dop853"), Solver("rodas5p-cg")], ids=str
)
def test_every_solver_tells_the_same_story(name):
    found = ss.run(tiny(Pairs), "flow", solver=name)
    assert found.result == "finished" and found.prediction is not None
    # BDF's order is low: its steps add up to 1e-5 of a plateau.
    tolerance = 1e-4 if getattr(name, "method", "") == "bdf" else 1e-5
    assert times(found.stages) == pytest.approx(times(found.prediction.stages), rel=tolerance)


class LogTime(Squares):
    name = "squares/log_time"

    @ss.part
    class flow(SquaresFlow):
        log_time = 0.1


class InJax(Squares):
    name = "squares/jax"

    @ss.part
    class flow(SquaresFlow):
        arrays = "jax"

        def velocity(self, state, frame):
            import jax.numpy as jnp

            return State(2 * state.p * jnp.subtract(frame.p, state.p))


@pytest.mark.parametrize("kind", [Squares, LogTime, InJax])
@pytest.mark.parametrize("name", ["default", "explicit"])
def test_logistic_growth_has_its_closed_form(kind, name):
    """In plain time and in log-time, by NumPy and by jax: crossings at log(s/p0 − 1)/(2s) to the solver's tolerance."""
    run = ss.run(kind(), "flow", solver=name)
    assert run.result == "finished" and run.prediction is not None and len(run.stages) == 3
    assert times(run.stages) == pytest.approx(times(run.prediction.stages), rel=1e-7)
    start = run.system.start(0)
    s, p0, t = start.frame.p, start.point.u**2, run.series("time")[:, None]
    assert run.series("p") == pytest.approx(s / (1 + (s / p0 - 1) * np.exp(-2 * s * t)), abs=1e-6)


# ---- where a run ends


class Exploding(Squares):
    """p' = p²: reaches infinity at 1/p(0)."""

    name = "squares/exploding"
    theory = None

    @ss.part
    class flow(SquaresFlow):
        def velocity(self, state, frame):
            return State(state.p**2)


@pytest.mark.parametrize("name", ["default", "explicit"])
def test_divergence_is_a_result(name):
    result = flow(tiny(Exploding, horizon=1e9, init_scale=0.1), solver=solver(name, max_steps=20_000)).attrs["result"]
    assert result.split(":")[0].split(" ")[0] in ("diverged", "solver_failed", "max_steps_reached")


def test_short_horizon_says_what_would_suffice():
    result = ss.run(tiny(horizon=5.0), "flow").result
    assert result.startswith("horizon_too_short: saw 1 of 2 stages")
    enough = float(result.split("horizon=")[1].split()[0])
    assert ss.run(tiny(horizon=enough), "flow").result == "finished"


@pytest.mark.parametrize("run", [flow, train])
def test_a_prediction_that_nobody_asked_for_is_not_made(run, monkeypatch):
    """Where the Spec says how long a run is, theory is not needed for it."""
    monkeypatch.setattr(PairsTheory, "predict", lambda *_: pytest.fail("predicted"))
    monkeypatch.setattr(PairsTheory, "landmarks", lambda *_: pytest.fail("landmarks"))
    assert run(tiny(Pairs, horizon=5.0)).attrs["result"] == "finished"


@pytest.mark.parametrize("face", ["flow", "train"])
def test_start_beyond_a_level_counts_as_its_passage(face):
    """A large start may begin beyond the level of the first stage: all faces then see that stage at time zero."""
    chosen = tiny()
    run = ss.run(chosen, face, start=ss.Start(Weights(np.array([1.2, 1e-3])), chosen.start(0).frame))
    assert run.result == "finished" and len(run.stages) == 2
    assert run.stages[0].time == 0.0 and (run.stages[1].time or 0) > 6


def test_run_without_horizon_is_prolonged():
    """A prediction that is far too early: the run goes on until the last plateau."""
    chosen = tiny()
    prediction = ss.predict(chosen)
    early = tuple(replace(stage, time=(stage.time or 0) / 9) for stage in prediction.stages)
    trajectory = flow(chosen, prediction=replace(prediction, stages=early))
    assert trajectory.attrs["result"] == "finished"
    assert trajectory.attrs["horizon"] > 1.3 * (early[-1].time or 0)
    assert prediction.arrival is not None and trajectory["loss"].values[-1] <= prediction.arrival.level


@pytest.mark.parametrize("name", ["default", "second", "explicit", "implicit", Solver("rodas5p-cg")], ids=str)
def test_run_may_end_where_it_arrives(name):
    """With every solver the run ends at the passage of the mark, long before its horizon."""
    ending = ss.Ending(horizon=1e5, arrival=ss.Mark("loss", 1e-3), at_once=True)
    prediction = replace(ss.predict(tiny(Pairs)), ending=ending)
    run = ss.run(tiny(Pairs), "flow", prediction=prediction, solver=name)
    assert run.result == "finished" and times(run.stages) == pytest.approx(times(prediction.stages), rel=1e-5)
    assert run.final_loss == pytest.approx(1e-3, rel=1e-9)
    assert run.series("time")[-1] == run.trajectory.attrs["horizon"] < 20


def test_flow_without_theory_needs_a_horizon():
    known = ss.predict(tiny())
    untimed = replace(known, stages=tuple(replace(stage, time=None) for stage in known.stages))
    for chosen, prediction in ((tiny(), untimed), (tiny(Exploding), None)):
        with pytest.raises(BadArgument, match="`horizon` must be set"):
            flow(chosen, prediction=prediction)


def test_missing_face_is_an_error_with_the_faces_there_are():
    class OnlyTrained(Squares):
        flow = theory = None

    with pytest.raises(BadArgument, match="no face 'flow': it can train"):
        flow(tiny(OnlyTrained))


def test_theory_speaks_of_what_was_measured():
    """It names each stage by what was learned, and says what should be known of the end."""

    class Speaking(Squares):
        @ss.part
        class theory(SquaresTheory):
            def describe(self, stage, before, after):
                return replace(stage, label=f"learned {np.argmax(after['p'] - before['p']) + 1}")

            def remark(self, prediction, last):
                return f"{last['p'].sum():.3g} in all"

    chosen = tiny(Speaking)
    late = ss.Start(Weights(np.array([1e-9, 1e-2])), chosen.start(0).frame)
    for start, labels in ((None, ["learned 1", "learned 2"]), (late, ["learned 2", "learned 1"])):
        run = ss.run(chosen, "flow", start=start)
        assert [stage.label for stage in run.stages] == labels
        assert run.result == "finished: 3 in all"


# ---- many seeds


@pytest.mark.parametrize("init_scale", [1e-5, 1e-12])
def test_ensemble_agrees_with_single_runs(init_scale):
    chosen = tiny(Pairs, init_scale=init_scale)
    trajectories, landmarks = flow_together(chosen, range(3, 9))
    for seed, trajectory in zip(range(3, 9), trajectories, strict=True):
        assert trajectory.attrs["seed"] == seed and trajectory.attrs["result"] == "finished"
        alone = ss.run(chosen, "flow", seed, solver="tight")
        together = ss.measured_stages(trajectory, landmarks)
        assert times(together) == pytest.approx(times(alone.stages), rel=1e-7)
        # Levels are read at the flattest saved interval: on a brief plateau this depends on the grid.
        # The last plateau's loss is 0, of which no share can be taken.
        assert [s.loss for s in together] == pytest.approx([s.loss for s in alone.stages], rel=1e-4, abs=1e-8)
        assert trajectory.attrs["conserved_drift"] < 1e-7


def test_ensemble_keeps_a_set_horizon():
    trajectories, _ = flow_together(tiny(Pairs, horizon=2.0), range(2))
    for trajectory in trajectories:
        assert trajectory["time"].values[-1] == 2.0
        assert trajectory.attrs["result"].startswith("horizon_too_short: saw 0 of 2")


def test_which_systems_run_together():
    assert can_run_together(tiny(Pairs), 36)
    assert not can_run_together(tiny(Pairs), 10_000)
    assert not can_run_together(tiny(), 2)
    with pytest.raises(BadArgument, match="cannot flow from many seeds together"):
        flow_together(tiny(), range(2))


def test_run_seeds_on_processes_keeps_the_order():
    runs = run_seeds(tiny(), "predict", range(5))
    assert [run.seed for run in runs] == list(range(5))
    assert times(runs[4].stages) == times(ss.predict(tiny(), 4).stages)


# ---- solvers


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


def test_prediction_levels_and_times():
    empty = ss.Prediction(stages=(), marks=(), initial_loss=None)
    assert empty.last_time is None and np.isnan(empty.levels).all()
