"""sparse_attention by other ways to the same numbers: full tensors, one-hot vectors, frequencies, a construction."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks import plain

from saddlescope.core.errors import BadArgument
from saddlescope.core.precision import on_device
from saddlescope.core.registry import system
from saddlescope.dynamics.flow import flow
from saddlescope.dynamics.train import train
from saddlescope.numerics.integrate import integrate
from saddlescope.systems.sparse_attention import chain, network, plateaus, prediction, reduction
from saddlescope.systems.sparse_attention.data import Weights
from saddlescope.systems.sparse_attention.spec import FullSpec, MarkovSpec, RegressionSpec

SMALL = MarkovSpec(
    positions=5, patterns=2, heads=2, vocabulary=4, samples=50, test_samples=40, batch_size=10, precision="float64"
)


# ---- the regression flow


def full_flow(regression, seed: int, times: np.ndarray) -> np.ndarray:
    """Attention (times, H, T) of the flow of all V_k (d x d) and q_k (T), written out with G and P (d x d x T)."""
    velocity, flat = plain.tensor_flow(regression, regression.start(seed))
    found, now, logits = [], 0.0, regression.spec.heads * regression.spec.positions
    for time in times:
        if time > now:
            flat = integrate(velocity, flat, now, time, rtol=1e-11, atol=1e-13).state[-1]
        found.append(plain.attention_of(flat[-logits:].reshape(regression.spec.heads, -1)))
        now = time
    return np.array(found)


def test_the_reduced_flow_is_that_of_all_weights():
    """Features that are not orthogonal, V(0) != 0: 1e-8, where the two solvers' errors of 1e-11 per step add up."""
    sizes = {"positions": 8, "patterns": 3, "heads": 4, "dimension": 6, "base_scale": 2.0, "features": "orthogonal"}
    start = {"value_noise": 0.3, "init_value": -0.2, "init_noise": 0.2}
    regression = system("sparse_attention", **sizes, **start, horizon=30.0, stages=0)
    gram = regression.start(0).frame.features @ regression.start(0).frame.features.T
    assert np.abs(gram - np.eye(3)).max() > 0.01
    trajectory = flow(regression, solver="tight")
    places = np.linspace(0, len(trajectory.time) - 1, 12).astype(int)
    expected = full_flow(regression, 0, trajectory["time"].values[places])
    found = trajectory["attention"].values[places]
    assert np.abs(found[..., :3] - expected[..., :3]).max() < 1e-8
    assert np.abs(found[..., 3] - expected[..., 3:].sum(-1)).max() < 1e-8
    assert expected[-1, :, 0].max() > 0.5  # something was learned on the way


def test_equal_heads_and_positions_may_be_followed_once():
    fields = {"positions": 12, "base_scale": 2.0, "init_noise": 0.0, "init_value": 0.3, "horizon": 20.0, "stages": 0}
    whole, lumped, coupled, both = (
        flow(system("sparse_attention", **fields, lumped=one, coupled=other), solver="tight")
        for one, other in ((False, False), (True, False), (False, True), (True, True))
    )
    for other in (lumped, coupled, both):
        for name in ("loss", "residual", "attention", "value", "loss_parts"):
            gap = np.abs(other[name].values[-1] - whole[name].values[-1]).max()
            assert gap < 1e-8, name  # two runs of the solver at 1e-11 per step


def test_a_state_of_equal_heads_moves_as_all_of_them_do():
    spec = RegressionSpec(positions=7, patterns=2, heads=3, dimension=3, coupled=True, lumped=True)
    coupled = system("sparse_attention", **spec.to_dict())
    weights, frame = coupled.training.random_weights(0), coupled.start(0).frame
    apart = system("sparse_attention", **{**spec.to_dict(), "coupled": False, "lumped": False})
    slope = jax.grad(apart.training.loss)(Weights(*map(jnp.asarray, weights)), apart.start(0).frame)
    expected = coupled.flow.reduce(Weights(*(-np.asarray(part) for part in slope)), frame)
    for found, true in zip(coupled.flow.velocity(coupled.flow.reduce(weights, frame), frame), expected, strict=True):
        np.testing.assert_allclose(found, true, atol=1e-12)


def test_no_k_heads_do_better_than_a_plateau():
    """Random heads, their values at the optimum for their attention: the loss stays above L_k."""
    rng = np.random.default_rng(0)
    for heads in (1, 2, 3):
        spec = RegressionSpec(positions=6, patterns=4, heads=heads, dimension=2)
        G = np.zeros((4, 6))
        G[:, :4] = np.diag(spec.strengths)
        for _ in range(200):
            s = rng.dirichlet(np.full(6, 0.3), heads)
            P = G @ np.linalg.pinv(s) @ s
            assert ((G - P) ** 2).sum() / 2 >= prediction.plateau_losses(spec)[-1] - 1e-9


def test_a_run_without_horizon_ends_where_it_arrives():
    regression = system("sparse_attention", positions=10, base_scale=5.0)
    smooth, stepped = flow(regression), train(regression)
    assert smooth.attrs["result"] == stepped.attrs["result"] == "finished"
    assert float(smooth["loss"][-1] / smooth["loss"][0]) == pytest.approx(1e-3, rel=1e-6)
    assert float(stepped["loss"][-1] / stepped["loss"][0]) < 1e-3  # looked at between chunks of steps
    assert stepped["step"].values[-1] == stepped.attrs["steps"]


@pytest.mark.parametrize("value", [1000.0, -3.0])
def test_a_run_ends_near_the_last_plateau_wherever_it_starts(value):
    regression = system("sparse_attention", positions=10, init_value=value)
    last = flow(regression).isel(time=-1)
    assert float(last["loss"]) == pytest.approx(1e-3 * prediction.plateau_losses(regression.spec)[0], rel=1e-6)


def test_the_strongest_pattern_may_be_the_last():
    regression = system("sparse_attention", positions=10, importance_ratio=0.6, init_value=0.1)
    (first, *_), found = regression.theory.predict(regression.start(0)).stages, flow(regression)
    assert first.label == "pattern 3" and first.time is not None
    assert int(found["residual"].values[np.searchsorted(found["time"].values, first.time)].argmin()) == 2


def test_heads_that_never_arrive_are_given_up():
    """They rest at another vertex: no later time would help, and none is advised."""
    regression = system("sparse_attention", base_scale=1.0, coupled=True, lumped=True, init_noise=0.0, init_value=-20.0)
    found = flow(regression)
    assert found.attrs["result"] == "horizon_too_short: saw 0 of 1 stages by time 1e+06, after prolonging"
    assert regression.theory.predict(regression.start(0)).stages[0].time is None


def test_an_order_that_lasts():
    m = np.array([3.0, 2.0, 1.0])
    even = np.full(3, 0.1)
    assert prediction.printed_order(np.array([-1.0, -1.0, -1.0]), even)
    assert not prediction.lasting_order(np.array([-1.0, -1.0, -1.0]), even, m)
    assert prediction.lasting_order(np.array([-1.0, -2.0, -4.0]), even, m)
    assert not prediction.lasting_order(np.array([1.0, 0.0, 0.0]), np.array([0.1, 0.2, 0.1]), m)


def test_differences_between_heads_move_as_the_linearised_flow_says():
    """H heads a little apart, their sum unchanged, against `linearized(apart=True)` of the coupled state."""
    fields = {"positions": 6, "patterns": 2, "heads": 2, "dimension": 2, "base_scale": 2.0}
    apart = system("sparse_attention", **fields)
    coupled = system("sparse_attention", **fields, coupled=True)
    frame, common = apart.start(0).frame, coupled.start(0).frame
    rng = np.random.default_rng(3)
    c, q, dc, dq = (rng.standard_normal((1, count)) for count in (2, 6, 2, 6))
    size = 1e-6

    def moved(step):
        parts = (np.concatenate([x + step * dx, x - step * dx]) for x, dx in ((c, dc), (q, dq)))
        state = reduction.pack(*parts, frame=frame)
        return reduction.unpack(apart.flow.velocity(state, frame), frame)

    product = reduction.linearized(reduction.pack(c, q, common), common, apart=True)
    expected = reduction.unpack(product(reduction.pack(dc, dq, common)), common)
    for up, down, true in zip(moved(size), moved(-size), expected, strict=True):
        np.testing.assert_allclose((up - down)[:1] / (2 * size), true, atol=1e-7)  # differences of 1e-6


# ---- the chain


@pytest.mark.parametrize("intervals", [((1,), (2,)), ((2, 3), (1,)), ((3,), (1, 2))])
def test_sequences_have_the_law_of_eq_1(intervals):
    """Frequencies of the next token after every context of a small chain, within 5 standard deviations."""
    spec = MarkovSpec(patterns=2, vocabulary=3, base_scale=1.0, intervals=intervals, positions=2)
    features = chain.draw_features(spec.chain)
    tables = chain.lag_tables(features, spec.lags)
    tokens = chain.sample(tables, 2, 120_000, np.random.default_rng(1))
    w = spec.window
    for t in (w, w + 1):
        codes = tokens[:, t - w : t] @ 3 ** np.arange(w)
        for code in np.unique(codes):
            rows = tokens[codes == code]
            logits = sum(
                features[k] @ np.eye(3)[rows[0, t - lag]] / len(interval)
                for k, interval in enumerate(intervals)
                for lag in interval
            )
            share = np.exp(logits) / np.exp(logits).sum()
            found = np.bincount(rows[:, t], minlength=3) / len(rows)
            assert (np.abs(found - share) < 5 * np.sqrt(share / len(rows))).all()


def test_online_sequences_have_the_law_of_the_stored_ones():
    frame = chain.build_frame(SMALL.replace(samples=60_000))
    fresh = np.asarray(network.draw(SMALL, on_device(frame), jax.random.PRNGKey(0), 60_000).tokens)
    stored = frame.train.tokens
    assert fresh.shape == stored.shape

    def pairs(tokens, lag):
        joint = np.zeros((4, 4))
        np.add.at(joint, (tokens[:, -1], tokens[:, -1 - lag]), 1)
        return joint / len(tokens)

    for lag in (1, 2, 3, 4):
        deviation = np.sqrt(pairs(stored, lag) / 60_000) * 5 * np.sqrt(2)
        assert (np.abs(pairs(fresh, lag) - pairs(stored, lag)) < deviation + 1e-4).all()


def test_truths_are_the_chains_own_probabilities():
    frame = chain.build_frame(SMALL)
    logits = np.zeros((40, 5, 4))
    for k, interval in enumerate(SMALL.lags):
        for lag in interval:
            seen = np.eye(4)[frame.test[:, SMALL.window - lag : frame.test.shape[1] - lag]]
            logits += seen @ frame.features[k].T / len(interval)
    np.testing.assert_allclose(frame.truths[-1], chain.log_softmax(logits), atol=1e-12)
    entropy = -(np.exp(frame.truths[-1]) * frame.truths[-1]).sum(-1).mean()
    assert float(frame.entropy) == pytest.approx(entropy)


def test_plateaus_from_nothing_to_everything():
    """P_0 is log d less the entropy; all intervals leave nothing (the fit stops at 1e-6); in between, it falls."""
    spec = MarkovSpec(vocabulary=6, positions=10, base_scale=2.0)
    found = [plateaus.plateau_excess(spec.chain, learned) for learned in range(4)]
    entropy = chain.build_frame(spec.replace(test_samples=4000)).entropy
    assert found[0] == pytest.approx(np.log(6) - entropy, rel=0.02)  # two samples of sequences
    assert found[0] > found[1] > found[2] > found[3]
    assert found[3] < 1e-4


# ---- the networks


def test_rows_are_looked_up_as_one_hot_products_have_them():
    rng = np.random.default_rng(0)
    table, places = jnp.asarray(rng.standard_normal((5, 3))), jnp.asarray(rng.integers(5, size=(4, 6)))
    slope = jnp.asarray(rng.standard_normal((4, 6, 3)))

    def by_one_hot(table):
        return jnp.einsum("nix,xd->nid", jax.nn.one_hot(places, 5), table)

    np.testing.assert_allclose(network.look_up(table, places), by_one_hot(table), atol=1e-14)
    found = jax.grad(lambda t: (network.look_up(t, places) * slope).sum())(table)
    np.testing.assert_allclose(found, jax.grad(lambda t: (by_one_hot(t) * slope).sum())(table), atol=1e-13)


def test_the_minimal_model_is_its_formula():
    weights = system("sparse_attention/minimal", **SMALL.to_dict()).training.random_weights(0)
    tokens = chain.build_frame(SMALL).test[:7]
    scores, attention = network.minimal(weights, SMALL, tokens[:, :-1])
    w = SMALL.window
    for t in range(5):
        for k in range(2):
            row = np.exp(weights.logits[k, t, : t + w])
            np.testing.assert_allclose(attention[k, t, : t + w], row / row.sum(), atol=1e-12)
            assert (np.asarray(attention[k, t, t + w :]) == 0).all()
        expected = sum(
            np.eye(4)[tokens[:, :-1]].transpose(0, 2, 1) @ np.asarray(attention[k, t]) @ weights.values[k].T
            for k in range(2)
        )
        np.testing.assert_allclose(scores[:, t], expected, atol=1e-12)


def changes(chosen, places):
    """How far the prediction of each position moves with the tokens at some places."""
    weights, tokens = chosen.training.random_weights(1), chain.build_frame(SMALL).test[:6].copy()
    before, _ = network.log_probabilities(weights, chosen.spec, tokens)
    tokens[:, places] = (tokens[:, places] + 1) % 4
    after, _ = network.log_probabilities(weights, chosen.spec, tokens)
    return np.abs(before - after).max((0, 2))


@pytest.mark.parametrize("name", ["sparse_attention/minimal", "sparse_attention/full"])
def test_predictions_do_not_see_what_comes(name):
    found = changes(system(name, **{**SMALL.to_dict(), **({"hidden": 6} if "full" in name else {})}), -2)
    assert (found[:-1] == 0).all() and found[-1] > 1e-6  # an input of the last prediction alone


@pytest.mark.parametrize("restriction", ["windows", "band"])
def test_restricted_models_see_c_tokens(restriction):
    fields = {**SMALL.to_dict(), "context": 2, "restriction": restriction, "hidden": 6}
    found = changes(system("sparse_attention/full", **fields), slice(0, 5))
    unseen = [t for t in range(5) if SMALL.window + t - 2 >= 5]
    assert (found[unseen] == 0).all() and found[0] > 1e-6


def test_one_prediction_from_a_window():
    spec = SMALL.replace(positions=1, context=2)
    assert network.cut(spec, np.zeros((7, spec.window + 1), int)).shape == (7, 2)


def test_the_construction_solves_the_task_in_both_models():
    """Excess loss below 1e-9 at λ = 20: what is left is exp(−40)."""
    frame = chain.build_frame(SMALL)
    weights = network.construction(SMALL, frame, 20.0)
    assert 0 <= float(network.measure(weights, SMALL, frame)["excess"]) < 1e-9
    parts = dict.fromkeys(("layer_norm", "residual", "mlp", "keys", "output", "embedding"), False)
    spec = FullSpec(**{**SMALL.to_dict(), **parts, "hidden": 6, "steps": 5, "batch_size": 10})
    bare = network.initial_full(spec, 0)
    d, width = 4, 4 + spec.inputs
    query, value = np.zeros((2, width, width)), np.zeros((2, width, width))
    for k, interval in enumerate(spec.lags):
        for place in range(spec.window - 1, spec.inputs):  # the place of the last token before the predicted one
            for lag in interval:
                query[k, d + place, d + place - lag + 1] = 20.0
        value[k, :d, :d] = frame.features[k].T
    built = bare._replace(query=query, value=value)
    assert 0 <= float(network.measure(built, spec, frame)["excess"]) < 1e-9
    blunt = bare._replace(query=query / 20, value=value)
    assert float(network.measure(blunt, spec, frame)["excess"]) > 0.01


def test_dropout_drops_in_training_only():
    chosen = system("sparse_attention/full", **{**SMALL.to_dict(), "dropout": 0.5}, hidden=6)
    start = chosen.start(0)
    quiet = chosen.training.loss(start.point, start.frame)
    assert float(quiet) == float(chosen.training.loss(start.point, start.frame))
    one, two = (float(chosen.training.loss(start.point, start.frame, key=jax.random.PRNGKey(n))) for n in (0, 1))
    assert one != two and one != float(quiet)


def test_the_full_model_has_the_papers_size():
    """Counted by hand: embeddings (50 + 31) 255, attention 4 · 255², MLP 2 · 255 · 64 + 64 + 255, read 255 · 50 + 50,
    three norms of 2 · 255."""
    start = network.initial_full(system("sparse_attention/full", **FULL_SIZE).spec, 0)
    assert sum(part.size for part in start) == 81 * 255 + 4 * 255**2 + 2 * 255 * 64 + 319 + 12_800 + 6 * 255


FULL_SIZE = {"vocabulary": 50, "interval_length": 4, "hidden": 255, "feedforward": 64}


# ---- what is refused, and the command line


@pytest.mark.parametrize(
    ("name", "fields", "words"),
    [
        ("sparse_attention", {"patterns": 50}, "every pattern has a position of its own"),
        ("sparse_attention", {"importance_ratio": 0}, "importance_ratio.*positive"),
        ("sparse_attention", {"importance_ratio": -1.7}, "importance_ratio.*positive"),
        ("sparse_attention", {"patterns": 10, "dimension": 3}, "cannot be orthonormal"),
        ("sparse_attention", {"importance_ratio": 1e4}, "strengths are between"),
        ("sparse_attention", {"features": "any"}, "features"),
        ("sparse_attention", {"batch_size": 10}, "population"),
        ("sparse_attention", {"heads": 0}, "without a head"),
        ("sparse_attention/minimal", {"vocabulary": 1}, "leaves nothing to predict"),
        ("sparse_attention/minimal", {"intervals": [[1, 2], [2, 3], [4]]}, "overlap: lag 2"),
        ("sparse_attention/minimal", {"intervals": [[1, 2], [4, 5], [6]]}, "lag 3 is missing"),
        ("sparse_attention/minimal", {"intervals": [[0, 1], [2], [3]]}, "lag 4 is missing"),
        ("sparse_attention/minimal", {"intervals": [[1], [], [2]]}, "at least one lag"),
        ("sparse_attention/minimal", {"intervals": [[1], [2]]}, "set both"),
        ("sparse_attention/minimal", {"intervals": 3}, "must be a list"),
        ("sparse_attention/minimal", {"importance_ratio": 0.5}, "in another order"),
        ("sparse_attention/minimal", {"batch_size": 10_000}, "at most `samples`"),
        ("sparse_attention/minimal", {"context": 9}, "at most w = 6"),
        ("sparse_attention/full", {"hidden": 64}, "a multiple of `heads`"),
        ("sparse_attention/full", {"dropout": 1.0}, "dropout"),
    ],
)
def test_bad_parameters_are_named(name, fields, words):
    with pytest.raises(BadArgument, match=words):
        system(name, **fields)


def test_other_problems_go_through_the_command_line(answer):
    fields = ["positions=12", "patterns=4", "heads=5", "importance_ratio=2", "base_scale=4", "init_noise=0.01"]
    flowed = answer("flow", "sparse_attention", "--set", *fields, "--seed", "3")
    assert [stage["label"] for stage in flowed["stages"]] == [f"pattern {k}" for k in (1, 2, 3, 4)]
    assert np.all(np.diff([stage["time"] for stage in flowed["stages"]]) > 0)
    squares = np.array([32.0, 16.0, 8.0, 4.0]) ** 2
    assert [stage["loss"] for stage in flowed["stages"][:3]] == pytest.approx(
        [squares[k:].sum() / 2 for k in (1, 2, 3)], rel=1e-3
    )
    assert flowed["conserved_drift"] < 1e-10
    predicted = answer("predict", "sparse_attention", "--set", *fields, "--seed", "3")
    assert predicted["stages"][0]["time"] == pytest.approx(flowed["stages"][0]["time"], rel=0.01)
    assert predicted["stages"][1]["time"] is None
    chained = ["vocabulary=5", "positions=6", "patterns=2", "intervals=[[3],[1,2]]", "steps=20", "batch_size=20"]
    trained = answer("train", "sparse_attention/minimal", "--set", *chained, "samples=40", "test_samples=30")
    assert trained["spec"]["intervals"] == [[3], [1, 2]] and trained["result"] == "finished"
    assert set(trained["observables"]) >= {"loss", "excess", "divergence", "mass"}
