"""What follows from runs and code (verdicts, figures, errata): worked out once, and kept until either changes.

`<store>/.derived/<what>-<digest>.json`. The digest covers the code and everything that it imports, the versions of the
libraries, and the runs by their checksums. Nothing here is more than a copy: it may be removed at any time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from saddlescope.core.claim import NEEDS_FULL, Claim, Verdict, judge_runs
from saddlescope.core.experiment import Erratum
from saddlescope.core.files import write_whole
from saddlescope.core.room import Room, room

from .archive import Archive
from .closure import OURS, closure, hash_of, home
from .judge import evidence_of
from .request import Request
from .store import versions

Kind = Literal["verdicts", "figure", "erratum"]

LOOKS_AT = {"verdicts": "claims", "figure": "figures", "erratum": "errata"}
"""The file of a room that answers each kind of question."""

SHARED = {"verdicts": ("core/claim.py", "lab/judge.py"), "figure": ("show/style.py",), "erratum": ()}
"""What all rooms answer it with."""


@dataclass(frozen=True)
class Question:
    """verdicts: on the claims of the experiment `name`.  figure, erratum: of this name.

    runs: by experiment, those that the answer draws on.
    """

    kind: Kind
    room: str
    name: str
    full: bool = False
    runs: tuple[tuple[str, tuple[Request, ...]], ...] = ()

    @property
    def requests(self) -> list[Request]:
        return [request for _, group in self.runs for request in group]

    @property
    def words(self) -> str:
        return f"{'verdicts on' if self.kind == 'verdicts' else self.kind} {self.name} of {self.room}"


class Derived:
    """Answers below the root of a store."""

    def __init__(self, archive: Archive):
        self.archive = archive
        self.folder = archive.store.root / ".derived"
        self._code: dict[tuple[Kind, str], str] = {}

    def path(self, question: Question) -> Path:
        runs = [self.archive.about(request).stamp for request in question.requests]
        asked = (question.kind, question.room)
        if asked not in self._code:
            self._code[asked] = code_of(*asked)
        parts = [self._code[asked], json.dumps(versions(True), sort_keys=True), *runs]
        digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
        return self.folder / f"{self._what(question)}-{digest}.json"

    @staticmethod
    def _what(question: Question) -> str:
        size = "full" if question.full else "quick"
        return f"{size}-{question.kind}-{question.room}-{question.name}"

    def find(self, question: Question) -> Any:
        """The answer that is kept; None where there is none, or it is not as it was written."""
        try:
            written = json.loads(self.path(question).read_text(encoding="utf-8"))
            answer, found = written["answer"], written["checksum"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None
        return answer if _checksum(answer) == found else None

    def answer(self, question: Question) -> Any:
        """The answer that is kept, or a new one."""
        found = self.find(question)
        return self.work_out(question) if found is None else found

    def work_out(self, question: Question, path: Path | None = None) -> Any:
        """Answer it, and keep the answer in the place of an older one. path: where, if it is known."""
        path = path or self.path(question)
        answer = _answer(question, self.archive)
        self.folder.mkdir(parents=True, exist_ok=True)
        for old in self.folder.glob(f"{self._what(question)}-{'?' * 16}.json"):
            old.unlink(missing_ok=True)
        text = json.dumps({"checksum": _checksum(answer), "answer": answer})
        write_whole(path, lambda partial: partial.write_text(text, encoding="utf-8"))
        return answer


def _checksum(answer: Any) -> str:
    return hashlib.sha256(json.dumps(answer).encode()).hexdigest()


def code_of(kind: Kind, name: str) -> str:
    """Hash of all code that an answer depends on."""
    found = room(name)
    files = [file for subject in found.subjects if (file := home(subject)) is not None]
    module = found.part(LOOKS_AT[kind])
    if module is not None and module.__file__ is not None:
        files.append(Path(module.__file__).resolve())
    return hash_of(closure([*files, *(OURS / file for file in SHARED[kind])], leave_out=frozenset()))


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
