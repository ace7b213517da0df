"""Trajectories say what they hold: all is described, all places are numbered, and pictures of xarray's are labelled."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import xarray
from matplotlib.figure import Figure

import saddlescope as ss
from saddlescope.core.observable import check_observables
from saddlescope.core.registry import subject_types
from saddlescope.core.trajectory import check_schema, described
from saddlescope.lab.request import Request
from saddlescope.lab.run import run
from saddlescope.lab.store import Store
from saddlescope.templates.squares import Squares
from saddlescope.watch.folder import Record
from saddlescope.watch.trajectory import trajectory as watched

from .neighbours import Pairs, tiny

WORDS = ("first", "second µ")


class Told(Squares):
    """With all that an observable, and a coordinate, may be. Words, as in the papers' letters, are not all ASCII."""

    observables = {
        **Squares.observables,
        "grown": ss.OverTime("loss times time", of=lambda time, series: time * series["loss"], symbol="L t"),
        "names": ss.Once("how many were there", "end"),
        "pace": ss.Observable("duration of a step", "coordinate", units="seconds"),
        "both": ss.Observable("product of two", "coordinate", "other"),
    }
    time = ss.Observable("time of the walk", symbol="τ", units="hours")

    def coordinates(self):
        return {
            **super().coordinates(),
            "other": ss.Coordinate("the other", "other", values=WORDS),
            "end": ss.Coordinate("end", "end"),
            "length": ss.Coordinate("how long it took", "end"),
        }


def made(kind: Any = Told, face: str = "train", **given: Any) -> xarray.Dataset:
    system, time = tiny(kind), np.arange(3.0)
    series = {"loss": 1 - time / 4, "p": np.ones((3, 2)), "pace": np.ones((3, 2)), "both": np.ones((3, 2, 2))}
    about = {"solver": "by hand", "result": "finished", "seconds": 1.0, "conserved_drift": None}
    given = {
        "step": np.arange(3),
        "constants": {"names": np.zeros(2)},
        "coordinates": {"end": ["a", "b"], "length": [5, 6]},
        **given,
    }
    return ss.build_trajectory(system, face, 0, time, series, **about, **given)


@pytest.fixture
def told():
    return made()


# ---- every system and study ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", subject_types())
def test_all_that_is_measured_is_described(name):
    """As the conformance suite asks of systems; here of studies too, and by every preset's coordinates."""
    kind = subject_types()[name]
    dims = {dim for one in kind.observables.values() for dim in one.dims}
    for preset in kind.presets:
        coordinates = kind(kind.preset(preset)).coordinates()
        assert {dim for one in coordinates.values() for dim in one.dims} <= dims
        assert not set(coordinates) & set(kind.observables)
        for one in [*kind.observables.values(), *coordinates.values(), kind.time]:
            assert one.says.strip() and len(one.label) < 100
    labels = [one.label for name, one in kind.observables.items() if name != "train_loss"]  # it is `loss`
    assert len(set(labels)) == len(labels)


# ---- what a trajectory says ------------------------------------------------------------------------------


def test_words_symbol_and_units():
    plain, whole = ss.Observable("loss"), ss.Observable("value of each head", "head", symbol="v_i", units="nats")
    assert (plain.label, plain.attrs) == ("loss", {"long_name": "loss"})
    assert whole.dims == ("head",) and whole.label == "value of each head, v_i [nats]"
    assert whole.attrs == {"long_name": "value of each head, v_i", "symbol": "v_i", "units": "nats"}
    assert pickle.loads(pickle.dumps(whole)) == whole != plain


def test_every_variable_and_dimension_of_a_run_is_described(told):
    assert {name: one.attrs["long_name"] for name, one in told.variables.items()} == {
        "loss": "loss, L",
        "p": "square of each weight, p_i",
        "grown": "loss times time, L t",
        "names": "how many were there",
        "pace": "duration of a step",
        "both": "product of two",
        "time": "time of the walk, τ",
        "step": "steps of the optimizer",
        "coordinate": "coordinate, i",
        "target": "target, s_i",
        "other": "the other",
        "end": "end",
        "length": "how long it took",
    }
    assert told["time"].attrs["units"] == "hours" and "units" not in told["loss"].attrs
    assert list(told["coordinate"]) == [1, 2] and list(told["target"]) == [2.0, 1.0]
    assert list(told["other"]) == [*WORDS] and list(told["end"]) == ["a", "b"] and list(told["length"]) == [5, 6]
    assert float(told["p"].sel(coordinate=2, time=1)) == 1 and told["both"].sel(other=WORDS[1]).shape == (3, 2)


def test_a_dimension_that_nothing_is_said_of_is_counted_from_1():
    class Quiet(Squares):
        def coordinates(self):
            return {}

    found = made(Quiet, face="flow", coordinates=None)
    assert list(found["coordinate"]) == [1, 2] and found["coordinate"].attrs == {"long_name": "coordinate"}
    assert found["time"].attrs == {"long_name": "time of the gradient flow, t", "symbol": "t"}


def test_time_is_not_the_flows_where_an_optimizer_has_its_own_pace():
    adam = tiny(optimizer="adam", learning_rate=1e-3, steps=3)
    assert "steps times learning rate" in ss.train(adam)["time"].attrs["long_name"]
    assert ss.train(tiny(steps=3))["time"].attrs["symbol"] == "t" == ss.flow(adam)["time"].attrs["symbol"]


def test_each_of_many_seeds_is_described():
    for one in ss.run_seeds(tiny(Pairs, horizon=5.0), "flow", range(3)):
        check_schema(one.trajectory)
        assert list(one.trajectory["coordinate"]) == [1, 2]


# ---- pictures --------------------------------------------------------------------------------------------


def drawn(array: Any, **how: Any) -> Any:
    """The axes of xarray's own picture; its texts, lines broken as they come, are joined."""
    axes = Figure().subplots()
    if how:
        array.plot.line(ax=axes, **how)
    else:
        array.plot(ax=axes)
    return axes


def flat(words: str) -> str:
    return " ".join(words.split())


def test_pictures_of_xarray_are_labelled(told):
    axes = drawn(told["p"], x="time", hue="target")
    assert flat(axes.get_ylabel()) == "square of each weight, p_i"
    assert flat(axes.get_xlabel()) == "time of the walk, τ [hours]"
    assert flat(axes.get_legend().get_title().get_text()) == "target, s_i"
    axes = drawn(told["both"].isel(time=-1))  # words are places too
    assert (flat(axes.get_xlabel()), flat(axes.get_ylabel())) == ("the other", "coordinate, i")
    assert flat(drawn(told["loss"], x="step").get_xlabel()) == "steps of the optimizer"


def test_what_is_watched_is_described():
    zeros = np.zeros((2, 2, 3))
    records = [Record(step, 1.0, "", np.zeros((2, 2, 3, 4)), zeros, zeros, np.ones((1, 5))) for step in (0, 10)]
    meta = {
        "family": "ours",
        "notes": [],
        "start": 0,
        "method": "by hand",
        "saddlescope": "0",
        "schedule": {"kind": "every", "every": 10},
        "layers": ["0", "1"],
        "start_norms": zeros,
        "lora_modules": ["m"],
    }
    found = watched(meta, records)
    assert all(one.attrs["long_name"] for one in found.variables.values()) and set(found.sizes) <= set(found.coords)
    # Layers and heads are counted from 0, as in checkpoints; directions from 1.
    assert [list(found[name].values) for name in ("layer", "circuit", "head", "mode", "module")] == [
        ["0", "1"],
        ["QK", "OV"],
        [0, 1, 2],
        [1, 2, 3, 4, 5],
        ["m"],
    ]
    axes = drawn(found["stable_rank"].sel(layer="1", circuit="OV"), x="time", hue="head")
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("steps of training", "stable rank of the change")


# ---- files -----------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("error")
def test_the_store_keeps_all_words(told, tmp_path):
    store, asked = Store(tmp_path), Request(tiny(Told), "train", (0,))
    of_a_run = run(tiny(steps=3), "train", 0)
    store.prepare()
    store.save(asked, [type(of_a_run)(**{**vars(of_a_run), "system": asked.system, "trajectory": told})])
    (found,) = store.load(asked)
    assert found.trajectory.identical(told)
    assert drawn(found.trajectory["both"].isel(time=-1))


def test_a_file_keeps_all_words(call, tmp_path):
    assert call("flow", "squares", "--preset", "tiny", "--out", tmp_path / "run.nc")[0] == 0
    found, right = xarray.load_dataset(tmp_path / "run.nc", engine="scipy"), ss.flow(tiny())
    for name, one in right.variables.items():
        assert found[name].attrs == one.attrs and np.array_equal(found[name], one)
    assert call("stages", tmp_path / "run.nc")[0] == 0


def test_words_and_seconds_come_back_from_a_file(told, tmp_path):
    told.to_netcdf(tmp_path / "told.nc", engine="scipy")
    found = xarray.load_dataset(tmp_path / "told.nc", engine="scipy", decode_times=False)
    assert list(found["other"]) == [*WORDS]
    assert described(found, tiny(Told)).identical(told)


def test_a_trajectory_from_before_the_words_gains_them(told):
    old = told.drop_vars([name for name in told.coords if name not in ("time", "step")]).drop_attrs()
    old.attrs = told.attrs
    with pytest.raises(ValueError, match="lacks coordinates along"):
        check_schema(old)
    found = described(old, tiny(Told))
    check_schema(found)
    assert found.drop_vars("end").identical(told.drop_vars(["end", "length"]))  # these only the run knew


# ---- mistakes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("observables", "words"),
    [
        ({"p": ("mode",)}, r"'p' must say what it is: Observable\('what it is, in a few words', 'mode'\), got"),
        ({"loss": ()}, r"'loss' must say what it is: Observable\('what it is, in a few words'\), got \(\)"),
        ({"p": "share"}, r"'p' must say what it is: Observable\('what it is, in a few words'\), got 'share'"),
        ({"head": ss.Observable("heads"), "p": ss.Observable("p", "head")}, "'head' is the name of a dimension too"),
        ({"time": ss.Observable("time")}, "'time' is the name of a dimension too"),
    ],
)
def test_observables_that_cannot_be(observables, words):
    with pytest.raises(TypeError, match=f"`observables` of Mine: {words}"):
        check_observables("Mine", observables)
    with pytest.raises(TypeError, match=f"`observables` of Mine: {words}"):
        type("Mine", (Squares,), {"observables": observables})


@pytest.mark.parametrize("wrong", [("head",), 5, None, len])
def test_an_observable_takes_words(wrong):
    for make in (ss.Observable, ss.Once, lambda *words: ss.OverTime(*words, of=max)):
        with pytest.raises(TypeError, match="takes words"):
            make(wrong)
        with pytest.raises(TypeError, match="takes words"):
            make("what it is", wrong)


def test_a_coordinate_has_a_value_for_each_place():
    class Short(Told):
        def coordinates(self):
            return {"target": ss.Coordinate("target", "coordinate", values=(1.0, 2.0, 3.0))}

    with pytest.raises(ValueError, match="'target' has 3 values, but its dimension 'coordinate' has 2 places"):
        made(Short, coordinates=None)


def test_a_coordinate_has_a_name_of_its_own():
    class Twice(Told):
        def coordinates(self):
            return {"p": ss.Coordinate("what it is", "coordinate", values=(1.0, 2.0))}

    with pytest.raises(ValueError, match="coordinate 'p' has the name of an observable: rename one of them"):
        made(Twice, coordinates=None)


def test_a_coordinate_of_the_run_must_be_declared():
    with pytest.raises(ValueError, match="unknown coordinate 'lenght': did you mean 'length'"):
        made(coordinates={"lenght": [5, 6]})


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("time", "hours", r"`time` of Mine must be an Observable\('what it counts'\), got 'hours'"),
        ("coordinates", 5, "`coordinates` of Mine must be a method, got 5"),
    ],
)
def test_names_of_the_contract_are_taken(name, value, words):
    with pytest.raises(TypeError, match=words):
        type("Mine", (Squares,), {name: value})
