"""Work in processes: what an interrupt leaves behind, and what becomes of the work of workers that are lost."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import pytest

from saddlescope.lab import pool as module
from saddlescope.lab.pool import on_cores


def test_an_abandoned_pool_leaves_no_thread():
    """The pool's thread, if left, closes a pipe while the interpreter writes to it: a traceback at exit, by chance."""
    before = set(threading.enumerate())
    work = on_cores(time.sleep, [0, 60], workers=2)
    assert next(work) == (0, None)
    began = time.monotonic()
    work.close()
    assert set(threading.enumerate()) <= before
    assert time.monotonic() - began < 30  # the other part would sleep for a minute


def end(count_file):
    """Ends its worker as often as the file has letters."""
    left = count_file.read_text()
    if left:
        count_file.write_text(left[1:])
        time.sleep(0.2)  # until the others have begun
        os.kill(os.getpid(), signal.SIGKILL)


def take_turns(part):
    """("ends", file) ends its worker now and then; ("long", seconds) only takes a while; ("noted", file) too, and
    leaves a line there each time it begins.
    """
    kind, what = part
    if kind == "ends":
        end(what)
    elif kind == "long":
        time.sleep(what)
    else:
        with what.open("a") as file:
            file.write("begun\n")
        time.sleep(1.0)


def test_a_lost_worker_costs_its_own_work_alone(tmp_path):
    parts: list = [("noted", tmp_path / "long")]
    for name in "abc":
        (tmp_path / name).write_text("x")
        parts.append(("ends", tmp_path / name))
    notes: list[str] = []
    done = [part for part, _ in on_cores(take_turns, parts, 2, note=notes.append)]
    assert sorted(map(str, done)) == sorted(map(str, parts))
    assert len(notes) == 3 and all("lost" in words and "memory" not in words for words in notes)
    assert (tmp_path / "long").read_text() == "begun\n"


class Choosy(Exception):
    """Cannot be made again from its own arguments, as a worker's error is."""

    def __init__(self, name, size):
        super().__init__(f"{name} of size {size}")


def fail(part):
    raise Choosy("a part", part)


def test_an_error_that_cannot_travel_is_told_all_the_same():
    notes: list[str] = []
    with pytest.raises(RuntimeError, match="Choosy: a part of size 7"):
        list(on_cores(fail, [7], 2, note=notes.append))
    assert not notes


def test_work_that_always_loses_its_worker_is_named(tmp_path):
    (tmp_path / "a").write_text("x" * 20)
    with pytest.raises(RuntimeError, match=r"'ends'.*was lost 3 times"):
        list(on_cores(take_turns, [("long", 0.1), ("ends", tmp_path / "a")], 2))


def test_memory_that_runs_out_halves_the_workers(tmp_path, monkeypatch):
    """To one, if need be: that a worker is killed for memory says nothing about its work."""
    (tmp_path / "a").write_text("xx")
    kills = iter(range(1000))
    monkeypatch.setattr(module, "_kills_for_memory", lambda: next(kills))
    notes: list[str] = []
    parts = [("ends", tmp_path / "a"), *[("long", 0.01)] * 5]
    assert len(list(on_cores(take_turns, parts, 4, note=notes.append))) == len(parts)
    assert [words.rpartition(", ")[2] for words in notes] == ["2 at a time", "1 at a time"]
    assert all("memory ran out" in words for words in notes)


def test_nothing_is_lost_between_two_submissions(monkeypatch):
    """A pool may break at any moment: what it did not accept is still to be done."""
    submit, calls = ProcessPoolExecutor.submit, iter(range(1000))

    def breaking(self, *given):
        if next(calls) == 2:
            raise BrokenProcessPool
        return submit(self, *given)

    monkeypatch.setattr(ProcessPoolExecutor, "submit", breaking)
    parts = [0.01, 0.02, 0.03, 0.04]
    assert sorted(part for part, _ in on_cores(time.sleep, parts, 2)) == parts
