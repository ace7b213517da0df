"""Runs on disk: whole or absent, named by what they are, and never lost."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import saddlescope as ss
from saddlescope.core.errors import BadArgument
from saddlescope.lab import store as stores
from saddlescope.lab.plan import perform
from saddlescope.lab.request import Request
from saddlescope.lab.run import all_at_once, run_face
from saddlescope.lab.store import Damaged, Store

from .waiting import wait_for

TINY = ss.system("linear_icl", "tiny")


def request(system=TINY, face: Any = "flow", seeds=(0,), **kwargs):
    return Request(system, face, seeds, **kwargs)


@pytest.fixture
def store(tmp_path):
    kept = Store(tmp_path / "runs")
    kept.prepare()
    return kept


@pytest.mark.parametrize("face", ["predict", "flow", "train"])
def test_a_run_comes_back_as_it_was(store, face):
    asked = request(face=face)
    outcome = run_face(TINY, face, 0)
    store.save(asked, [outcome])
    (found,) = store.load(asked)
    assert found.to_dict() == outcome.to_dict()
    assert found.prediction is not None and outcome.prediction is not None
    assert found.prediction.marks == outcome.prediction.marks
    assert found.made is not None and found.made.versions["numpy"] == np.__version__
    if outcome.trajectory is not None:
        assert found.trajectory.identical(outcome.trajectory)
        assert list(found.trajectory.data_vars) == list(outcome.trajectory.data_vars)


def test_an_ensemble_keeps_its_stages(store):
    seeds = tuple(range(3))
    asked = request(seeds=seeds, stages_only=True)
    outcomes = all_at_once(TINY, "default", seeds)
    store.save(asked, outcomes)
    found = store.load(asked)
    assert [list(outcome.stages) for outcome in found] == [list(outcome.stages) for outcome in outcomes]
    assert store.folder(asked).name.endswith("-seeds0-2")


def test_the_folder_says_what_it_holds(store):
    asked = request(seeds=(3,))
    store.save(asked, [run_face(TINY, "flow", 3)])
    folder = store.root / "linear_icl" / f"flow-{asked.digest}-seed3"
    assert {path.name for path in folder.iterdir()} == {"spec.json", "meta.json", "trajectory.zarr", "checksums.json"}
    assert json.loads((folder / "spec.json").read_text()) == TINY.spec.to_dict()
    meta = json.loads((folder / "meta.json").read_text())
    assert {"versions", "machine", "argv", "seeds", "dtype", "device", "seconds", "result", "sources"} <= set(meta)


def test_the_name_covers_everything_that_matters():
    other = ss.system("linear_icl", "tiny", init_scale=0.2)
    names = [
        request().name,
        request(other).name,
        request(face="train").name,
        request(seeds=(1,)).name,
        request(solver="tight").name,
        request(ss.system("linear_icl/next_token", "tiny")).name,
        request(stages_only=True).name,
    ]
    assert len(set(names)) == len(names)
    assert request().name == request(ss.system("linear_icl", "tiny")).name


def test_a_damaged_run_is_set_aside_and_said_to_be(store):
    asked = request()
    store.save(asked, [run_face(TINY, "flow", 0)])
    (store.folder(asked) / "trajectory.zarr" / "zarr.json").write_text("{")
    with pytest.raises(Damaged, match=r"flow linear_icl seed 0.*zarr.json is not as it was written.*set aside"):
        store.load(asked)
    assert asked not in store
    aside = store.folder(asked).with_name(f".damaged-{asked.name}")
    assert (aside / "trajectory.zarr" / "zarr.json").read_text() == "{"


@pytest.mark.parametrize("harm", ["chunk", "no meta", "meta is a folder", "nested", "file", "link", "loop"])
def test_a_run_that_is_none_makes_room(store, tmp_path, harm):
    asked, outcome = request(), run_face(TINY, "flow", 0)
    store.save(asked, [outcome])
    folder, elsewhere = store.folder(asked), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("")
    if harm == "chunk":
        files = (path for path in (folder / "trajectory.zarr" / "loss").rglob("*") if path.is_file())
        chunk = next(path for path in files if path.suffix != ".json")
        chunk.write_bytes(chunk.read_bytes()[:20])
    elif harm == "no meta":
        (folder / "meta.json").unlink()
    elif harm == "meta is a folder":
        (folder / "meta.json").unlink()
        (folder / "meta.json").mkdir()
    elif harm == "nested":
        (folder / "meta.json").write_text("[" * 100_000)
    else:
        shutil.rmtree(folder)
        if harm == "file":
            folder.write_text("")
        else:
            folder.symlink_to(elsewhere if harm == "link" else folder)
    with pytest.raises(Damaged):
        store.load(asked)
    assert asked not in store
    store.save(asked, [outcome])
    assert store.load(asked)[0].to_dict() == outcome.to_dict()
    assert (elsewhere / "precious").exists()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM, errno.EACCES])
def test_an_error_of_the_machine_is_no_damage(store, monkeypatch, number):
    asked = request()
    store.save(asked, [run_face(TINY, "flow", 0)])

    def refuse(*_):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(stores, "read_sealed", refuse)
        with pytest.raises(OSError, match=os.strerror(number)):
            store.load(asked)
    assert store.load(asked) and not list(store.root.glob("*/.damaged-*"))


def test_code_that_cannot_read_a_sound_run_does_not_move_it(store, monkeypatch):
    asked = request()
    store.save(asked, [run_face(TINY, "flow", 0)])
    with monkeypatch.context() as patch:
        patch.setattr(stores, "outcome_of", lambda *_: 1 / 0)
        with pytest.raises(RuntimeError, match=r"flow linear_icl seed 0.*is as it was written.*ZeroDivisionError"):
            store.load(asked)
    assert store.load(asked) and not list(store.root.glob("*/.damaged-*"))


def test_what_another_process_has_made_again_is_not_taken_away(store, monkeypatch):
    """Both found the damage; the other was faster."""
    asked, outcome = request(), run_face(TINY, "flow", 0)
    store.save(asked, [outcome])
    read = stores.read_sealed

    def late(folder, name):
        shutil.rmtree(folder)
        Store(store.root).save(asked, [outcome])
        raise ValueError("it is not as it was written")

    monkeypatch.setattr(stores, "read_sealed", late)
    with pytest.raises(Damaged, match="another process"):
        store.load(asked)
    monkeypatch.setattr(stores, "read_sealed", read)
    assert store.load(asked)[0].to_dict() == outcome.to_dict()


def test_a_damaged_checkpoint_is_set_aside_and_said_to_be(store):
    asked, notes = request(face="train"), []
    unfinished = store.unfinished(asked)
    unfinished.parent.mkdir(parents=True)
    unfinished.write_bytes(b"PK\x03\x04 and no more")
    perform(store, asked, note=notes.append)
    assert store.load(asked)[0].to_dict()["stages"] == run_face(TINY, "train", 0).to_dict()["stages"]
    (words,) = notes
    assert "train linear_icl seed 0" in words and "set aside" in words and "begun anew" in words
    assert [path.read_bytes()[:2] for path in store.root.glob("*/.damaged-*")] == [b"PK"]


@pytest.mark.parametrize("content", ["[]", "{}", "null"])
def test_an_ensemble_must_be_whole(store, content):
    asked = request(seeds=(0, 1), stages_only=True)
    store.save(asked, all_at_once(TINY, "default", (0, 1)))
    (store.folder(asked) / "stages.json").write_text(content)
    with pytest.raises(Damaged):
        store.load(asked)


def test_odd_names_in_the_store_do_no_harm(store):
    (store.root / "linear_icl" / f".partial-{stores.here()}-abc-x").mkdir(parents=True)
    store.prepare()


def test_who_comes_second_finds_the_run_there(store):
    asked, outcome = request(), run_face(TINY, "flow", 0)
    store.save(asked, [outcome])
    store.save(asked, [outcome])
    assert [path.name for path in store.folder(asked).parent.iterdir()] == [asked.name]
    assert store.load(asked)[0].to_dict() == outcome.to_dict()


def test_what_killed_processes_left_is_swept_up_and_nothing_else(store):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    folder = store.root / "linear_icl"
    left = [folder / f".partial-{stores.here()}-{pid}-abc" for pid in (dead.pid, os.getpid())]
    elsewhere = folder / f".partial-elsewhere-{dead.pid}-abc"
    for path in (*left, elsewhere):
        path.mkdir(parents=True)
    store.prepare()
    assert [path.exists() for path in (*left, elsewhere)] == [False, True, True]


def test_a_full_disk_leaves_earlier_runs_and_no_rubbish(store):
    """The limit on the size of a file stands for the full disk: writes fail in the middle, with a real error."""
    first, second = request(), request(seeds=(1,))
    store.save(first, [run_face(TINY, "flow", 0)])
    outcome = run_face(TINY, "flow", 1)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            store.save(second, [outcome])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert [path.name for path in store.folder(first).parent.iterdir()] == [first.name]
    assert np.isfinite(store.load(first)[0].final_loss)


def test_a_folder_that_cannot_be_written_is_refused_at_once(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadArgument, match="choose another folder with --out"):
        Store(tmp_path / "file" / "runs").prepare()


def test_a_folder_that_vanishes_does_not_stop_the_sweep(store):
    """Another command makes and removes a folder to try whether it can write."""
    code = "import os, sys\nwhile True:\n    os.mkdir(sys.argv[1])\n    os.rmdir(sys.argv[1])"
    other = subprocess.Popen([sys.executable, "-c", code, str(store.root / ".partial-elsewhere-1-abc")])
    try:
        wait_for(lambda: any(store.root.iterdir()), other)
        for _ in range(3000):
            store.sweep()
    finally:
        other.kill()
        other.wait()
