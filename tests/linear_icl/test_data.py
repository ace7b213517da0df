"""Sequences, moments and the network: three ways to the same loss."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from saddlescope.core.registry import system
from saddlescope.systems.linear_icl import data, network, reduction


@pytest.mark.parametrize(
    ("name", "predict", "asked"),
    [("linear_icl", network.predict_last, -1), ("linear_icl/next_token", network.predict_each, slice(1, None))],
)
def test_population_loss_is_the_mean_over_sequences(name, predict, asked):
    """Closed form against 200,000 sequences; the error is judged by its own standard deviation."""
    chosen = system(name, "tiny", sequences=None)
    weights, frame = chosen.training.random_weights(0), chosen.start(0).frame
    sequences = data.draw_sequences(chosen.spec.replace(sequences=200_000, data_seed=5))
    errors = (sequences.y[:, asked] - np.asarray(predict(weights, sequences))) ** 2
    means = errors.reshape(len(errors), -1).mean(1)
    spread = means.std() / np.sqrt(len(means))
    assert abs(means.mean() - chosen.training.loss(weights, frame)) < 5 * spread
    assert spread < 0.05 * means.mean()


def test_second_moments_by_sampling():
    lam = np.array([0.4, 0.1])
    x = np.random.default_rng(0).normal(size=(200_000, 5, 2)) * np.sqrt(lam)
    covariance = np.einsum("pni,pnj->pij", x, x) / 5
    squares = np.einsum("pij,pjk->pik", covariance, covariance)
    spread = squares.std(0) / np.sqrt(len(squares))
    gap = squares.mean(0) - np.diag(data.second_moments(lam, 1 / 5))
    assert (np.abs(gap) < 5 * spread).all()


@pytest.mark.parametrize("name", ["linear_icl", "linear_icl/next_token"])
@pytest.mark.parametrize("rank", [1, 2])
def test_statistics_know_all_that_the_loss_knows(name, rank):
    """Loss on 300 sequences by the network and by their statistics, at random weights with all blocks."""
    by_network = system(name, "tiny_sample", sequences=300, rank=rank, statistics=False)
    by_moments = system(name, "tiny_sample", sequences=300, rank=rank, statistics=True)
    weights = by_network.training.random_weights(1)
    expected = float(by_network.training.loss(weights, by_network.start(0).frame))
    assert by_moments.training.loss(weights, by_moments.start(0).frame) == pytest.approx(expected, rel=1e-13)


def test_first_sequences_do_not_depend_on_how_many_are_drawn():
    few = data.draw_sequences(system("linear_icl", sequences=10).spec)
    many = data.draw_sequences(system("linear_icl", sequences=2500).spec)
    assert np.array_equal(few.x, many.x[:10]) and np.array_equal(few.y, many.y[:10])
    other = data.draw_sequences(system("linear_icl", sequences=10, data_seed=1).spec)
    assert not np.array_equal(few.x, other.x)


def test_initial_law():
    """Eq. (20): variances w²/H and w²/(HRD), within five standard deviations; other blocks zero."""
    spec = system("linear_icl", heads=5000, rank=2, init_scale=0.3).spec
    weights = data.initial_weights(spec, 0)
    for part, variance in ((weights.value, 0.09 / 5000), (weights.key, 0.09 / 40_000), (weights.query, 0.09 / 40_000)):
        assert part.var() == pytest.approx(variance, rel=5 * np.sqrt(2 / part.size))
    whole = data.initial_weights(system("linear_icl", sequences=5).spec, 3)
    small = data.initial_weights(system("linear_icl").spec, 3)
    assert np.array_equal(whole.value[:, -1:], small.value) and not whole.value[:, :-1].any()
    assert np.array_equal(whole.key[..., :4], small.key) and not whole.key[..., 4:].any()


def test_fold_and_unfold_are_transposes():
    """<unfold(t), T> = <t, fold(T)>, which is what makes the residual a gradient."""
    rng = np.random.default_rng(2)
    T, t = rng.normal(size=(4, 4, 3)), rng.normal(size=30)
    assert (reduction.unfold(t, 3) * T).sum() == pytest.approx(t @ reduction.fold(T), rel=1e-13)


@pytest.mark.parametrize("preset", ["tiny", "tiny_rank", "tiny_sample"])
def test_batches_are_loops(preset):
    """Velocity, Jacobian and observables of a batch equal those of its members."""
    chosen = system("linear_icl", preset)
    frame = chosen.start(0).frame
    members = [chosen.training.random_weights(seed) for seed in range(5)]
    jacobian, velocity = chosen.flow.jacobian(frame), partial(chosen.flow.velocity, frame=frame)
    batch = data.Weights(*(np.stack(parts) for parts in zip(*members, strict=True)))
    together = chosen.measure(chosen.view(batch, frame), frame)
    for number, member in enumerate(members):
        assert np.allclose(jacobian(batch)[number], jacobian(member), rtol=1e-13, atol=1e-13)
        for found, expected in zip(velocity(batch), velocity(member), strict=True):
            assert np.allclose(found[number], expected, rtol=1e-13, atol=1e-13)
        alone = chosen.measure(chosen.view(member, frame), frame)
        for name in chosen.observables:
            assert np.allclose(together[name][number], alone[name], rtol=1e-12, atol=1e-13)


def test_population_blocks_stay_zero_and_sample_blocks_leave():
    """E.1 is a statement about the population: on a sample the stray blocks get a gradient at once."""
    chosen = system("linear_icl", "tiny_sample")
    start = chosen.start(0)
    moved = chosen.flow.velocity(start.point, start.frame)
    assert np.abs(moved.value[:, :-1]).max() > 0 and np.abs(moved.key[..., -1]).max() > 0
