"""Training: same trajectory by statistics and by the network, optimizers, data, resume, divergence."""

from __future__ import annotations

import dataclasses
import errno
import os
import re

import jax
import numpy as np
import pytest

from saddlescope.core.errors import BadArgument, CannotGoOn
from saddlescope.core.registry import system
from saddlescope.core.start import Start
from saddlescope.dynamics import train as engine
from saddlescope.dynamics.train import train
from saddlescope.lab.run import run_face
from saddlescope.systems.linear_icl import LinearICL

from .conftest import EXAMPLE


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("optimizer", ["gd", "adam"])
def test_statistics_give_the_network_trajectory(rank, optimizer):
    """1000 steps on 500 sequences: the loss differs by at most 1e-12, from drops included."""
    settings = {"sequences": 500, "init_scale": 0.5, "rank": rank, "steps": 1000, "learning_rate": 0.2}
    if optimizer == "adam":
        settings["learning_rate"] = 0.01
    runs = [
        train(system("linear_icl", **settings, optimizer=optimizer, statistics=statistics), snapshots="linear")
        for statistics in (True, False)
    ]
    first, second = (run["loss"].values for run in runs)
    assert first[-1] < 0.7 * first[0]
    # Adam divides by the root of squared gradients, which magnifies rounding where they are small.
    assert np.abs(first - second).max() <= (1e-12 if optimizer != "adam" else 1e-10)


def test_step_of_0395_is_within_a_percent_of_the_flow():
    chosen = system("linear_icl", init_scale=0.03, learning_rate=0.1975)
    flow, trained = (run_face(chosen, face, 0) for face in ("flow", "train"))
    assert len(flow.stages) == len(trained.stages) == 4
    for one, other in zip(trained.stages, flow.stages, strict=True):
        assert one.time == pytest.approx(other.time, rel=1e-2)
    assert trained.result == "finished"


def test_time_is_first_order_in_the_learning_rate():
    gaps = []
    for rate in (0.2, 0.1, 0.05):
        chosen = system("linear_icl", init_scale=0.03, learning_rate=rate)
        flow, trained = (run_face(chosen, face, 0) for face in ("flow", "train"))
        gaps.append(abs((trained.stages[0].time or 0) / (flow.stages[0].time or 0) - 1))
    slopes = np.diff(np.log(gaps)) / np.diff(np.log([0.2, 0.1, 0.05]))
    assert (slopes > 0.8).all() and (slopes < 1.2).all()


def test_diverging_rate_is_a_result_with_a_way_out():
    trajectory = train(system("linear_icl", learning_rate=30.0))
    result = trajectory.attrs["result"]
    assert result.startswith("diverged: weights overflowed at step")
    bound = float(result.rsplit(" ", 1)[1])
    assert train(system("linear_icl", learning_rate=0.99 * bound)).attrs["result"] == "finished"


def test_divergence_that_does_not_overflow_is_told_too():
    result = train(system("linear_icl/softmax", "tiny", init_scale=100.0, learning_rate=10.0)).attrs["result"]
    assert result.startswith("diverged: ") and "smaller learning_rate" in result


def test_seed_moves_the_initial_weights_only():
    """Mini-batches are data: from one start, two seeds train alike, and another data_seed does not."""
    fields = {"fresh_data": True, "batch_size": 16, "steps": 20}
    chosen = system("linear_icl", "tiny", **fields)
    start = chosen.start(0)
    one, two = (train(chosen, seed, start=start)["loss"].values for seed in (0, 1))
    other = train(system("linear_icl", "tiny", **fields, data_seed=1), start=start)["loss"].values
    assert np.array_equal(one, two) and not np.array_equal(one, other)


def test_momentum_and_adam_reach_the_same_end():
    for optimizer, rate in (("momentum", 0.02), ("adam", 0.01)):
        trajectory = train(system("linear_icl", "tiny", optimizer=optimizer, learning_rate=rate, steps=20_000))
        expected = system("linear_icl", "tiny").predict(system("linear_icl", "tiny").start(0)).stages[-1].loss
        assert float(trajectory["loss"][-1]) == pytest.approx(expected, rel=1e-4)


def test_mini_batches_see_every_sample_once_an_epoch():
    seen = []

    class Spy(LinearICL):
        def loss(self, weights, frame, batch=None, key=None):
            if batch is not None:
                jax.debug.callback(lambda y: seen.append(np.asarray(y)), batch.y[:, -1])
            return super().loss(weights, frame, batch, key)

    chosen = Spy(system("linear_icl", "tiny_sample", sequences=60, batch_size=20, steps=6).spec)
    train(chosen)
    jax.effects_barrier()
    targets = np.sort(chosen.start(0).frame.sequences.y[:, -1])
    # Order of callbacks is not promised within a call, so epochs are told apart by their union: two of each.
    assert np.sort(np.concatenate(seen)) == pytest.approx(np.sort(np.repeat(targets, 2)))


def test_online_training_learns_the_population():
    """Fresh batches of 512 from a large start: the population's loss falls towards L(M_D), up to gradient noise."""
    chosen = system(
        "linear_icl", "tiny", init_scale=1.0, fresh_data=True, batch_size=512, learning_rate=0.1, steps=3000
    )
    trajectory = train(chosen)
    last = chosen.predict(chosen.start(0)).levels[-1]
    assert last < float(trajectory["loss"][-1]) < 1.1 * last
    again = train(chosen)
    assert np.array_equal(trajectory["loss"], again["loss"])


def test_schedules():
    base = {"steps": 400, "optimizer": "adam", "learning_rate": 0.05}
    cosine = train(system("linear_icl", "tiny", **base, schedule="cosine", warmup_steps=50))
    # The clock counts rates: half of the steps on a cosine, and half of the warm-up.
    assert cosine["time"].values[-1] == pytest.approx(2 * 0.05 * 0.5 * 400, rel=0.02)
    # At the minimum the loss no longer improves: the rate is halved again and again, and the clock slows down.
    falling = train(
        system(
            "linear_icl",
            "tiny",
            init_scale=1.0,
            learning_rate=0.2,
            steps=4000,
            schedule="plateau",
            plateau_every=20,
            plateau_patience=2,
        )
    )
    assert falling["time"].values[-1] < 0.5 * 2 * 0.2 * 4000
    with pytest.raises(BadArgument, match="must be set with schedule=cosine"):
        train(system("linear_icl", "tiny", schedule="cosine"))


def test_clipping_bounds_a_step():
    chosen = system("linear_icl", init_scale=3.0, clip_norm=1e-3, steps=1, learning_rate=1.0)
    trajectory = train(chosen, snapshots=[1])
    moved = [trajectory[name].values[-1] - trajectory[name].values[0] for name in ("value", "key", "query")]
    assert np.sqrt(sum((part**2).sum() for part in moved)) == pytest.approx(1e-3, rel=1e-9)


class Dropped(EXAMPLE.Squares):
    """Multiplies u by a random mask: the loss depends on its key."""

    name = "squares/dropout"
    faces = ("train",)

    def loss(self, weights, frame, batch=None, key=None):
        if key is None:
            return super().loss(weights, frame)
        mask = jax.random.bernoulli(key, 0.5, weights.u.shape)
        return super().loss(weights._replace(u=weights.u * mask), frame)

    @property
    def trains_exactly(self):
        return False


def test_dropout_gets_a_key_of_its_own_at_every_step():
    kinds = [Dropped(EXAMPLE.SquaresSpec(steps=40, init_scale=0.5, learning_rate=0.05, data_seed=d)) for d in (0, 0, 1)]
    runs = [train(chosen, snapshots="linear") for chosen in kinds]
    assert np.array_equal(runs[0]["p"], runs[1]["p"])
    assert not np.array_equal(runs[0]["p"], runs[2]["p"])
    stays = np.diff(runs[0]["p"].values, axis=0) == 0
    assert 0.3 < stays.mean() < 0.7  # half of the coordinates are masked at each step, and not the same ones
    assert not stays.all(axis=0).any()


def test_resumed_run_is_the_uninterrupted_one(tmp_path):
    """Stopped at 5000 steps and called again for 9000: every recorded number is that of one run of 9000."""
    settings = {"optimizer": "adam", "learning_rate": 0.01, "steps": 9000, "init_scale": 0.5}
    whole = train(system("linear_icl", **settings))
    file = tmp_path / "run.npz"
    train(
        system("linear_icl", **{**settings, "steps": 5000}),
        save=file,
        snapshots=[s for s in engine._snapshot_steps("log", 0, 9000) if s <= 5000],
    )
    resumed = train(system("linear_icl", **settings), save=file)
    assert whole.attrs["steps"] == resumed.attrs["steps"] == 9000
    common = np.intersect1d(whole["time"], resumed["time"])
    assert len(common) > 250
    for name in ("loss", "value", "key"):
        assert np.array_equal(whole[name].sel(time=common), resumed[name].sel(time=common))
    assert not list(tmp_path.glob("*.partial*"))


def test_saved_runs_of_others_are_refused(tmp_path):
    file = tmp_path / "run.npz"
    train(system("linear_icl", "tiny", steps=5), save=file)
    with pytest.raises(BadArgument, match="name another file"):
        train(system("linear_icl", "tiny", steps=5, init_scale=0.2), save=file)
    with pytest.raises(BadArgument, match="beyond the 3 asked for"):
        train(system("linear_icl", "tiny", steps=3), save=file)
    cosine = tmp_path / "cosine.npz"
    train(system("linear_icl", "tiny", steps=5, schedule="cosine"), save=cosine)
    with pytest.raises(BadArgument, match="name another file"):
        train(system("linear_icl", "tiny", steps=9, schedule="cosine"), save=cosine)
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(BadArgument, match="no saved run"):
        train(system("linear_icl", "tiny", steps=5), save=file)
    np.savez(tmp_path / "odd.npz", about=np.array("[1]"), steps=np.arange(3), elapsed=np.arange(3))
    np.save(tmp_path / "array.npy", np.arange(3))
    (tmp_path / "code.npz").write_text("import os")
    for name in ("odd.npz", "array.npy", "code.npz"):
        with pytest.raises(BadArgument, match="no saved run"):
            train(system("linear_icl", "tiny", steps=5), save=tmp_path / name)


def test_snapshots_are_where_they_were_asked_for():
    chosen = system("linear_icl", "tiny", steps=100)
    assert train(chosen, snapshots=[10, 50])["time"].values == pytest.approx(np.array([0, 10, 50, 100]) * 2 * 0.2)
    with pytest.raises(BadArgument, match="snapshots"):
        train(chosen, snapshots="often")


def test_passages_are_bracketed_by_single_steps():
    chosen = system("linear_icl", "tiny", init_scale=0.01)
    outcome = run_face(chosen, "train", 0)
    assert outcome.trajectory is not None
    time = outcome.trajectory["time"].values
    for stage in outcome.stages:
        after = int(np.searchsorted(time, stage.time or 0))
        assert time[after] - time[after - 1] == pytest.approx(2 * 0.2)


class Reduced(EXAMPLE.Squares):
    """Hands out p itself, as a system must whose weights are no floats."""

    name = "squares/reduced"
    starts_reduced = True

    def start(self, seed):
        point, frame = super().start(seed)
        return Start(self.reduce(point, frame), frame)

    def predict(self, start):
        return super().predict(Start(EXAMPLE.Weights(np.sqrt(start.point.p)), start.frame))


def test_state_without_weights_trains_by_descend_alone():
    chosen = Reduced(EXAMPLE.SquaresSpec(learning_rate=0.01))
    found = run_face(chosen, "train", 0)
    expected = run_face(EXAMPLE.Squares(EXAMPLE.SquaresSpec(learning_rate=0.01)), "train", 0)
    assert [s.time for s in found.stages] == pytest.approx([s.time for s in expected.stages], rel=1e-12)
    assert "exact reduced step" in found.solver
    with pytest.raises(BadArgument, match="only optimizer=gd"):
        train(Reduced(EXAMPLE.SquaresSpec(optimizer="adam")))


def test_softmax_attention_trains():
    outcome = run_face(system("linear_icl/softmax", "tiny", steps=3000, init_scale=1.0), "train", 0)
    assert outcome.result == "finished" and outcome.final_loss is not None
    assert outcome.trajectory is not None and outcome.final_loss < 0.8 * float(outcome.trajectory["loss"][0])
    with pytest.raises(BadArgument, match="sequences"):
        system("linear_icl/softmax", "tiny", sequences=None).start(0)


def test_train_without_theory_needs_steps():
    with pytest.raises(BadArgument, match="`steps` must be set"):
        train(system("linear_icl/softmax", "tiny", steps=None))


def test_stage_marks_of_a_lasting_rise():
    """ "stays above": of several rises only the last counts, in the engine's bookkeeping too."""
    from saddlescope.core.stage import Mark

    chosen = system("linear_icl", "tiny", steps=5)
    run = engine._Run(chosen, 0, chosen.start(0), None, None)
    run.marks = [Mark("loss", 0.0, "stays above")]
    run.signals = (("loss", ()),)
    assert run._passages(10, np.array([[-1.0], [1.0], [1.0]])) and 0 in run.crossed
    assert not run._passages(13, np.array([[1.0], [1.0]]))
    assert not run._passages(15, np.array([[1.0], [-1.0]])) and 0 not in run.crossed
    assert 18 in run._passages(17, np.array([[-1.0], [1.0]]))


def test_frozen_records():
    with pytest.raises(dataclasses.FrozenInstanceError):
        system("linear_icl").spec.heads = 3


class Stopped(Exception):
    pass


def stop_after(step):
    def tick(share, words=""):
        # "step 1,000 of 2,128, loss ..."
        if int(words.split()[1].replace(",", "")) >= step:
            raise Stopped

    return tick


def test_a_training_is_taken_up_after_it_was_prolonged(tmp_path, monkeypatch):
    """Wherever it was stopped, and when it had ended."""
    chosen, file = system("linear_icl/next_token", "tiny_sample"), tmp_path / "run.npz"
    few = range(0, 5000, 250)  # each is a place to stop at, and a file to write
    whole = train(chosen, snapshots=few)
    first = engine._steps(chosen, chosen.predict(chosen.start(0)), chosen.start(0).frame)[0]
    assert whole.attrs["steps"] == 2 * first
    monkeypatch.setattr(engine, "SAVE_EVERY", -1.0)
    for step in (first // 2, first + first // 3, 2 * first):
        file.unlink(missing_ok=True)
        with pytest.raises(Stopped):
            train(chosen, snapshots=few, save=file, tick=stop_after(step))
        train(chosen, snapshots=few, save=file)
        assert train(chosen, snapshots=few, save=file).equals(whole)


def test_a_training_that_has_arrived_goes_no_further(tmp_path):
    chosen = system("sparse_attention", "tiny")
    first = train(chosen, save=tmp_path / "run.npz")
    assert chosen.ends_on_arrival and train(chosen, save=tmp_path / "run.npz").equals(first)


def test_a_checkpoint_with_a_shortened_array_is_no_saved_run(tmp_path):
    """NumPy reads as far as the array's own header says, and a checksum that is not reached is not looked at."""
    file = tmp_path / "run.npz"
    train(system("linear_icl", "tiny", steps=650), save=file, snapshots=range(650))
    sound = file.read_bytes()
    places = [found.start() + 1 for found in re.finditer(rb"\(651,", sound)]
    assert len(places) > 3
    for place in places:
        file.write_bytes(sound[:place] + b"4" + sound[place + 1 :])
        with pytest.raises(CannotGoOn, match="no saved run"):
            train(system("linear_icl", "tiny", steps=900), save=file)


def test_a_lack_of_file_handles_is_no_damage(tmp_path, monkeypatch):
    file = tmp_path / "run.npz"
    train(system("linear_icl", "tiny", steps=5), save=file)

    def refuse(*_, **__):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(np, "load", refuse)
    with pytest.raises(OSError, match="Too many open files"):
        train(system("linear_icl", "tiny", steps=9), save=file)


def test_two_trainings_do_not_share_a_file(tmp_path):
    """The second would take the first one's checkpoint away: it is refused, whatever its settings are."""
    file = tmp_path / "run.npz"
    first = system("linear_icl", "tiny", steps=2000)
    refusals = []

    def interfere(share, words=""):
        if not refusals:
            with pytest.raises(BadArgument, match="another training is writing to it") as refused:
                train(system("linear_icl", "tiny", steps=50, learning_rate=0.2), save=file)
            refusals.append(refused)

    train(first, save=file, tick=interfere)
    assert refusals and [path.name for path in tmp_path.iterdir()] == ["run.npz"]
    assert int(train(first, save=file)["step"][-1]) == 2000


def test_a_pipe_is_no_checkpoint(tmp_path):
    """Reading one would wait for ever."""
    os.mkfifo(tmp_path / "run.npz")
    with pytest.raises(BadArgument, match="it is no file"):
        train(system("linear_icl", "tiny", steps=20), save=tmp_path / "run.npz")


def test_a_killed_training_lets_go_of_its_file(tmp_path):
    """What is left of a lock after a kill holds nobody up."""
    (tmp_path / ".run.npz.lock").touch()
    train(system("linear_icl", "tiny", steps=20), save=tmp_path / "run.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["run.npz"]
