"""Runs on disk: whole or absent, named by what they are, and never lost."""

from __future__ import annotations

import errno
import json
import os
import shutil
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
from saddlescope.lab.run import run
from saddlescope.lab.store import Damaged, Store

from .full_disk import full_disk
from .waiting import wait_for

TINY = ss.system("squares", "tiny")


def request(system=TINY, face: Any = "flow", seeds=(0,), **kwargs):
    return Request(system, face, seeds, **kwargs)


ASKED = request()


@pytest.fixture(scope="module")
def made():
    return run(TINY, "flow", 0)


@pytest.fixture
def store(tmp_path):
    kept = Store(tmp_path / "runs")
    kept.prepare()
    return kept


@pytest.fixture
def kept(store, made):
    """A store with one run."""
    store.save(ASKED, [made])
    return store


def is_sound(store, made):
    return store.load(ASKED)[0].to_dict() == made.to_dict() and not list(store.root.glob("*/.damaged-*"))


@pytest.mark.parametrize("face", ["predict", "flow", "train"])
def test_a_run_comes_back_as_it_was(store, face):
    asked = request(face=face)
    made = run(TINY, face, 0)
    store.save(asked, [made])
    (found,) = store.load(asked)
    assert found.to_dict() == made.to_dict()
    assert found.prediction is not None and made.prediction is not None
    assert found.prediction.marks == made.prediction.marks
    assert found.made is not None and found.made.versions["numpy"] == np.__version__
    if made.trajectory is not None:
        assert found.trajectory.identical(made.trajectory)
        assert list(found.trajectory.data_vars) == list(made.trajectory.data_vars)


def test_an_ensemble_keeps_its_stages_and_must_be_whole(store):
    asked = request(seeds=(0, 1, 2), stages_only=True)
    made = [run(TINY, "flow", seed) for seed in asked.seeds]
    for content in ("[]", "{}", "null"):
        store.save(asked, made)
        assert [list(one.stages) for one in store.load(asked)] == [list(one.stages) for one in made]
        assert store.folder(asked).name.endswith("-seeds0-2")
        (store.folder(asked) / "stages.json").write_text(content)
        with pytest.raises(Damaged):
            store.load(asked)


def test_the_folder_says_what_it_holds(store):
    asked = request(seeds=(3,))
    store.save(asked, [run(TINY, "flow", 3)])
    folder = store.root / "squares" / f"flow-{asked.digest}-seed3"
    files = {"spec.json", "meta.json", "stages.json", "trajectory.zarr", "checksums.json"}
    assert {path.name for path in folder.iterdir()} == files
    assert json.loads((folder / "spec.json").read_text()) == TINY.spec.to_dict()
    meta = json.loads((folder / "meta.json").read_text())
    assert {"versions", "machine", "argv", "seeds", "dtype", "device", "seconds", "result", "sources"} <= set(meta)


def test_the_name_covers_everything_that_matters():
    kind = type(TINY)
    variant = type("Variant", (kind,), {"name": "squares/variant", "__module__": kind.__module__})(TINY.spec)
    assert request(variant).sources == ASKED.sources  # of one file: only the name differs
    others = [{"face": "train"}, {"seeds": (1,)}, {"solver": "tight"}, {"stages_only": True}, {"system": variant}]
    others.append({"system": TINY.changed(init_scale=0.01)})
    assert len({ASKED.name, *(request(**other).name for other in others)}) == 1 + len(others)
    assert ASKED.name == request(ss.system("squares", "tiny")).name


def test_a_damaged_run_is_set_aside_and_said_to_be(kept):
    (kept.folder(ASKED) / "trajectory.zarr" / "zarr.json").write_text("{")
    with pytest.raises(Damaged, match=r"flow squares seed 0.*zarr.json is not as it was written.*set aside"):
        kept.load(ASKED)
    assert ASKED not in kept
    aside = kept.folder(ASKED).with_name(f".damaged-{ASKED.name}")
    assert (aside / "trajectory.zarr" / "zarr.json").read_text() == "{"


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM, errno.EACCES])
def test_an_error_of_the_machine_is_no_damage(kept, made, monkeypatch, number):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(stores, "read_sealed", refuse)
        with pytest.raises(OSError, match=os.strerror(number)):
            kept.load(ASKED)
    assert is_sound(kept, made)


def test_code_that_cannot_read_a_sound_run_does_not_move_it(kept, made, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(stores, "_runs", lambda *_: 1 / 0)
        with pytest.raises(RuntimeError, match=r"flow squares seed 0.*is as it was written.*ZeroDivisionError"):
            kept.load(ASKED)
    assert is_sound(kept, made)


def test_what_another_process_has_made_again_is_not_taken_away(kept, made, monkeypatch):
    """Both found the damage; the other was faster."""

    def late(folder, name):
        shutil.rmtree(folder)
        Store(kept.root).save(ASKED, [made])
        raise ValueError("it is not as it was written")

    with monkeypatch.context() as patch:
        patch.setattr(stores, "read_sealed", late)
        with pytest.raises(Damaged, match="another process"):
            kept.load(ASKED)
    assert is_sound(kept, made)


def test_a_damaged_checkpoint_is_set_aside_and_said_to_be(store):
    asked, notes = request(face="train"), []
    unfinished = store.unfinished(asked)
    unfinished.parent.mkdir(parents=True)
    unfinished.write_bytes(b"PK\x03\x04 and no more")
    perform(store, asked, note=notes.append)
    assert store.load(asked)[0].to_dict()["stages"] == run(TINY, "train", 0).to_dict()["stages"]
    (words,) = notes
    assert "train squares seed 0" in words and "set aside" in words and "begun anew" in words
    assert [path.read_bytes()[:2] for path in store.root.glob("*/.damaged-*")] == [b"PK"]


def test_the_second_writer_discards_its_copy(kept, made):
    kept.save(ASKED, [made])
    assert [path.name for path in kept.folder(ASKED).parent.iterdir()] == [ASKED.name]
    assert is_sound(kept, made)


def test_what_killed_processes_left_is_swept_up_and_nothing_else(store):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    folder = store.root / "squares"
    left = [folder / f".partial-{stores.here()}-{pid}-abc" for pid in (dead.pid, os.getpid(), "odd")]
    elsewhere = folder / f".partial-elsewhere-{dead.pid}-abc"
    for path in (*left, elsewhere):
        path.mkdir(parents=True)
    store.prepare()
    assert [path.exists() for path in (*left, elsewhere)] == [False, True, True, True]


def test_a_full_disk_leaves_earlier_runs_and_no_rubbish(kept, made):
    new = run(TINY, "flow", 1)
    with full_disk(500), pytest.raises(OSError, match="File too large"):
        kept.save(request(seeds=(1,)), [new])
    assert [path.name for path in kept.folder(ASKED).parent.iterdir()] == [ASKED.name]
    assert is_sound(kept, made)


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
