"""Algorithm 1, its correction and the flow in logarithms, against each other and against what is known otherwise."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks import plain
from scipy.integrate import solve_ivp

import saddlescope as ss
from saddlescope.core.errors import BadArgument
from saddlescope.lab.ensemble import FEWEST
from saddlescope.lab.request import Request
from saddlescope.systems.gradual_rank import data, from_function, network, reduction
from saddlescope.systems.gradual_rank.data import Weights
from saddlescope.systems.gradual_rank.from_function import find_kink

SMALL = {"dim": 14, "tokens": 6, "samples": 160, "teacher_seed": 30, "data_seed": 31}
JOINING = {"dim": 8, "tokens": 3, "samples": 30, "log10_alpha": -12, "stages": 2}
HEADS = {"dim": 3, "tokens": 4, "samples": 40, "heads": 2, "stages": 2}


def both(name, seed=0, **fields):
    """Predicted and measured stages of one start, the latter from a run just past the last of the former."""
    system = ss.system(name, **fields)
    prediction = ss.predict(system, seed)
    assert prediction.last_time is not None
    system = ss.system(name, **{**fields, "horizon": 1.03 * prediction.last_time})
    trajectory = ss.flow(system, seed, prediction=prediction)
    return prediction.stages, ss.measured_stages(trajectory, prediction, system), trajectory


def assert_times_agree(predicted, measured, rel=1e-6):
    """To what the flow's own tolerance of 1e-8 per step leaves."""
    assert [stage.time for stage in predicted] == pytest.approx([stage.time for stage in measured], rel=rel)


# ---- the problem


def test_data_teacher_and_start_are_drawn_as_documented():
    system = ss.system("gradual_rank", **SMALL)
    point, frame = system.start(5)
    x = np.random.default_rng(31).normal(size=(160, 6, 14))
    rng = np.random.default_rng((30, 1))
    kq = 0.33 * rng.normal(size=14) * rng.normal(size=14)
    vo = 0.6 * rng.normal(size=14) * rng.normal(size=14)
    np.testing.assert_array_equal(frame.samples.inputs, x)
    np.testing.assert_allclose(frame.samples.targets, plain.head(np.r_[kq, vo], x), rtol=1e-12, atol=1e-14)
    rng = np.random.default_rng(5)
    for part in (point.u, point.v):
        np.testing.assert_array_equal(part, 1e-32 * rng.normal(size=28))


def test_the_full_head_with_diagonal_matrices_is_the_diagonal_head():
    """By Definition 3.1 in u*v: u holds the diagonals of W_K and W_V, v those of W_Q and W_O."""
    rng = np.random.default_rng(0)
    inputs, u, v = rng.normal(size=(40, 4, 3)), rng.normal(size=6), rng.normal(size=6)
    (key, value), (query, output) = (map(np.diag, np.split(part, 2)) for part in (u, v))
    full = network.full_head(inputs, key, query, value, output)
    np.testing.assert_allclose(full, network.head(inputs, u * v), rtol=1e-12, atol=1e-14)


def test_force_is_the_gradient_derived_by_hand():
    system: Any = ss.system("gradual_rank", **SMALL)
    frame = system.start(0).frame
    p = np.random.default_rng(1).normal(size=28)
    found = np.asarray(system.objective.force(jnp.asarray(p), frame))
    expected = plain.force(p, *frame.samples)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12 * np.abs(expected).max())


def test_flow_in_logarithms_is_the_flow_of_the_weights():
    """Eq. (3) integrated in u and v themselves, by another solver and with the gradient by hand, at alpha = 1e-3."""
    system = ss.system("gradual_rank", log10_alpha=-3.0, horizon=60.0, stages=1, **SMALL)
    (u, v), frame = system.start(0)
    x, y = frame.samples
    scale = system.spec.log_inverse_alpha

    def velocity(_, state):
        a, b = np.split(state, 2)
        g = plain.force(a * b, x, y)
        return scale * np.r_[b * g, a * g]

    solved = solve_ivp(velocity, (0, 60), np.r_[u, v], method="DOP853", rtol=1e-10, atol=1e-13)
    a, b = np.split(solved.y[:, -1], 2)
    found = ss.flow(system)["product"].values[-1]
    # 1e-6: the flow's default tolerance is 1e-8 per step, and the first entries are on the move.
    np.testing.assert_allclose(found, a * b, atol=1e-6)


# ---- Algorithm 1


def test_linear_network_has_its_closed_form():
    """Identity covariance: T_k = 1/|c_k|, and p is logistic."""
    predicted, measured, _ = both("gradual_rank/linear", 3, log10_alpha=-32.0)
    truth = np.array([2.0, -1.0, 0.5, -0.25])
    unit = data.unit_weights(4, 3)
    scale = 32 * np.log(10)
    grows = np.where(truth > 0, np.abs(unit.u + unit.v), np.abs(unit.u - unit.v))
    exact = (scale + np.log(2 * np.sqrt(np.abs(truth)) / grows)) / np.abs(truth) / scale
    assert [stage.extra["limit_time"] for stage in predicted] == pytest.approx([0.5, 1, 2, 4], rel=1e-12)
    assert [stage.time for stage in predicted] == pytest.approx(exact, rel=1e-7)  # orbits' tolerance is 1e-8
    assert [stage.time for stage in measured] == pytest.approx(exact, rel=1e-6)
    # Losses of the plateaus: half the squared coefficients that are not learned yet.
    assert [stage.loss for stage in predicted] == pytest.approx([0.65625, 0.15625, 0.03125, 0.0], abs=1e-12)


@pytest.mark.parametrize(
    ("name", "fields", "rel"),
    [
        # Down to 1e-2 stages overlap, down to 1e-10000 floats end.
        *(("gradual_rank", {**SMALL, "stages": 4, "log10_alpha": alpha}, 1e-6) for alpha in (-2, -8, -64, -10_000)),
        # Times do not depend on units.
        *(
            ("gradual_rank/linear", {"coefficients": units, "log10_alpha": -32}, 1e-6)
            for units in ((1e-6, 5e-7), (2.0, 1e-8), (2.0, 1e-5, -0.7), (3000.0, -5.0))
        ),
        # Keys and queries are pulled only once a value has grown, and may then outrun what is left of its move.
        *(("gradual_rank", {**JOINING, "teacher_seed": seed, "data_seed": seed}, 1e-7) for seed in (31, 63)),
    ],
    ids=str,
)
def test_corrected_times(name, fields, rel):
    predicted, measured, _ = both(name, **fields)
    assert len(measured) == fields.get("stages", len(fields.get("coefficients", ())))
    assert_times_agree(predicted, measured, rel)
    assert [one.extra["coordinates"] for one in predicted] == [one.extra["coordinates"] for one in measured]


def test_an_entry_leaves_and_later_stages_are_right():
    """KQ 6 (coordinate 5) leaves when KQ 5 enters; the flow confirms it."""
    predicted, measured, trajectory = both("gradual_rank", 32, log10_alpha=-64.0, **SMALL)
    for stages in (predicted, measured):
        assert [stage.extra["left"] for stage in stages] == [[], [], [], [], [5], [], [], []]
    assert_times_agree(predicted, measured)
    theta = np.zeros(28)
    theta[predicted[-2].extra["support"]] = predicted[-2].extra["values"]
    middle = float(np.mean(np.array([stage.time for stage in measured[-2:]], float)))
    found = trajectory["product"].interp(time=middle).values
    np.testing.assert_allclose(found, theta, atol=1e-4)  # the last plateau is 4 time units long at 1e-64


def test_heads_tie_and_share_by_their_start():
    predicted, measured, trajectory = both("gradual_rank", 1, log10_alpha=-32.0, **HEADS)
    assert all(len(stage.extra["coordinates"]) == 2 and not stage.extra["strict"] for stage in predicted)
    assert_times_agree(predicted, measured)
    first, second = predicted[0].extra["coordinates"]
    unit = data.unit_weights(12, 1)
    positive = predicted[0].extra["values"][0] > 0
    side = unit.u + unit.v if positive else unit.u - unit.v
    product = trajectory["product"].values[-1]
    assert product[first] / product[second] == pytest.approx((side[first] / side[second]) ** 2, rel=1e-3)


def test_equal_start_never_learns_a_negative_coefficient():
    system = ss.system("gradual_rank/linear", equal_start=True, log10_alpha=-16.0)
    prediction = ss.predict(system)
    assert [stage.extra["coordinates"] for stage in prediction.stages] == [[0], [2]]
    assert "ends after stage 2" in prediction.notes[0]
    np.testing.assert_allclose(ss.flow(system)["product"].values[-1], [2, 0, 0.5, 0], atol=1e-3)


def test_a_sequence_that_ends_says_so():
    run = ss.run(ss.system("gradual_rank/linear", stages=50), "predict")
    assert len(run.stages) == 4 and "the next time is infinite" in run.result


def test_an_entry_that_runs_off_ends_the_sequence():
    fields = {"error": "logistic", "coefficients": (2.0, 0.0), "samples": 40, "log10_alpha": -16.0, "stages": 1}
    prediction = ss.predict(ss.system("gradual_rank/linear", **fields))
    assert not prediction.stages and "has no limit" in prediction.notes[0]
    assert len(ss.predict(ss.system("gradual_rank/linear", penalty=0.01, **fields)).stages) == 1


def test_more_entries_than_stages_are_reported():
    run = ss.run(ss.system("gradual_rank/linear", stages=1, horizon=3.0), "flow")
    assert run.result == "finished: 2 more coordinates than the 1 listed stages have grown"


def test_strict_minimum_and_flat_one():
    linear: Any = ss.system("gradual_rank/linear")
    step = linear.problem.origin.move(0)
    assert step.to is not None and step.to.strict
    heads: Any = ss.system("gradual_rank", **HEADS)
    origin = heads.problem.origin
    alone = origin.move(int(np.argmax(np.abs(origin.force)))).to
    assert alone is not None and alone.strict  # one head alone would be strict: it is the tie that is not


# ---- gradient descent


def test_steps_of_logarithms_are_steps_of_the_weights():
    fields = {**SMALL, "log10_alpha": -2.0, "stages": 1, "steps": 2000, "learning_rate": 0.5}
    weights, logs = (ss.train(ss.system("gradual_rank", arithmetic=a, **fields)) for a in ("weights", "log"))
    assert "network gradient" in weights.attrs["solver"] and "exact reduced step" in logs.attrs["solver"]
    last = [run["product"].values[-1] for run in (weights, logs)]
    assert np.abs(last[0] - last[1]).max() < 1e-10 * np.abs(last[0]).max()


def test_descent_beyond_floats_and_schedules():
    """At alpha = 1e-1000 only logarithms exist; schedule=plateau then listens to the state's loss."""
    fields = {**SMALL, "log10_alpha": -1000.0, "stages": 1, "steps": 300, "learning_rate": 8.0}
    run = ss.train(ss.system("gradual_rank", schedule="plateau", **fields))
    assert "exact reduced step" in run.attrs["solver"] and np.isfinite(run["loss"].values).all()
    with pytest.raises(BadArgument, match="only optimizer=gd"):
        ss.train(ss.system("gradual_rank", optimizer="adam", **fields))


def test_reduction_covers_every_sign_and_equality():
    u, v = np.array([1.0, -1.0, 0.2, -0.2, 1.0, 1.0]), np.array([0.2, 0.2, 1.0, -1.0, 1.0, -1.0])
    state = reduction.reduce(Weights(u, v))
    np.testing.assert_allclose(reduction.product(state), u * v, rtol=1e-14)
    np.testing.assert_allclose(reduction.conserved(state), np.abs(u**2 - v**2), atol=1e-15)


@pytest.mark.parametrize("exponent", [-0.3, 0.2, 0.7, 1.3, 1.8, 2.3])
def test_weights_from_their_sum(exponent):
    """Lemmas D.1 to D.3, for u0 = 1, v0 = 0.3, alpha = 1e-60: w = alpha^b, and w (u−v) = alpha² (u0² − v0²)."""
    log_alpha = -60 * np.log(10)
    rise = exponent * log_alpha
    fall = 2 * log_alpha + np.log(1 - 0.3**2) - rise
    larger = max(rise, fall) / log_alpha  # |u| and |v| are alpha to this power, up to a factor
    c = min(exponent, 2 - exponent)
    assert larger >= c / 2 if c > 0 else larger < 0  # |u| > 1
    assert (rise > fall) == (exponent < 1)  # v > 0


# ---- a network of one's own


def own(h, loss: Any = "squared", **kwargs):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 4))
    given = kwargs.pop("data", None)
    samples = (x, np.asarray(h(x, np.linspace(-1, 1, 4)))) if given is None else given
    return from_function(h, loss, samples, name="mine", **kwargs)


def smooth(x, p):
    return jnp.tanh(x @ p) + 0.1 * (x**2) @ p


def test_many_seeds_of_a_network_of_ones_own():
    """A lambda cannot be sent to other processes: its seeds run in this one."""
    system = own(lambda x, p: smooth(x, p), version="1")
    runs = ss.run_seeds(system, "predict", range(FEWEST))
    assert [run.stages for run in runs] == [ss.predict(system, seed).stages for seed in range(FEWEST)]


def test_a_network_of_ones_own_is_predicted_and_flowed():
    system = own(smooth, stages=3, log10_alpha=-1000.0)
    prediction = ss.predict(system)
    measured = ss.measured_stages(ss.flow(system, prediction=prediction), prediction)
    assert_times_agree(prediction.stages, measured)


def test_without_a_version_nothing_can_be_kept():
    with pytest.raises(BadArgument, match="give it a `version`"):
        Request(own(smooth), "flow", (0,))
    assert Request(own(smooth, version="1"), "flow", (0,)).system.name == "own/mine@1"


@pytest.mark.parametrize(
    ("h", "changes", "words"),
    [
        (lambda x, p: jnp.maximum(x @ p, 0), {}, "derivative of order 1 jumps"),
        (lambda x, p: jnp.maximum(x @ p, 0) ** 2, {}, "derivative of order 2 jumps"),
        (lambda x, p: jnp.floor(5 * (x @ p)), {}, "its value jumps"),
        (lambda x, p: p.sum() * x[:, 0], {}, "`size` must be given"),
        (lambda x, p: x @ p[:4] + x @ p[4:], {"data": (np.ones((5, 4)), np.ones(5)), "size": 7}, "fails"),
        (smooth, {"size": -2}, "`size` must be a positive whole number"),
        (smooth, {"start": 5}, "two vectors of 4"),
        (smooth, {"start": (np.ones(3), np.ones(3))}, "two vectors of 4"),
        (smooth, {"start": (np.zeros(4), np.zeros(4))}, "never move"),
        (smooth, {"start": (np.ones(4), -np.ones(4))}, r"\|u_i\| = \|v_i\|"),
        (smooth, {"bogus": 1}, "unknown field"),
        (smooth, {"data": (np.full((5, 4), np.nan), np.ones(5))}, "20 entries of x that are not finite"),
        (smooth, {"data": (np.ones((5, 4)), np.ones(4))}, "one y for each x"),
        (smooth, {"loss": "squard"}, "did you mean 'squared'"),
        (smooth, {"loss": lambda y, f: jnp.log(f)}, "not finite at p = 0"),
        (smooth, {"log10_alpha": 2}, "`log10_alpha` must be negative"),
    ],
)
def test_bad_input_is_named(h, changes, words):
    with pytest.raises(BadArgument, match=words):
        own(h, **changes)


def test_kinks_are_found_and_smooth_functions_are_not_accused():
    x = np.random.default_rng(0).normal(size=(30, 4))
    assert find_kink(smooth, x, 4) is None
    assert find_kink(lambda x, p: jnp.exp(5 * jnp.sin(3 * x @ p)), x, 4) is None  # steep, but smooth
    assert find_kink(lambda x, p: jnp.log(jnp.exp(x @ p)), x, 4) is None  # its second derivative is rounding
    found = find_kink(lambda x, p: jnp.abs(x @ p), x, 4)
    assert found is not None and found[0] == 1


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"log10_alpha": 0.0}, "log10_alpha"),
        ({"log10_alpha": float("nan")}, "log10_alpha"),
        ({"tokens": 1}, "tokens"),
        ({"activation": "swish"}, "activation"),
        ({"error": "cubic"}, "error"),
        ({"penalty": -1.0}, "penalty"),
        ({"batch_size": 999}, "batch_size"),
        ({"stages": 0}, "stages"),
    ],
)
def test_bad_parameters_are_named(fields, words):
    with pytest.raises(BadArgument, match=words):
        ss.system("gradual_rank", **fields)


def test_no_theory_with_decaying_weights():
    system = ss.system("gradual_rank/linear", weight_penalty=0.1)
    assert "breaks the conservation law" in ss.predict(system).notes[0]
    with pytest.raises(BadArgument, match="`horizon` must be set"):
        ss.flow(system)


# ---- cases that were once wrong


@pytest.mark.parametrize("seed", [1, 17])
def test_an_entry_that_comes_again_with_the_same_sign_is_dated_then(seed):
    """Correlated regressions in which an entry leaves and returns: the second passage is another stage."""
    rng = np.random.default_rng(seed)
    mix = rng.normal(size=(5, 5))
    x = rng.normal(size=(12, 5)) @ mix
    y = x @ rng.normal(size=5) + 0.5 * rng.normal(size=12)
    system = from_function(lambda x, p: x @ p, "squared", (x, y), name="again", log10_alpha=-200.0, stages=10)
    prediction = ss.predict(system)
    entering = [stage.extra["coordinates"][0] for stage in prediction.stages]
    assert len(set(entering)) < len(entering)
    measured = ss.measured_stages(ss.flow(system, prediction=prediction), prediction, system)
    assert_times_agree(prediction.stages, measured)
    for stage in prediction.stages:
        assert stage.time == pytest.approx(stage.extra["limit_time"], rel=0.1)  # alpha is 1e-200


@pytest.mark.parametrize(("log10_alpha", "seed"), [(-1.5, 22), (-2.0, 13), (-6.0, 3)])
def test_large_starts_and_small_entries(log10_alpha, seed):
    """u² − v² is noticeable, and one theta is 5e-4."""
    fields = {"dim": 5, "tokens": 3, "samples": 25, "teacher_seed": 500 + seed, "data_seed": 600 + seed, "stages": 6}
    predicted, measured, _ = both("gradual_rank", seed, log10_alpha=log10_alpha, **fields)
    found = {stage.index: stage.time for stage in measured}
    timed = [stage for stage in predicted if stage.time is not None]
    assert timed
    for stage in timed:
        assert stage.time == pytest.approx(found[stage.index], rel=1e-6)


def test_a_stage_that_does_not_happen_is_no_short_horizon():
    """KQ 4 turns back before half of its theta^k: stages overlap at this alpha."""
    fields = {"dim": 5, "tokens": 3, "samples": 25, "teacher_seed": 707, "data_seed": 807, "stages": 10}
    run = ss.run(ss.system("gradual_rank", log10_alpha=-2.5, **fields), "flow", 7)
    assert run.prediction is not None
    assert [stage.label for stage in run.prediction.stages if stage.time is None] == ["KQ 4"]
    assert "never reaches half" in run.prediction.notes[0]
    assert run.result.startswith("finished")


def test_of_a_tie_one_may_be_pushed_out():
    """Two entries of equal force; the first to grow ends at zero, and the other is what is marked."""
    curve, pull = jnp.array([[10.0, 3.0], [3.0, 1.0]]), jnp.array([1.0, 1.0])

    def h(x, p):
        return x[:, 0] * (p @ curve @ p / 2 - pull @ p)

    start = ([1.5, 0.3], [0.2, 0.1])
    one = (np.ones((1, 1)), np.zeros(1))
    system = from_function(h, lambda y, f: f, one, name="tie", size=2, start=start, log10_alpha=-32.0, stages=1)
    prediction = ss.predict(system)
    assert prediction.stages[0].extra["coordinates"] in ([0, 1], [1, 0])
    measured = ss.measured_stages(ss.flow(system, prediction=prediction), prediction, system)
    assert_times_agree(prediction.stages, measured)
