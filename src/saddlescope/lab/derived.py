"""What follows from runs and code (verdicts, figures, errata): worked out once, and kept until either changes.

`<store>/.derived/<what>-<digest>.json`. The digest covers the code and everything that it imports, the versions of the
libraries, and the runs by their checksums. Nothing here is more than a copy: it may be removed at any time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from saddlescope.core.claim import NEEDS_FULL, Claim, Verdict, judge_runs
from saddlescope.core.experiment import Erratum
from saddlescope.core.files import remove, write_whole
from saddlescope.core.room import Room, room

from .archive import Archive
from .closure import OURS, closure, code_changed, hash_of, home
from .judge import evidence_of
from .request import Request
from .store import versions

Kind = Literal["verdicts", "figure", "erratum"]

LOOKS_AT = {"verdicts": "claims", "figure": "figures", "erratum": "errata"}
"""The file of a room that answers each kind of question."""

SHARED = "lab/derived.py"
"""All answers depend on it, and on what it imports: the judge, the store, the records, the style of figures."""


@dataclass(frozen=True)
class Question:
    """verdicts: on the claims of the experiment `name`.  figure, erratum: of this name.

    code: hash of the code that the answer depends on.  runs: by experiment, those that it draws on.
    """

    kind: Kind
    room: str
    name: str
    code: str
    full: bool = False
    runs: tuple[tuple[str, tuple[Request, ...]], ...] = ()

    @property
    def requests(self) -> list[Request]:
        return [request for _, group in self.runs for request in group]

    @property
    def words(self) -> str:
        return f"{'verdicts on' if self.kind == 'verdicts' else self.kind} {self.name} of {self.room}"


def ask(
    kind: Kind, room: str, name: str, full: bool = False, runs: tuple[tuple[str, tuple[Request, ...]], ...] = ()
) -> Question:
    return Question(kind, room, name, code_of(kind, room), full, runs)


class Derived:
    """Answers below the root of a store."""

    def __init__(self, archive: Archive):
        self.archive = archive
        self.folder = archive.store.root / ".derived"

    def path(self, question: Question) -> Path:
        runs = [(name, [self.archive.about(one).stamp for one in group]) for name, group in question.runs]
        libraries = {**versions(True), "matplotlib": version("matplotlib")}
        parts = json.dumps([question.code, libraries, runs], sort_keys=True)
        digest = hashlib.sha256(parts.encode()).hexdigest()[:16]
        return self.folder / f"{self._what(question)}-{digest}.json"

    @staticmethod
    def _what(question: Question) -> str:
        size = "full" if question.full else "quick"
        return f"{size}-{question.kind}-{question.room}-{question.name}"

    def find(self, question: Question) -> Any:
        """The answer that is kept; None where there is none, or it is not as it was written."""
        path = self.path(question)
        if not path.is_file():  # reading a pipe would wait for ever
            return None
        try:
            written = json.loads(path.read_text(encoding="utf-8"))
            answer, found = written["answer"], written["checksum"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None
        return answer if _checksum(path.name, answer) == found else None

    def answer(self, question: Question) -> Any:
        """The answer that is kept, or a new one."""
        found = self.find(question)
        return self.work_out(question) if found is None else found

    def work_out(self, question: Question) -> Any:
        """Answer it, and keep the answer in the place of an older one."""
        answer = _answer(question, self.archive)
        if code_now(question.kind, question.room) != question.code:
            raise code_changed(question.words)
        path = self.path(question)
        self.folder.mkdir(parents=True, exist_ok=True)
        for old in self.folder.glob(f"{self._what(question)}-{'?' * 16}.json"):
            remove(old)
        text = json.dumps({"checksum": _checksum(path.name, answer), "answer": answer})
        write_whole(path, lambda partial: partial.write_text(text, encoding="utf-8"))
        return answer


def _checksum(name: str, answer: Any) -> str:
    """Of an answer and the name that it is kept under, so that it is not taken for the answer to another question."""
    return hashlib.sha256(json.dumps([name, answer]).encode()).hexdigest()


def code_now(kind: Kind, name: str) -> str:
    """Hash of all code that an answer depends on, as it is on the disk."""
    found = room(name)
    files = [file for subject in found.subjects if (file := home(subject)) is not None]
    module = found.part(LOOKS_AT[kind])
    if module is not None and module.__file__ is not None:
        files.append(Path(module.__file__).resolve())
    return hash_of(closure([*files, OURS / SHARED], leave_out=frozenset()))


code_of = cache(code_now)
"""The same when it was first asked for, which is closer to what this process has imported."""


# ---- answers ---------------------------------------------------------------------------------------------


def _answer(question: Question, archive: Archive) -> Any:
    found = room(question.room)
    results = {
        name: [evidence_of(outcome) for request in group for outcome in archive.load(request)]
        for name, group in question.runs
    }
    if question.kind == "verdicts":
        claims = claims_on(found, question.name)
        return [_row(judge_runs(claim, results[question.name], lacking(question.full))) for claim in claims]
    if question.kind == "figure":
        from saddlescope.show.style import svg_of

        return svg_of(found.figures[question.name], results)
    erratum = next(one for one in found.errata if one.name == question.name)
    return off_by(erratum)


def off_by(erratum: Erratum) -> dict[str, float]:
    """How far off what is printed is, and the repair: computed here, which takes seconds."""
    printed, repaired = erratum.shows()
    return {"off_printed": float(printed), "off_repaired": float(repaired)}


def claims_on(found: Room, experiment: str) -> list[Claim]:
    return [claim for claim in found.claims if claim.experiment == experiment]


def lacking(full: bool) -> str:
    """What to say of a claim that these runs are too few for."""
    return "" if full else NEEDS_FULL


def _row(verdict: Verdict) -> dict[str, Any]:
    names = ("verdict", "value", "reason", "runs")
    return {"claim": verdict.claim.name, **{name: getattr(verdict, name) for name in names}}


def verdicts_from(claims: Sequence[Claim], rows: Sequence[dict[str, Any]]) -> list[Verdict]:
    by_name = {claim.name: claim for claim in claims}
    return [
        Verdict(claim, row["verdict"], row["value"], claim.relation.bound, row["reason"], row["runs"])
        for row in rows
        for claim in (by_name[row["claim"]],)
    ]
