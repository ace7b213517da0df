"""Answers that are kept: which of them may be used again."""

from __future__ import annotations

import json

import pytest

import saddlescope as ss
from saddlescope.lab import derived
from saddlescope.lab.archive import Archive
from saddlescope.lab.derived import Derived, Question
from saddlescope.lab.plan import perform
from saddlescope.lab.request import Request
from saddlescope.lab.store import Store

RUNS = tuple(Request(ss.system("squares", "tiny"), "predict", (seed,)) for seed in range(2))


@pytest.fixture
def kept(tmp_path):
    store = Store(tmp_path / "runs")
    for request in RUNS:
        perform(store, request)
    return Derived(Archive(store))


def question(name="a", code="code", runs=(("x", RUNS[:1]), ("y", RUNS[1:]))):
    return Question("figure", "squares", name, code, runs=runs)


def test_what_an_answer_is_kept_under_covers_what_it_depends_on(kept, monkeypatch):
    paths = [
        kept.path(question()),
        kept.path(question(name="b")),
        kept.path(question(code="other")),
        kept.path(question(runs=(("x", RUNS),))),
        kept.path(question(runs=(("x", RUNS[1:]), ("y", RUNS[:1])))),
        kept.path(question(runs=(("x", RUNS[:1]), ("z", RUNS[1:])))),
    ]
    monkeypatch.setattr(derived, "version", lambda library: f"another {library}")
    paths.append(kept.path(question()))
    assert len(set(paths)) == len(paths)


@pytest.mark.parametrize(
    "edited", ["lab/derived.py", "lab/store.py", "show/style.py", "lab/records.py", "core/claim.py"]
)
def test_the_code_that_all_answers_share_counts(edited):
    files = derived.closure([derived.OURS / derived.SHARED], leave_out=frozenset())
    assert derived.OURS / edited in files


@pytest.fixture
def named(monkeypatch):
    """Each question is answered by its name, and by what went wrong, which is empty: tests may fill it in."""
    went_wrong = {}

    def answer(question, archive):
        return {"name": question.name, "failed": went_wrong.get(question.name, "")}

    monkeypatch.setattr(derived, "_answer", answer)
    monkeypatch.setattr(derived, "code_now", lambda kind, room: "code")
    return went_wrong


def test_the_answer_to_another_question_is_not_taken_for_this_one(kept, named):
    one, other = question(), question(name="b")
    assert (kept.answer(one)["name"], kept.answer(other)["name"]) == ("a", "b")
    kept.path(one).write_bytes(kept.path(other).read_bytes())
    assert kept.find(one) is None and kept.answer(one)["name"] == "a"
    assert json.loads(kept.path(one).read_text())["answer"]["name"] == "a"


def test_an_answer_of_code_that_failed_is_not_kept(kept, named):
    named["b"] = "ZeroDivisionError"
    assert kept.answer(question(name="b"))["failed"] and not list(kept.folder.glob("*"))


def test_an_answer_of_code_that_has_changed_is_not_kept(kept, named, monkeypatch):
    monkeypatch.setattr(derived, "code_now", lambda kind, room: "edited")
    with pytest.raises(RuntimeError, match="figure a of squares changed while it ran"):
        kept.answer(question())
    assert not list(kept.folder.glob("*"))
