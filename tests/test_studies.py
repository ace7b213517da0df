"""Studies: experiments on networks that are no System, through the same lab; tried on a walk that costs nothing."""

from __future__ import annotations

import csv
import dataclasses
import json
import os
import shutil
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import saddlescope as ss
from saddlescope.core import registry
from saddlescope.core.claim import NEEDS_FULL
from saddlescope.core.errors import BadArgument
from saddlescope.core.room import Line, room, rooms
from saddlescope.dynamics.own_loop import take_folder
from saddlescope.lab.closure import closure
from saddlescope.lab.plan import perform
from saddlescope.lab.record import record
from saddlescope.lab.records import Records, thinned
from saddlescope.lab.report import verdict_rows, write_report
from saddlescope.lab.reproduce import carry_out, choose, requests_of
from saddlescope.lab.request import Request
from saddlescope.lab.store import Store
from saddlescope.testing.conformance import check_system

from .conftest import unbeaten
from .packages import install
from .test_damage import flipped

PACKAGE = {
    "walk/__init__.py": """
from .study import Short, Walk

CITATION = "Nobody: A walk (2025)"
STUDIES = (Walk, Short)
""",
    "walk/study.py": '''
"""A loss that falls by a factor. The environment says what this machine lacks, and when a run is killed."""

import os
from dataclasses import dataclass

import numpy as np

from saddlescope import Observable, OwnLoop, Parameters, Subject, build_trajectory, part, require, source

from .images import size_of


@dataclass(frozen=True, kw_only=True)
class WalkSpec(Parameters):
    """Of a walk.

    steps: how many.
    rate: by which the loss falls.
    big: whether it needs the whole machine.
    """

    steps: int = 20
    rate: float = 0.1
    big: bool = False

    def check(self) -> None:
        require(0 < self.rate < 1, "rate", self.rate, "between 0 and 1")


class Walking(OwnLoop):
    libraries = ("pytest", "a_library_that_nobody_has")

    def lacks(self):
        return os.environ.get("WALK_LACKS", "")

    @property
    def alone(self):
        return self.spec.big

    @source("nobody2025", "Eq. (1)")
    def train(self, seed, folder, tick):
        file = folder / "losses" if folder else None
        losses = [float(line) for line in file.read_text().split()] if file and file.exists() else [2.0 + seed]
        found = len(losses)
        while len(losses) <= self.spec.steps:
            losses.append(losses[-1] * (1 - self.spec.rate))
            if file:
                file.write_text("\\n".join(map(repr, losses)))
            if len(losses) == int(os.environ.get("WALK_ENDS", "0")):
                raise KeyboardInterrupt
            tick((len(losses) - 1) / self.spec.steps, f"step {len(losses) - 1}")
        steps, series = np.arange(len(losses)), {"loss": losses, "weight": np.outer(losses, np.ones(size_of()))}
        about = {"solver": "by hand", "result": "finished", "seconds": 0.5, "conserved_drift": None, "step": steps}
        extra = {"device": "slide rule", "dtype": "float32", "process": os.getpid(), "found": found}
        return build_trajectory(self.system, "train", seed, steps, series, **about, extra=extra)


class Walk(Subject):
    name = "walk"
    paper = "nobody2025"
    summary = "a loss that falls"
    spec_type = WalkSpec
    presets = {"tiny": {"steps": 9}, "quick": {}, "paper": {"steps": 40}, "imagenet": {"big": True}}
    observables = {"loss": Observable("loss"), "weight": Observable("weight of each layer", "layer")}
    training = part(Walking)


class Short(Walk):
    name = "walk/short"
''',
    "walk/images/__init__.py": "from walk.images.sizes import size_of\n",
    "walk/images/sizes.py": "def size_of():\n    return 2\n",
    "walk/evidence/__init__.py": "",
    "walk/evidence/claims.py": """
from saddlescope import Claim, all_of, monotone

from .measures import loss_of

CLAIMS = tuple(
    Claim(
        name=name,
        says="The loss falls.",
        source=("nobody2025", "Sec. 1"),
        experiment=experiment,
        seeds=all_of(2),
        measured=loss_of,
        relation=monotone("falls", because="it falls by a factor"),
    )
    for name, experiment in (("falls", "walks"), ("falls_far", "long_walks"), ("falls_alone", "big_walk"))
)
""",
    "walk/evidence/measures.py": "def loss_of(run):\n    return run.series('loss')\n",
    "walk/evidence/experiments.py": """
from saddlescope import Experiment, Size, over

EXPERIMENTS = (
    Experiment("walks", "Does it fall?", "walk", "train", Size(3), Size(2, over("rate", 0.1, 0.2))),
    Experiment("long_walks", "Does it fall for long?", "walk", "train", Size(2), None, fields={"steps": 40}),
    Experiment("big_walk", "Does it fall on a big machine?", "walk", "train", Size(2), Size(2), fields={"big": True}),
)
""",
    "walk/evidence/figures.py": """
from saddlescope import Figure


def draw(axes, results):
    for runs in results.values():
        axes["a"].plot(runs[0].trajectory["time"], runs[0].trajectory["loss"])


FIGURES = tuple(
    Figure(name, "Losses", "Fig. " + name, "The loss over the steps.", "It falls.", (experiment,), draw)
    for name, experiment in (("1", "walks"), ("2", "long_walks"), ("3", "big_walk"))
)
""",
    "walk/network.py": "import a_library_that_nobody_has\n\n\nclass Network:\n    pass\n",
}


def forget():
    registry.forget()
    for name in [name for name in sys.modules if name.partition(".")[0] == "walk"]:
        del sys.modules[name]


@pytest.fixture(autouse=True)
def installed(site):
    """The walk as an installed package, found in workers too."""
    install(site, "walk", PACKAGE, kind="studies")
    yield site / "walk"
    forget()


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "out" / "runs")


def walk(**overrides: Any) -> Any:
    return ss.subject("walk", **overrides)


def walking() -> Any:
    """The class of its training, whose methods a test may exchange."""
    return type(walk().training)


def request(**overrides: Any) -> Request:
    return Request(walk(**overrides), "train", (0,))


# ---- what a study is -------------------------------------------------------------------------------------


def test_a_study_is_found_and_is_no_system():
    assert {"squares", "walk", "walk/short"} <= set(ss.subject_types()) and "walk" not in ss.system_types()
    with pytest.raises(BadArgument, match=r"walk is a study.*saddlescope.subject\('walk'\)"):
        ss.system("walk")


def test_of_two_with_one_name_the_first_is_kept_and_the_second_told(installed):
    file = installed / "__init__.py"
    file.write_text("from .study import Walk\n\nclass Other(Walk): ...\n\nSTUDIES = (Walk, Other)\n")
    forget()
    assert ss.subject_types()["walk"].__name__ == "Walk"
    assert "'walk' is taken by walk.study" in registry.broken_packages()["walk"]


def test_its_parameters_are_those_of_any_spec():
    spec = walk(steps=7.0).spec
    assert spec.steps == 7 and type(spec).from_json(spec.to_json()) == spec
    assert spec.digest != walk().spec.digest
    for wrong, words in {"rate": "between 0 and 1", "step": "did you mean 'steps'", "big": "true or"}.items():
        with pytest.raises(BadArgument, match=words):
            walk(**{wrong: 2})


def test_it_has_one_face(call):
    for command, words in (
        ("flow", "no face 'flow'"),
        ("predict", "no face 'predict'"),
        ("compare", "nothing to comp"),
    ):
        code, _, told = call(command, "walk")
        assert code == 2 and f"has {words}" in told and ": it can train" in told
    with pytest.raises(BadArgument, match="no face 'flow'"):
        ss.judge(walk())
    outcomes = {report.check: report.outcome for report in check_system(type(walk()))}
    assert outcomes["claims name source and reason"] == "passed"
    assert outcomes["reduction commutes"] == "not applicable" and "failed" not in outcomes.values()


# ---- one run ---------------------------------------------------------------------------------------------


def test_it_trains_by_name_and_by_hand(tmp_path, answer):
    out, kept = tmp_path / "run.csv", ("--save", tmp_path / "kept")
    found = answer("train", "walk", "--preset", "imagenet", "--set", "steps=5", "--seed", 1, *kept, "--out", out)
    assert found["spec"] == {"steps": 5, "rate": 0.1, "big": True} and found["result"] == "finished"
    assert found["final_loss"] == pytest.approx(3 * 0.9**5) and found["conserved_drift"] is None
    assert len(out.read_text().splitlines()) == 1 + 6
    trajectory = ss.train(ss.subject("walk", "imagenet", steps=5), 1)
    assert trajectory["loss"].values[-1] == found["final_loss"]
    assert len(answer("train", "walk", "--preset", "tiny", "--seeds", 3)) == 3


def test_what_it_is_asked_for_in_vain_is_said(tmp_path, monkeypatch):
    with pytest.raises(BadArgument, match="`snapshots` means nothing to walk"):
        ss.train(walk(), snapshots="linear")
    (tmp_path / "file").write_text("")
    with pytest.raises(BadArgument, match="it is a file, and a study needs a folder"):
        ss.train(walk(), save=tmp_path / "file")
    with pytest.raises(BadArgument, match="it holds no run"):
        ss.train(walk(), save=tmp_path)
    ss.train(walk(), save=tmp_path / "kept")
    with pytest.raises(BadArgument, match="it holds another run"):
        ss.train(walk(steps=21), save=tmp_path / "kept")
    monkeypatch.setenv("WALK_LACKS", "legs are missing: grow some")
    with pytest.raises(BadArgument, match="walk cannot run here: legs are missing: grow some"):
        ss.train(walk())


def test_a_trajectory_says_where_it_comes_from(monkeypatch):
    whole = walking().train

    def without(self, *arguments):
        trajectory = whole(self, *arguments)
        del trajectory.attrs["device"]
        return trajectory

    monkeypatch.setattr(walking(), "train", without)
    with pytest.raises(ValueError, match=r"lacks the attributes \['device'\]"):
        ss.run(walk(), "train")
    monkeypatch.setattr(walking(), "train", lambda *arguments: whole(*arguments).drop_vars("step"))
    with pytest.raises(ValueError, match="lacks the coordinate `step`"):
        ss.run(walk(), "train")


def test_a_run_comes_back_as_it_was(store):
    asked, made = request(), ss.run("walk", "train")
    store.save(asked, [made])
    (found,) = store.load(asked)
    assert found.to_dict() == made.to_dict() and found.trajectory.identical(made.trajectory)
    meta = json.loads((store.folder(asked) / "meta.json").read_text())
    assert (meta["device"], meta["dtype"]) == ("slide rule", "float32")
    assert meta["seconds"] == pytest.approx(0.5, abs=0.1)  # said by the loop, and a little around it
    assert meta["versions"]["pytest"] == pytest.__version__ and "a_library_that_nobody_has" not in meta["versions"]


def test_its_runs_depend_on_its_room_without_analysis_modules(installed):
    files = {file for file in closure([installed / "study.py"]) if file.is_relative_to(installed)}
    assert files == {installed / file for file in ("study.py", "images/__init__.py", "images/sizes.py")}
    for file, same in {"claims": True, "measures": True, "../images/sizes": False, "../study": False}.items():
        before = request().name
        with (installed / "evidence" / f"{file}.py").open("a") as code:
            code.write("\n# changed\n")
        forget()
        assert (request().name == before) == same


# ---- reproduce -------------------------------------------------------------------------------------------


def verdicts(results):
    return {row["claim"]: (row["verdict"], row["reason"]) for row in verdict_rows(results)}


def test_claims_are_judged_and_figures_drawn(store, tmp_path):
    results = carry_out(choose(["walk"]), store, workers=1)
    found = verdicts(results)
    assert found["falls"] == ("supported", "4 of 4 runs agree") and found["falls_alone"][0] == "supported"
    assert found["falls_far"] == ("undecided", NEEDS_FULL)
    (result,) = results
    assert not unbeaten(result)
    page = write_report(results, tmp_path / "out", full=False, began=0.0).read_text()
    assert "Nobody: A walk (2025)" in page and f"No picture: {NEEDS_FULL}" in page
    assert [path.name for path in sorted((tmp_path / "out/figures").iterdir())] == ["walk-1.svg", "walk-3.svg"]
    record(results, store, tmp_path / "out", tmp_path / "kept", full=False)
    runs = json.loads((tmp_path / "kept/walk/runs.json").read_text())
    assert [run["set"] for run in runs] == [{}, {}, {"rate": 0.2}, {"rate": 0.2}, {"big": True}, {"big": True}]
    assert {run["device"] for run in runs} == {"slide rule"}
    with (tmp_path / "kept/walk/curves.csv").open() as file:
        assert {"run", "step", "loss", "weight_1", "weight_2"} == set(next(csv.DictReader(file)))
    assert not list(store.root.glob("*/.unfinished-*"))


def test_from_the_command_line(tmp_path, answer):
    assert [row["verdict"] for row in answer("reproduce", "walk:1", "--out", tmp_path / "out")] == ["supported"]
    rows = {row["system"]: row for row in answer("list")}
    assert (rows["walk"]["faces"], rows["walk"]["claims"], rows["walk/short"]["claims"]) == (["train"], 3, None)
    assert [row["field"] for row in answer("list", "walk")] == ["steps", "rate", "big"]
    answer("list", "--coverage")


def test_where_looks_in_the_room_alone(installed, answer, call):
    """Another room may treat the same paper."""
    (installed / "network.py").unlink()
    assert [row["function"] for row in answer("where", "walk", "Eq. (1)")] == ["Walking.train"]
    assert call("where", "walk", "Eq. (2)")[0] == 2


def test_what_the_machine_lacks_leaves_claims_undecided(store, tmp_path, monkeypatch):
    reason = "legs are missing: grow some"
    monkeypatch.setenv("WALK_LACKS", reason)
    results = carry_out(choose(["walk", "squares:1"]), store, workers=1)
    found = verdicts(results[:1])
    assert found == {
        "falls": ("undecided", reason),
        "falls_alone": found["falls"],
        "falls_far": ("undecided", NEEDS_FULL),
    }
    assert not (store.root / "walk").exists()
    assert {verdict.verdict for verdict in results[1].verdicts} == {"supported"}  # other rooms go on
    assert f"No picture: {reason}" in write_report(results[:1], tmp_path, full=False, began=0.0).read_text()
    record(results[:1], store, tmp_path, tmp_path / "kept", full=False)


def test_what_another_machine_has_run_counts_here(store, monkeypatch):
    carry_out(choose(["walk:1"]), store, workers=1)
    monkeypatch.setenv("WALK_LACKS", "legs are missing: grow some")
    assert verdicts(carry_out(choose(["walk"]), store, workers=1))["falls"][0] == "supported"


def test_runs_that_need_the_machine_come_last_in_the_parent(store):
    said = []
    carry_out(choose(["walk"]), store, workers=2, tick=lambda share, words="": said.append((share, words)))
    runs = {
        name: [store.load(one)[0].trajectory for one in requests_of(room("walk").experiments[name], False)]
        for name in ("walks", "big_walk")
    }
    assert {trajectory.attrs["process"] for trajectory in runs["big_walk"]} == {os.getpid()}
    assert os.getpid() not in {trajectory.attrs["process"] for trajectory in runs["walks"]}
    alone = [(share, words) for share, words in said if "now: big_walk" in words]
    assert alone[0][1].startswith("4 of 6 runs") and alone[1][1].endswith("walk seed 0: step 1")
    assert [share for share, _ in alone] == sorted(share for share, _ in alone)
    assert 0 < alone[0][0] < alone[-1][0] < 1
    assert all("last: walks" not in words for _, words in said[said.index(alone[0]) :])
    assert said[-1][0] == 1  # what follows from them is worked out too


@pytest.mark.parametrize("figure", ["1", "3"])
def test_a_killed_run_goes_on_where_it_stopped(store, monkeypatch, figure):
    monkeypatch.setenv("WALK_ENDS", "12")
    with pytest.raises(KeyboardInterrupt):
        carry_out(choose([f"walk:{figure}"]), store, workers=1)
    (folder,) = [path for path in store.root.glob("walk/.unfinished-*") if path.is_dir()]
    assert len((folder / "losses").read_text().split()) == 12
    monkeypatch.delenv("WALK_ENDS")
    results = carry_out(choose([f"walk:{figure}"]), store, workers=1)
    found = [one.trajectory.attrs["found"] for runs in results[0].runs.values() for one in runs]
    assert found == [12, *[1] * (len(found) - 1)]
    assert not list(store.root.glob("walk/.unfinished-*"))


def test_two_at_once_share_a_folder_one_after_the_other(store, monkeypatch):
    """Who comes second waits for the first, and finds the run there."""
    asked, made = request(), ss.run("walk", "train")
    monkeypatch.setattr(walking(), "train", lambda *_: pytest.fail("made twice"))
    with ThreadPoolExecutor() as threads:
        with store.held(asked):
            second = threads.submit(perform, store, asked)
            with pytest.raises(TimeoutError):
                second.result(0.5)
            store.save(asked, [made])
        second.result(30)
    assert [path.name for path in store.folder(asked).parent.iterdir()] == [asked.name]


def test_two_trainings_do_not_write_to_one_folder_at_once(tmp_path):
    refused = []

    def interfere(share, words=""):
        with pytest.raises(BadArgument, match="another training is writing to it"):
            ss.train(walk(), save=tmp_path / "kept")
        refused.append(share)

    whole = ss.train(walk(), save=tmp_path / "kept", tick=interfere)
    assert refused and not list(tmp_path.glob(".*"))
    assert ss.train(walk(), save=tmp_path / "kept")["loss"].equals(whole["loss"])


def no_text(folder):
    note = folder / "run.json"
    note.write_bytes(flipped(note.read_bytes(), place=5, bit=7))


def a_file(folder):
    shutil.rmtree(folder)
    folder.write_text("")


def a_link_to_nowhere(folder):
    shutil.rmtree(folder)
    folder.symlink_to(folder.parent / "nowhere" / "at" / "all")


@pytest.mark.parametrize("damage", [no_text, a_file, a_link_to_nowhere])
def test_a_damaged_folder_is_set_aside_and_the_run_begun_anew(store, damage):
    asked, notes = request(), []
    folder = store.unfinished(asked)
    ss.train(asked.system, save=folder)
    damage(folder)
    perform(store, asked, note=notes.append)
    assert asked in store and len(notes) == 1 and "begun anew" in notes[0]


def test_of_two_runs_that_take_a_folder_at_once_one_is_refused(tmp_path):
    for attempt in range(30):
        folder, begin = tmp_path / str(attempt), threading.Barrier(2)

        def take(seed, folder=folder, begin=begin):
            begin.wait()
            try:
                take_folder(folder, walk(), seed)
            except BadArgument as error:
                return str(error)

        with ThreadPoolExecutor() as threads:
            (refused,) = filter(None, threads.map(take, (0, 1)))
        assert "it holds another run" in refused


def test_a_file_that_is_missing_is_no_fault_of_the_store(store, monkeypatch):
    def train(self, seed, folder, tick):
        open("/nowhere/images.bin")  # noqa: PTH123, SIM115

    monkeypatch.setattr(walking(), "train", train)
    (result,) = carry_out(choose(["walk:1"]), store, workers=1)
    assert "FileNotFoundError" in result.missing["walks"] and "/nowhere/images.bin" in result.missing["walks"]
    assert {verdict.verdict for verdict in result.verdicts} == {"undecided"}


# ---- records ---------------------------------------------------------------------------------------------


@pytest.fixture
def recorded(store, tmp_path, monkeypatch):
    """A folder of records, as a machine that has all it needs leaves them."""
    monkeypatch.setattr("saddlescope.lab.record.LONG", 0.1)
    results = carry_out(choose(["walk:2"]), store, full=True, workers=1)
    write_report(results, tmp_path / "out", full=True, began=0.0)
    record(results, store, tmp_path / "out", tmp_path / "kept", full=True)
    return tmp_path / "kept"


@pytest.fixture
def asked():
    """The longest of the runs that are recorded."""
    return next(iter(requests_of(room("walk").experiments["long_walks"], True)))


def test_records_stand_in_for_runs_that_a_machine_cannot_make(recorded, asked, tmp_path, monkeypatch):
    """They have every verdict and figure, and are recorded again as they are: no record is thinned twice."""
    monkeypatch.setenv("WALK_LACKS", "legs are missing: grow some")
    other = Store(tmp_path / "elsewhere")
    results = carry_out(choose(["walk:2"]), other, full=True, workers=1, records=Records(recorded))
    assert results[0].missing == {} and set(results[0].figures) == {"2"}
    assert [row["verdict"] for row in verdict_rows(results)] == ["supported"]
    assert Records(recorded).load(asked).final_loss == pytest.approx(2 * 0.9**40, rel=1e-6)  # records hold 32 bits
    write_report(results, tmp_path / "out", full=True, began=0.0)
    shutil.copytree(recorded, tmp_path / "again")
    record(results, other, tmp_path / "out", tmp_path / "again", full=True)
    files = sorted((recorded / "walk").rglob("*.*"))
    assert sum(file.suffix == ".nc" for file in files) == 2
    for file in (one for one in files if one.suffix in (".nc", ".json") and one.name != "verdicts.json"):
        assert (tmp_path / "again" / file.relative_to(recorded)).read_bytes() == file.read_bytes(), file


def test_thinning_keeps_both_ends():
    whole = ss.train(walk(steps=40))
    small = thinned(whole)
    assert small["time"].values[0] == 0 and small["time"].values[-1] == 40
    assert list(small["time"].values[:16]) == list(range(16)) and 20 < small.sizes["time"] < 41
    assert small["loss"].dtype == np.float32 and small.attrs["spec"] == whole.attrs["spec"]


def test_a_record_is_of_what_it_says_not_of_its_name(recorded, asked):
    before = Records(recorded).about(asked), Records(recorded).load(asked).final_loss
    sound = Records(recorded).path(asked)
    for number, file in enumerate(sorted(sound.parent.glob("*.nc"))):
        file.rename(file.with_name(f"{number}.nc"))
    assert (Records(recorded).about(asked), Records(recorded).load(asked).final_loss) == before
    other = next(path for path in sound.parent.glob("*.nc") if path != Records(recorded).path(asked))
    shutil.copy(other, sound)
    Records(recorded).path(asked).unlink()
    assert asked not in Records(recorded)


def test_records_survive_a_new_field_and_a_renamed_class(recorded, asked):
    """What was recorded before the Spec had the field was made with its default value, and with no other."""
    old: Any = type(asked.system.spec)
    new = dataclasses.make_dataclass("Renamed", [("novelty", int, 3)], bases=(old,), frozen=True, kw_only=True)
    successor: Any = type("Successor", (type(asked.system),), {"spec_type": new})

    def again(**changes):
        return Request(successor(new(**asked.system.spec.to_dict(), **changes)), "train", asked.seeds)

    records = Records(recorded)
    assert again().system.spec.digest != asked.system.spec.digest
    assert again() in records and again(novelty=4) not in records
    found = records.load(again())
    assert found.trajectory.identical(records.load(asked).trajectory)
    assert found.made is not None and found.made.device == "slide rule"


DAMAGES = {
    "cut": lambda content: content[:500],
    "one bit": lambda content: flipped(content, len(content) // 2, bit=0),
    "what it is": lambda content: content.replace(b"spec", b"Spec", 1),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_record_is_named(recorded, asked, tmp_path, call, damage):
    file: Path = Records(recorded).path(asked)
    file.write_bytes(DAMAGES[damage](file.read_bytes()))
    records = Records(recorded)
    for read in (records.__contains__, records.about, records.load):
        with pytest.raises(BadArgument, match=rf"{file.name} cannot be read \(it is not as it was written\)"):
            read(asked)
    for folder, words in ((recorded, "cannot be read"), (tmp_path / "none", "is no folder")):
        code, _, told = call("reproduce", "walk:2", "--full", "--out", tmp_path / "new", "--recorded", folder)
        assert code == 2 and words in told


# ---- rooms -----------------------------------------------------------------------------------------------


def test_an_inventory_points_into_another_room():
    targets = {
        "claim": ("walk/falls", "walk/rises", "nowhere/falls", "falls"),
        "figure": ("walk/1", "walk/11"),
        "function": ("walk/study.Walk", "walk/study.Talk", "walk/network.Network", "walk/network.Other"),
    }
    lines = [Line(f"{kind}:{one}", "", "", "", ((kind, one),)) for kind, found in targets.items() for one in found]
    here = dataclasses.replace(rooms()["squares"])
    here.__dict__["inventory"] = tuple(lines)
    astray = {words.partition(" points")[0] for words in here.astray()}
    right = {"claim:walk/falls", "figure:walk/1", "function:walk/study.Walk", "function:walk/network.Network"}
    passed_over = {"claim:nowhere/falls"}  # no such room is here
    assert {line.id for line in lines} - astray == right | passed_over
