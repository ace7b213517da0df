"""cooccurrence by other ways to the same numbers: all weights, sentence by sentence, other solvers, closed forms."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import numpy as np
import pytest
from benchmarks import plain

import saddlescope as ss
from saddlescope.core.errors import BadArgument
from saddlescope.core.precision import on_device
from saddlescope.core.registry import system
from saddlescope.core.start import ReducedStart
from saddlescope.core.tree import layout_of, ravel
from saddlescope.dynamics.flow import flow
from saddlescope.dynamics.train import train
from saddlescope.numerics.integrate import integrate
from saddlescope.systems.cooccurrence import data, prediction, reduction
from saddlescope.systems.cooccurrence.evidence import measures
from saddlescope.systems.cooccurrence.spec import CooccurrenceSpec

SMALL = {"samples": 24, "tokens": 5, "width": 128, "neurons": 256, "sampled_neurons": 3}
MINUTE = {"samples": 12, "tokens": 3, "width": 40, "neurons": 10, "test_sets": 1}
TIGHT: dict[str, Any] = {"method": "dop853", "rtol": 1e-11, "atol": 1e-13}
FORMED = {"small": SMALL, "appendix": {**SMALL, "vocabulary": 20, "init": "kaiming", "output": "kaiming"}}
each_start = pytest.mark.parametrize("fields", FORMED.values(), ids=FORMED.keys())


# ---- the Gram form against the weights


@each_start
def test_velocity_is_the_reduced_gradient(fields):
    """1e-12 of the largest entry of every part: sums of some hundred products."""
    words = system("cooccurrence", **fields)
    weights, frame = words.training.random_weights(0), words.start(0).frame
    slope = jax.grad(words.training.loss)(on_device(weights), frame)
    down = jax.tree.map(lambda leaf: -leaf / words.clock(frame), slope)
    state, pushed = jax.jvp(lambda w: words.flow.reduce(w, frame), (on_device(weights),), (down,))
    for name, found, expected in zip(state._fields, words.flow.velocity(state, frame), pushed, strict=True):
        assert np.abs(found - expected).max() < 1e-12 * np.abs(expected).max(), name


@each_start
def test_the_network_has_the_gradient_of_appendix_b(fields):
    words = system("cooccurrence", **fields)
    weights, frame = words.training.random_weights(1), words.start(0).frame
    slope = jax.grad(words.training.loss)(on_device(weights), frame)
    for found, expected in zip(slope, plain.word_gradient(weights, frame), strict=True):
        assert np.abs(-np.asarray(found) - expected).max() < 1e-12 * np.abs(expected).max()


@pytest.mark.slow
@each_start
def test_two_thousand_steps_in_gram_matrices_are_those_of_the_weights(fields):
    """Every observable, fresh sentences and single neurons among them, to 1e-11 of its largest value."""
    fields = {**fields, "steps": 2000, "learning_rate": 1e-3 if fields is SMALL else 0.05}
    exact, network = (train(system("cooccurrence", **fields, gram=gram), 1) for gram in (True, False))
    assert "exact reduced step" in exact.attrs["solver"] and "network gradient" in network.attrs["solver"]
    for name in system("cooccurrence").observables:
        found, expected = exact[name].values[-1], network[name].values[-1]
        # Weights know a Gram matrix to rounding only: what has changed by less than 1e-3 of it is known to 1e-13.
        floor = 1e-13 if name.startswith(("moved", "score", "attention", "readout", "value_gram")) else 0.0
        assert np.abs(found - expected).max() <= 1e-11 * np.abs(expected).max() + floor, name
    assert exact["loss"].values[-1] < 0.1


def test_the_flow_of_gram_matrices_is_that_of_all_weights():
    """Loss at τ = 1e4 to 1e-9, relative: both solvers make 1e-11 per step."""
    words = system("cooccurrence", **MINUTE, horizon=1e4)
    start = words.start(0)
    velocity, flat = plain.word_flow(words, start)
    path = integrate(velocity, flat, 0.0, np.log1p(1e4), **TIGHT)
    weights = layout_of(start.point).unravel(path.state[-1])
    expected = float(words.training.loss(on_device(weights), start.frame))
    found = flow(words, start=start, solver="tight")["loss"].values[-1]
    assert abs(found / expected - 1) < 1e-9


def test_invariants_of_every_order_are_kept():
    """tr((H η)^k) and tr((J η)^k), k = 1 ... 4, from whole matrices: drift below 1e-10 of the largest."""
    words = system("cooccurrence", **MINUTE)
    start = words.start(0)
    state, frame = words.flow.reduce(start.point, start.frame), on_device(start.frame)
    layout = layout_of(state)
    velocity = jax.jit(lambda flat: words.flow.velocity(layout.unravel(flat), frame))
    path = integrate(lambda u, flat: np.exp(u) * ravel(velocity(flat)), ravel(state), 0.0, np.log1p(3e6), **TIGHT)

    def traces(flat):
        found, blocks = [], reduction._blocks(reduction.grams(layout.unravel(flat), frame), frame)
        for matrix, split in zip(blocks, (-1, 13), strict=True):
            signed = np.array(matrix)
            signed[:, split:] *= -1
            found.append([np.trace(np.linalg.matrix_power(signed, k)) for k in (1, 2, 3, 4)])
        return np.array(found)

    before, after = traces(path.state[0]), traces(path.state[-1])
    assert np.abs(after / before - 1).max() < 1e-10
    assert flow(words)["loss"].values[-1] < 1e-4


def test_attention_changes_are_known_below_rounding():
    """p − p(0), formed without p: at width 1e9 it is 1e-20, and linear in the scores (Lemma G.2)."""
    words = system("cooccurrence", samples=12, tokens=4, width=10**9, horizon=1e3)
    start = words.start(0)
    state, tiny = start.point, 1e-9
    moved = state._replace(scores=tiny * np.random.default_rng(0).standard_normal(state.scores.shape))
    frame = on_device(start.frame)
    attention = reduction.attend(moved, frame, frame.train.words)
    key, query = frame.train.words[:, None, :], frame.train.words[:, :, None]
    inner = frame.units.scores * moved.scores[key, query] / frame.root
    linear = attention.now * (inner - (attention.now * inner).sum(-1, keepdims=True))
    assert np.abs(attention.change).max() < 1e-20
    np.testing.assert_allclose(attention.change, linear, rtol=1e-10, atol=1e-12 * np.abs(linear).max())


# ---- starts


def test_gram_matrices_are_drawn_from_the_law_of_weights():
    """Mean and spread of every part over 300 starts, drawn and formed: within five standard errors."""
    spec = CooccurrenceSpec(width=50, neurons=12, samples=6, tokens=3, test_sets=1, sampled_neurons=2)
    size, count = data.draw_sentences(spec)[2], 300

    def formed(seed):
        weights, output = data.initial_weights(spec, size, seed)
        return data.grams_of(weights, output, spec.followed), output[: spec.followed]

    def drawn(seed):
        grams, _, signs = data.draw_grams(spec, size, seed + 10_000)
        return grams, signs

    def numbers(grams, signs):
        value, readout = signs[:, None] * grams.neuron_value, signs * grams.neuron_readout
        return ravel(grams._replace(neuron_value=value, neuron_readout=readout))

    one, other = (np.array([numbers(*make(seed)) for seed in range(count)]) for make in (formed, drawn))
    for power in (1, 2):
        gap = (one**power).mean(0) - (other**power).mean(0)
        error = np.sqrt(((one**power).var(0) + (other**power).var(0)) / count)
        assert np.abs(gap / error).max() < 5


def test_more_vectors_than_their_width_are_drawn_directly():
    rng = np.random.default_rng(0)
    factor = data.gram_factor(rng, 5, 20)
    assert np.linalg.matrix_rank(factor @ factor.T) == 5
    assert np.linalg.matrix_rank(data.gram_factor(rng, 20, 5) @ data.gram_factor(rng, 20, 5).T) == 5
    narrow = system("cooccurrence", width=3, neurons=5000, samples=12, tokens=3, horizon=10.0)
    grams = narrow.start(0).frame.start
    assert isinstance(narrow.start(0), ReducedStart) and np.linalg.matrix_rank(grams.key_gram) == 3


@pytest.mark.slow
def test_any_width_costs_the_same():
    evaluations = []
    for width in (256, 10**9):
        trajectory = flow(system("cooccurrence", samples=24, width=width))
        evaluations.append(int(trajectory.attrs["solver"].partition("(")[2].split()[0]))
        assert trajectory.attrs["conserved_drift"] < 1e-10
    assert max(evaluations) < 1.5 * min(evaluations)


# ---- sentences


def sentences_of(**fields):
    return data.draw_sentences(CooccurrenceSpec(**fields))


def check_types(sentences, length):
    for words, label, kind in zip(sentences.words, sentences.labels, sentences.kinds, strict=True):
        assert sorted(words[words < 3]) == list(data.HOLDS[kind]) and len(words) == length
        assert label == (1 if kind == 0 else -1)


def test_sentences_follow_definition_2_1():
    train_set, test, size = sentences_of(samples=60, tokens=5)
    check_types(train_set, 5)
    check_types(test, 5)
    assert np.bincount(train_set.kinds).tolist() == [30, 10, 10, 10] and size == 3 + 160 + 8
    irrelevant = train_set.words[train_set.words >= 3]
    assert len(np.unique(irrelevant)) == len(irrelevant) == 160
    assert not set(irrelevant) & set(test.words[test.words >= 3])
    assert test.weights.sum() == pytest.approx(1) and np.bincount(test.kinds, test.weights)[0] == pytest.approx(1 / 2)


def test_words_repeat_and_come_in_topics():
    _, _, size = sentences_of(samples=60, tokens=5, vocabulary=64)
    assert size <= 64
    sentences, _, _ = sentences_of(samples=600, tokens=5, vocabulary=64, topics=61)
    assert all(len(set(words[words >= 3])) <= 1 for words in sentences.words)
    sentences, fresh, size = sentences_of(samples=12, tokens=4, vocabulary=100, repeats=False)
    irrelevant = sentences.words[sentences.words >= 3]
    assert len(np.unique(irrelevant)) == len(irrelevant)
    assert not set(irrelevant) & set(fresh.words[fresh.words >= 3])


def test_types_may_be_drawn_or_given():
    sentences, _, _ = sentences_of(samples=61, tokens=4, type_counts=(31, 10, 12, 8))
    assert np.bincount(sentences.kinds).tolist() == [31, 10, 12, 8]
    by_chance = [sentences_of(samples=61, sampled_types=True, data_seed=seed)[0] for seed in range(4)]
    drawn = {tuple(np.bincount(sentences.kinds)) for sentences in by_chance}
    assert len(drawn) > 1 and all(sum(counts) == 61 for counts in drawn)


# ---- closed forms


def test_seven_numbers_with_infinitely_many_sentences():
    """At τ = 1e7: corrections are of order ln τ/τ."""
    model = prediction.seven(None, (2, 3, 3, 4))
    course = prediction.follow(model, np.zeros(7), 1e7)
    rate = model.response @ (model.weights * model.labels / (1 + np.exp(course.margin[-1])))
    loss = prediction.log_loss(course.margin[-1]) @ model.weights
    found = [-rate[2] / rate[0], 1e7 * loss, 1e7 * rate[0], -1e7 * rate[2], course.turn, course.right]
    np.testing.assert_allclose(found, [1.5, 17, 2, 3, 3.565, 12.979], rtol=1e-3)
    assert course.turn is not None
    peak = prediction.log_loss(prediction.follow(model, np.zeros(7), course.turn).margin[-1][1])
    assert peak == pytest.approx(0.8026, abs=1e-4)


@pytest.mark.parametrize("tokens", [3, 4, 5, 7, 10, 30, 100])
def test_the_four_shares_are_those_of_the_formula(tokens):
    """Whether or not the fourth type counts; and R = 1 at n = 3(L+1), nowhere else."""
    words = (tokens - 3, tokens - 2, tokens - 2, tokens - 1)
    for n in (6, 12, 18, 24, 36, 60, 120, 600, 6000, 60_000, prediction.threshold(tokens)):
        late = prediction.late((n / 2, n / 6, n / 6, n / 6), words)
        found = late.ratio, late.loss_tau, late.fresh_margins[1]
        np.testing.assert_allclose(found, prediction.late_by_formula(n, tokens), rtol=1e-10, atol=1e-12)
        assert np.sign(round(late.ratio - 1, 10)) == np.sign(n - prediction.threshold(tokens))
        assert late.exponent < 1


@pytest.mark.parametrize(("samples", "tokens"), [(60, 5), (24, 5), (36, 7), (12, 5), (24, 3)])
def test_the_four_shares_are_where_the_seven_numbers_end(samples, tokens):
    spec = CooccurrenceSpec(samples=samples, tokens=tokens)
    model = prediction.seven_of(spec)
    course = prediction.follow(model, np.zeros(7), 1e12)
    late = prediction.late(spec.counts, spec.words)
    pull = 1e12 * model.weights / (1 + np.exp(course.margin[-1]))
    np.testing.assert_allclose(pull, late.pulls, atol=0.01 * late.pulls.max())
    assert 1e12 * prediction.log_loss(course.margin[-1]) @ model.weights == pytest.approx(late.loss_tau, rel=2e-3)


def test_shares_of_sentences_are_those_of_types_where_no_word_repeats():
    for fields in ({"samples": 24}, {"samples": 36, "tokens": 7}, {"samples": 12}, {"type_counts": (1, 1, 1, 57)}):
        words = system("cooccurrence", width=10**6, **fields)
        frame = words.start(0).frame
        both = prediction.late_by_sentence(frame), prediction.late_of(words.spec, frame)
        for found, expected in zip(*both, strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-8)


def test_repeated_words_end_where_their_sentences_put_them():
    """At τ = 1e6, to 2%: sentences that hardly count settle slowly."""
    words = system("cooccurrence", vocabulary=40, samples=24, width=10**6, horizon=1e6)
    trajectory, expected = flow(words), ss.predict(words)
    assert trajectory["balance_ratio"].values[-1] == pytest.approx(expected.observables["balance_ratio"], rel=0.02)
    assert trajectory["loss_tau"].values[-1] == pytest.approx(expected.observables["loss_tau"], rel=0.03)
    assert all(stage.extra["limit_time"] is None for stage in expected.stages)


def test_the_outlook_names_what_fails():
    def outlook(**fields):
        return ss.predict(system("cooccurrence", **fields)).notes[0]

    assert "test loss as tau^-0.283" in outlook()
    assert "with the first signal and with the second signal end up wrong" in outlook(samples=12)
    assert "the test loss stays" in outlook(samples=18)
    assert "with both signals end up wrong" in outlook(type_counts=(1, 1, 1, 57))


def test_fresh_sentences_do_not_move_the_training_set():
    for fields in ({"vocabulary": 40, "topics": 4}, {"vocabulary": 40}, {}):
        few, many = (sentences_of(samples=24, test_sets=sets, **fields)[0] for sets in (1, 5))
        for one, other in zip(few.words, many.words, strict=True):
            # Numbers of words may shift; which of them are equal, and which are common, may not.
            assert sorted(one[one < 3]) == sorted(other[other < 3])
            assert len(set(one)) == len(set(other))


def test_any_counts_balance():
    rng = np.random.default_rng(0)
    for counts in rng.integers(1, 40, size=(200, 4)):
        late = prediction.late(counts, (2, 3, 3, 4))
        assert late.pulls.min() >= -1e-12 and late.margins.min() >= 1 - 1e-9
        np.testing.assert_allclose(late.margins[late.pulls > 1e-9], 1.0)


def test_frozen_gram_matrices_give_both_moments():
    """Their error is that of attention and Gram matrices, which change by 1/m."""
    gaps = []
    for width in (10**4, 10**6, 10**8):
        words = system("cooccurrence", samples=24, width=width, horizon=100.0)
        prediction = ss.predict(words, 1)
        expected = [stage.time for stage in prediction.stages]
        trajectory = flow(words, 1, solver="tight", prediction=prediction)
        found = [stage.time for stage in ss.measured_stages(trajectory, prediction)]
        gaps.append(np.abs(np.array(found) / expected - 1).max())
    assert gaps[0] < 1e-3 and all(later < earlier / 30 for earlier, later in itertools.pairwise(gaps))


def test_infinitely_many_sentences_end_where_they_should():
    """At width 1e9: R and L τ to 3e-4, which is the clock's σ0²/σ1²."""
    trajectory = flow(system("cooccurrence", samples=None, width=10**9, horizon=1e7))
    assert trajectory["balance_ratio"].values[-1] == pytest.approx(1.5, rel=1e-4)
    assert trajectory["loss_tau"].values[-1] == pytest.approx(17, rel=5e-4)


# ---- errors and the command line


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"type_counts": (30, 10, 10, 9)}, "they sum to 59"),
        ({"type_counts": (30, 30)}, "four numbers"),
        ({"type_counts": (60, 0, 0, 0)}, "each at least 1"),
        ({"tokens": 2}, "`tokens` must be at least 3"),
        ({"vocabulary": 64, "repeats": False}, "set vocabulary=171"),
        ({"vocabulary": 3}, "`vocabulary` must be at least 4"),
        ({"samples": 61}, "a multiple of 6"),
        ({"samples": 60_000}, "`samples` must be such that the state"),
        ({"samples": None, "sampled_types": True}, "false where `samples` is null"),
        ({"width": 0}, "`width` must be at least 1"),
        ({"width": 10**9, "init": "kaiming"}, "at most 4096 with init=kaiming"),
        ({"width": 10**9, "output": "kaiming"}, "at most 4096 with output=kaiming"),
        ({"neurons": 0}, "`neurons` must be at least 1"),
        ({"topics": 100, "vocabulary": 64}, "`topics` must be at most 61"),
        ({"topics": 2}, "1 where `vocabulary` is null"),
        ({"init_scale": float("nan")}, "`init_scale`"),
        ({"init": "xavier"}, "unknown init"),
        ({"sampled_neurons": -1}, "`sampled_neurons` must be zero or positive"),
        ({"batch_size": 61}, "`batch_size` must be at most `samples` = 60"),
        ({"batch_size": 6, "fresh_data": True}, "`fresh_data` must be false"),
        ({"samples": None, "vocabulary": 64}, "null where `samples` is null"),
        ({"samples": None, "init": "kaiming"}, "gaussian where `samples` is null"),
        ({"width": 10**6, "gram": False}, "`gram` must be true above width 4096"),
    ],
)
def test_bad_input_names_the_argument_and_the_way_out(fields, words):
    with pytest.raises(BadArgument, match=words.replace("(", r"\(")):
        system("cooccurrence", **fields)


def test_types_that_chance_left_out_are_named():
    with pytest.raises(BadArgument, match="another data_seed"):
        system("cooccurrence", samples=6, sampled_types=True).start(0)


def test_drawn_starts_are_trained_by_gd_alone():
    with pytest.raises(BadArgument, match="only optimizer=gd"):
        train(system("cooccurrence", width=10**6, samples=12, tokens=3, optimizer="adam", steps=3))


def test_a_rate_that_overshoots_says_so():
    words = system("cooccurrence", samples=12, tokens=3, width=64, steps=60)
    bound = words.training.stable_rate(words.start(0).frame)
    assert bound is not None
    slow, fast, absurd = (train(words.changed(learning_rate=r * bound)).attrs["result"] for r in (0.5, 1.5, 1e4))
    assert slow == "finished" and "overshoots; at the start GD is stable below" in fast
    assert absurd.startswith("diverged")


@pytest.mark.slow
def test_mini_batches_and_other_optimizers_train():
    for extra in ({"batch_size": 4}, {"optimizer": "adam", "learning_rate": 1e-5}, {"optimizer": "momentum"}):
        trajectory = train(system("cooccurrence", samples=12, tokens=3, width=64, steps=200, **extra))
        assert trajectory["loss"].values[-1] < trajectory["loss"].values[0]


@pytest.mark.slow
def test_other_sizes_through_the_command_line(answer):
    found = answer("flow", "cooccurrence", "--set", "samples=36", "tokens=7", "width=1000000")
    late = prediction.late((18, 6, 6, 6), (4, 5, 5, 6))
    assert found["observables"]["balance_ratio"] == pytest.approx(late.ratio, rel=6e-3)
    assert found["observables"]["loss_tau"] == pytest.approx(late.loss_tau, rel=0.015)
    assert [stage["label"].partition(":")[0] for stage in found["stages"]] == ["T0.5", "T1"]
    assert found["conserved_drift"] < 1e-10
    for name in ("train_loss", "test_loss", "balance_ratio", "loss_tau"):
        assert isinstance(found["observables"][name], float)
    endless = answer("predict", "cooccurrence", "--set", "samples=null", "tokens=9")
    assert endless["observables"]["balance_ratio"] == pytest.approx(1.5)
    assert [stage["limit_time"] for stage in endless["stages"]] == pytest.approx([3.565, 12.979], rel=1e-3)


@pytest.mark.slow
def test_appendix_a(answer):
    found = answer("train", "cooccurrence", "--preset", "paper")
    words = system("cooccurrence", **found["spec"])
    step = words.clock(words.start(0).frame) * found["spec"]["learning_rate"]
    turn, right = (stage["time"] / step for stage in found["stages"])
    assert 400 < turn < 800 and 1300 < right < 2500
    change = np.array(found["observables"]["score_change"])
    assert min(change[0, 1], change[1, 0], -change[2, 0], -change[2, 1]) > 0.05


@pytest.mark.slow
def test_measures_of_a_start_use_what_the_run_started_from():
    """G(0) of weights and of drawn Gram matrices alike."""
    for width in (256, 10**6):
        words = system("cooccurrence", samples=12, tokens=3, width=width, horizon=1.0)
        flowed = ss.run(words, "flow", 2)
        start, _ = measures.start_of(flowed)
        np.testing.assert_allclose(start.value, flowed.series("value")[0], rtol=1e-12)
