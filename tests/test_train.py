"""Training: optimizers, data, schedules, snapshots, divergence as a result, and going on from a file."""

from __future__ import annotations

import dataclasses
import errno
import os
import re

import jax
import numpy as np
import pytest

import saddlescope as ss
from saddlescope.core.errors import BadArgument, CannotGoOn
from saddlescope.dynamics import train as engine
from saddlescope.dynamics.train import train
from saddlescope.templates.squares import Squares
from saddlescope.templates.squares.data import State, Weights
from saddlescope.templates.squares.system import SquaresTheory

from .neighbours import NOISE, Pairs, PairsTraining, times, tiny


class Dropped(Squares):
    """Trained by its network, a random part of which is left out: the loss depends on its key."""

    name = "squares/dropout"
    share = 0.5

    @ss.part
    class training(ss.Descent):
        def loss(self, weights, frame, batch=None, key=None):
            mask = 1.0 if key is None else jax.random.bernoulli(key, self.system.share, weights.u.shape)
            return (((weights.u * mask) ** 2 - frame.p) ** 2).sum() / 4


class ByNetwork(Dropped):
    """Nothing is left out."""

    name = "squares/by_network"
    share = 1.0


@pytest.mark.parametrize("steps", [{"learning_rate": 0.01, "steps": 2000}, {"learning_rate": 0.3, "steps": 100}])
def test_exact_steps_are_those_of_the_network(steps):
    """To 1e-12, drops included."""
    exact, network = (train(tiny(kind, **steps), snapshots="linear") for kind in (Squares, ByNetwork))
    assert "exact reduced step" in exact.attrs["solver"] and "network gradient" in network.attrs["solver"]
    assert exact["loss"].values[-1] < 1e-6
    for name in ("loss", "p"):
        assert np.abs(exact[name].values - network[name].values).max() <= 1e-12


def test_stage_times_are_first_order_in_the_learning_rate():
    rates, gaps = (0.1, 0.05, 0.025), []
    for rate in rates:
        flowed, trained = (ss.run(tiny(learning_rate=rate), face) for face in ("flow", "train"))
        assert len(flowed.stages) == len(trained.stages) == 2 and trained.result == "finished"
        gaps.append(np.array(times(trained.stages)) / times(flowed.stages) - 1)
    slopes = np.diff(np.log(gaps), axis=0) / np.diff(np.log(rates))[:, None]
    assert (slopes > 0.8).all() and (slopes < 1.2).all()


def test_diverging_rate_is_a_result_with_a_way_out():
    result = train(tiny(Pairs, learning_rate=30.0)).attrs["result"]
    assert result.startswith("diverged: weights overflowed at step")
    bound = float(result.rsplit(" ", 1)[1])
    below, above = (float(train(tiny(Pairs, learning_rate=r * bound, steps=2000))["loss"][-1]) for r in (0.99, 1.01))
    assert below < 1e-9 and above > 1e-3


def test_divergence_that_does_not_overflow_is_told_too():
    result = train(tiny(learning_rate=30.0, steps=3)).attrs["result"]
    assert result.startswith("diverged: the loss grew") and "smaller learning_rate" in result


def test_seed_moves_the_initial_weights_only():
    """Mini-batches are data: from one start, two seeds train alike, and another data_seed does not."""
    fields = {"fresh_data": True, "batch_size": 16, "steps": 20}
    chosen = tiny(Pairs, **fields)
    start = chosen.start(0)
    one, two = (train(chosen, seed, start=start)["loss"].values for seed in (0, 1))
    other = train(tiny(Pairs, **fields, data_seed=1), start=start)["loss"].values
    assert np.array_equal(one, two) and not np.array_equal(one, other)


@pytest.mark.parametrize(("optimizer", "rate"), [("momentum", 0.02), ("adam", 0.01)])
def test_momentum_and_adam_reach_the_same_end(optimizer, rate):
    trajectory = train(tiny(optimizer=optimizer, learning_rate=rate, steps=5000))
    assert trajectory["p"].values[-1] == pytest.approx([2.0, 1.0], rel=1e-12)


def test_mini_batches_see_every_sample_once_an_epoch():
    seen = []

    class Spy(Pairs):
        @ss.part
        class training(PairsTraining):
            def loss(self, weights, frame, batch=None, key=None):
                if batch is not None:
                    jax.debug.callback(lambda p: seen.append(np.asarray(p)), batch.p[:, 0])
                return super().loss(weights, frame, batch, key)

    train(tiny(Spy, batch_size=20, steps=6))
    jax.effects_barrier()
    # Order of callbacks is not promised within a call, so epochs are told apart by their union: two of each.
    assert np.sort(np.concatenate(seen)) == pytest.approx(np.repeat(2.0 + NOISE[:, 0], 2))


def test_online_training_ends_where_the_noise_of_its_batches_keeps_it():
    """A step moves p − s by −a (p − s − noise), a = 4 s η: the loss stays at the sum of a / (2 − a) / B."""
    rate, size = 0.05, 512
    chosen = tiny(Pairs, init_scale=0.1, fresh_data=True, batch_size=size, learning_rate=rate, steps=4000)
    trajectory = train(chosen, snapshots="linear")
    shares = 4 * rate * np.array([2.0, 1.0])
    expected = (shares / (2 - shares)).sum() / size
    # The mean over some 300 snapshots, 10 steps apart, of a number that spreads about as wide as it is large: 6%.
    assert trajectory["loss"].values[100:].mean() == pytest.approx(expected, rel=0.2)
    assert np.array_equal(trajectory["loss"], train(chosen, snapshots="linear")["loss"])


def test_schedules():
    cosine = train(tiny(steps=400, optimizer="adam", learning_rate=0.05, schedule="cosine", warmup_steps=50))
    # The clock counts rates: half of the steps on a cosine, and half of the warm-up.
    assert cosine["time"].values[-1] == pytest.approx(0.05 * 0.5 * 400, rel=0.02)
    # At the minimum the loss no longer improves: the rate is halved again and again, and the clock slows down.
    plateau = {"schedule": "plateau", "plateau_every": 20, "plateau_patience": 2}
    falling = train(tiny(init_scale=0.1, learning_rate=0.2, steps=4000, **plateau))
    assert falling["time"].values[-1] < 0.5 * 0.2 * 4000
    with pytest.raises(BadArgument, match="must be set with schedule=cosine"):
        train(tiny(schedule="cosine"))


def test_clipping_bounds_a_step():
    trajectory = train(tiny(ByNetwork, init_scale=0.1, clip_norm=1e-3, steps=1, learning_rate=1.0), snapshots=[1])
    moved = np.diff(np.sqrt(trajectory["p"].values), axis=0)
    assert np.sqrt((moved**2).sum()) == pytest.approx(1e-3, rel=1e-9)


def test_dropout_gets_a_key_of_its_own_at_every_step():
    kinds = [tiny(Dropped, steps=40, init_scale=0.1, learning_rate=0.05, data_seed=seed) for seed in (0, 0, 1)]
    runs = [train(chosen, snapshots="linear") for chosen in kinds]
    assert np.array_equal(runs[0]["p"], runs[1]["p"])
    assert not np.array_equal(runs[0]["p"], runs[2]["p"])
    stays = np.diff(runs[0]["p"].values, axis=0) == 0
    assert 0.3 < stays.mean() < 0.7  # half of the coordinates are masked at each step, and not the same ones
    assert not stays.all(axis=0).any()


def test_snapshots_are_where_they_were_asked_for():
    chosen = tiny(Pairs, steps=100)
    assert train(chosen, snapshots=[10, 50])["time"].values == pytest.approx(np.array([0, 10, 50, 100]) * 2 * 0.1)
    with pytest.raises(BadArgument, match="snapshots"):
        train(chosen, snapshots="often")


def test_passages_are_bracketed_by_single_steps():
    run = ss.run(tiny(Pairs, learning_rate=0.01), "train")
    time = run.series("time")
    assert len(run.stages) == 2 and np.diff(time).max() > 0.03
    for stage in run.stages:
        after = int(np.searchsorted(time, stage.time or 0))
        assert time[after] - time[after - 1] == pytest.approx(2 * 0.01)


def test_stage_marks_of_a_lasting_rise():
    """ "stays above": of several rises only the last counts, in the engine's bookkeeping too."""
    chosen = tiny(steps=5)
    run = engine._Run(chosen, 0, chosen.start(0), None, None)
    run.marks = [ss.Mark("loss", 0.0, "stays above")]
    run.signals = (("loss", ()),)
    assert run._passages(10, np.array([[-1.0], [1.0], [1.0]])) and 0 in run.crossed
    assert not run._passages(13, np.array([[1.0], [1.0]]))
    assert not run._passages(15, np.array([[1.0], [-1.0]])) and 0 not in run.crossed
    assert 18 in run._passages(17, np.array([[-1.0], [1.0]]))


class Reduced(Squares):
    """Hands out p itself, as a system must whose weights are no floats."""

    name = "squares/reduced"

    def start(self, seed):
        point, frame = super().start(seed)
        return ss.ReducedStart(State(point.u**2), frame)

    @ss.part
    class theory(SquaresTheory):
        def predict(self, start):
            return super().predict(ss.Start(Weights(np.sqrt(start.point.p)), start.frame))


def test_state_without_weights_trains_by_descend_alone():
    found, expected = (ss.run(tiny(kind, learning_rate=0.01), "train") for kind in (Reduced, Squares))
    assert times(found.stages) == pytest.approx(times(expected.stages), rel=1e-12)
    assert "exact reduced step" in found.solver
    with pytest.raises(BadArgument, match="only optimizer=gd"):
        train(tiny(Reduced, optimizer="adam"))


class Untold(Squares):
    theory = None


def test_train_without_theory_needs_steps():
    with pytest.raises(BadArgument, match="`steps` must be set"):
        train(tiny(Untold))
    assert train(tiny(Untold, steps=5)).attrs["result"] == "finished"


def test_frozen_records():
    with pytest.raises(dataclasses.FrozenInstanceError):
        tiny().spec.init_scale = 1.0


# ---- going on from a file


def test_resumed_run_is_the_uninterrupted_one(tmp_path):
    """Stopped at 5000 steps and called again for 9000: every recorded number is that of one run of 9000."""
    settings = {"optimizer": "adam", "learning_rate": 0.001, "steps": 9000}
    whole = train(tiny(**settings))
    file = tmp_path / "run.npz"
    few = [step for step in engine._snapshot_steps("log", 0, 9000) if step <= 5000]
    train(tiny(**{**settings, "steps": 5000}), save=file, snapshots=few)
    resumed = train(tiny(**settings), save=file)
    assert whole.attrs["steps"] == resumed.attrs["steps"] == 9000
    common = np.intersect1d(whole["time"], resumed["time"])
    assert len(common) > 250
    for name in ("loss", "p"):
        assert np.array_equal(whole[name].sel(time=common), resumed[name].sel(time=common))
    assert not list(tmp_path.glob("*.partial*"))


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
    chosen, file = tiny(learning_rate=0.01), tmp_path / "run.npz"
    few = range(0, 3000, 100)  # each is a place to stop at, and a file to write
    whole = train(chosen, snapshots=few)
    first = engine._steps(chosen, ss.predict(chosen), chosen.start(0).frame)[0]
    assert whole.attrs["steps"] == 2 * first > 1000
    monkeypatch.setattr(engine, "SAVE_EVERY", -1.0)
    for step in (first // 2, first + first // 3, 2 * first):
        file.unlink(missing_ok=True)
        with pytest.raises(Stopped):
            train(chosen, snapshots=few, save=file, tick=stop_after(step))
        train(chosen, snapshots=few, save=file)
        assert train(chosen, snapshots=few, save=file).equals(whole)


def test_a_training_that_has_arrived_goes_no_further(tmp_path):
    """It is over as soon as the loss is below 1e-3."""
    ending = ss.Ending(horizon=1e5, arrival=ss.Mark("loss", 1e-3), at_once=True)
    settings = {"prediction": dataclasses.replace(ss.predict(tiny()), ending=ending), "save": tmp_path / "run.npz"}
    first = train(tiny(), **settings)
    assert first.attrs["result"] == "finished" and first.attrs["steps"] < 0.01 * 1e5 / 0.1
    assert first["loss"].values[-1] <= 1e-3
    assert train(tiny(), **settings).equals(first)


def test_saved_runs_of_others_are_refused(tmp_path):
    file = tmp_path / "run.npz"
    train(tiny(steps=5), save=file)
    with pytest.raises(BadArgument, match="name another file"):
        train(tiny(steps=5, init_scale=0.02), save=file)
    with pytest.raises(BadArgument, match="beyond the 3 asked for"):
        train(tiny(steps=3), save=file)
    cosine = tmp_path / "cosine.npz"
    train(tiny(steps=5, schedule="cosine"), save=cosine)
    with pytest.raises(BadArgument, match="name another file"):
        train(tiny(steps=9, schedule="cosine"), save=cosine)
    file.write_bytes(file.read_bytes()[:200])
    np.savez(tmp_path / "odd.npz", about=np.array("[1]"), steps=np.arange(3), elapsed=np.arange(3))
    np.save(tmp_path / "array.npy", np.arange(3))
    (tmp_path / "code.npz").write_text("import os")
    for name in ("run.npz", "odd.npz", "array.npy", "code.npz"):
        with pytest.raises(BadArgument, match="no saved run"):
            train(tiny(steps=5), save=tmp_path / name)


def test_a_checkpoint_with_a_shortened_array_is_no_saved_run(tmp_path):
    """NumPy reads as far as the array's own header says, and a checksum that is not reached is not looked at."""
    file = tmp_path / "run.npz"
    train(tiny(steps=650), save=file, snapshots=range(650))
    sound = file.read_bytes()
    places = [found.start() + 1 for found in re.finditer(rb"\(651,", sound)]
    assert len(places) > 3
    for place in places:
        file.write_bytes(sound[:place] + b"4" + sound[place + 1 :])
        with pytest.raises(CannotGoOn, match="no saved run"):
            train(tiny(steps=900), save=file)


def test_a_lack_of_file_handles_is_no_damage(tmp_path, monkeypatch):
    file = tmp_path / "run.npz"
    train(tiny(steps=5), save=file)

    def refuse(*_, **__):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(np, "load", refuse)
    with pytest.raises(OSError, match="Too many open files"):
        train(tiny(steps=9), save=file)


def test_two_trainings_do_not_share_a_file(tmp_path):
    """The second would take the first one's checkpoint away: it is refused, whatever its settings are."""
    file, first = tmp_path / "run.npz", tiny(steps=2000)
    refusals = []

    def interfere(share, words=""):
        if not refusals:
            with pytest.raises(BadArgument, match="another training is writing to it") as refused:
                train(tiny(steps=50, learning_rate=0.2), save=file)
            refusals.append(refused)

    train(first, save=file, tick=interfere)
    assert refusals and [path.name for path in tmp_path.iterdir()] == ["run.npz"]
    assert int(train(first, save=file)["step"][-1]) == 2000


def test_a_pipe_is_no_checkpoint(tmp_path):
    """Reading one would wait for ever."""
    os.mkfifo(tmp_path / "run.npz")
    with pytest.raises(BadArgument, match="it is no file"):
        train(tiny(steps=20), save=tmp_path / "run.npz")


def test_a_killed_training_lets_go_of_its_file(tmp_path):
    """What is left of a lock after a kill holds nobody up."""
    (tmp_path / ".run.npz.lock").touch()
    train(tiny(steps=20), save=tmp_path / "run.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["run.npz"]
