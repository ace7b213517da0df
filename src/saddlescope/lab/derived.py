"""What follows from runs and code (verdicts, figures, errata): worked out once, and kept until either changes.

`<store>/.derived/<what>-<digest>.json`. The digest covers the code and everything that it imports, the versions of the
libraries, and the runs by their checksums. Nothing here is more than a copy: it may be removed at any time.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from saddlescope.core.claim import NEEDS_FULL, Claim, Verdict, judge
from saddlescope.core.errors import concerns_all, told_with_place
from saddlescope.core.experiment import Erratum, Figure, Results
from saddlescope.core.extras import MissingLibrary, needed_by
from saddlescope.core.files import remove, write_whole
from saddlescope.core.room import Room, room as find_room
from saddlescope.core.run import Run

from .archive import Archive
from .closure import OURS, closure, code_changed, hash_of, home
from .request import Request
from .store import Damaged, versions

Also = Literal["pdf", "png", "data"]
"""What a figure may be wanted as besides SVG: for a journal, or the numbers behind its panels."""

Kind = Literal["verdicts", "figure", "erratum"] | Also

LOOKS_AT = {"verdicts": "claims", "erratum": "errata"}
"""The file of a room that answers each kind of question; all others are about figures."""

SHEET = "show/saddlescope.mplstyle"
"""Says how figures look, and is no Python."""

SHARED = "lab/derived.py"
"""All answers depend on it, and on what it imports: the judge, the store, the records, the style of figures."""


@dataclass(frozen=True)
class Question:
    """verdicts: on the claims of the experiment `name`.  figure, pdf, png, data: of the figure of this name; erratum.

    code: hash of the code that the answer depends on.  runs: by experiment, those that it draws on.  address: of the
    room, for a process that does not know its name.
    """

    kind: Kind
    room: str
    name: str
    code: str
    full: bool = False
    runs: tuple[tuple[str, tuple[Request, ...]], ...] = ()
    address: str = ""

    @property
    def requests(self) -> list[Request]:
        return [request for _, group in self.runs for request in group]

    @property
    def words(self) -> str:
        said = {"verdicts": "verdicts on", "pdf": "PDF of figure", "png": "PNG of figure", "data": "data of figure"}
        return f"{said.get(self.kind, self.kind)} {self.name} of {self.room}"


def ask(
    kind: Kind, room: str, name: str, full: bool = False, runs: tuple[tuple[str, tuple[Request, ...]], ...] = ()
) -> Question:
    return Question(kind, room, name, code_of(kind, room), full, runs, find_room(room).address)


class Derived:
    """Answers below the root of a store."""

    def __init__(self, archive: Archive):
        self.archive = archive
        self.folder = archive.store.root / ".derived"

    def path(self, question: Question) -> Path:
        runs = [(name, [self.archive.about(one).stamp for one in group]) for name, group in question.runs]
        libraries = {**versions("torch"), "matplotlib": version("matplotlib")}
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
        """Answer it, and keep the answer in the place of an older one, unless the room's code failed."""
        answer = _answer(question, self.archive)
        if code_now(question.kind, question.address) != question.code:
            raise code_changed(question.words)
        if failures(answer):
            return answer
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
    found = find_room(name)
    files = [file for subject in found.subjects if (file := home(subject)) is not None]
    module = found.part(f"evidence.{LOOKS_AT.get(kind, 'figures')}")
    if module is not None and module.__file__ is not None:
        files.append(Path(module.__file__).resolve())
    return hash_of([*closure([*files, OURS / SHARED], leave_out=frozenset()), OURS / SHEET])


code_of = cache(code_now)
"""The same when it was first asked for, which is closer to what this process has imported."""


# ---- answers ---------------------------------------------------------------------------------------------


def _answer(question: Question, archive: Archive) -> Any:
    found = find_room(question.address)
    results = {name: [run for request in group for run in archive.load(request)] for name, group in question.runs}
    if question.kind == "verdicts":
        claims = claims_on(found, question.name)
        return [_verdict(claim, results[question.name], lacking(question.full)) for claim in claims]
    if question.kind == "figure":
        from saddlescope.show.style import svg_of

        with _mistakes({"svg": None}) as answer:
            answer["svg"] = svg_of(found.figures[question.name], results)
        return answer
    if question.kind != "erratum":
        with _mistakes({"files": {}}) as answer:
            files = _files(question.kind, found.figures[question.name], results)
            answer["files"] = {ending: _packed(content) for ending, content in files.items()}
        return answer
    return off_by(next(one for one in found.errata if one.name == question.name))


def _files(kind: Also, figure: Figure, results: Results) -> dict[str, bytes]:
    """By the ends of their names, which begin with those of the room and the figure."""
    if kind == "data":
        from saddlescope.show.panels import panel_tables

        return {f"-{name}.csv": table.encode() for name, table in panel_tables(figure, results).items()}
    from saddlescope.show.journal import journal_picture

    return {f".{kind}": journal_picture(figure, results, kind)}


def _packed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content)).decode()


def files_in(answer: Mapping[str, Any]) -> dict[str, bytes]:
    """Of a figure that was wanted as a file."""
    return {ending: zlib.decompress(base64.b64decode(packed)) for ending, packed in answer["files"].items()}


def off_by(erratum: Erratum) -> dict[str, Any]:
    """How far off what is printed is, and the repair: computed here, which takes seconds. None of a plain misprint.

    lacks: the library that computing it needs and that is not installed, in words; else "".
    """
    with _mistakes({"off_printed": None, "off_repaired": None, "lacks": ""}) as answer:
        try:
            with needed_by("it"):
                if erratum.shows:
                    answer["off_printed"], answer["off_repaired"] = map(float, erratum.shows())
        except MissingLibrary as error:
            answer["lacks"] = str(error)
    return answer


def _verdict(claim: Claim, runs: Sequence[Run], lacking: str) -> dict[str, Any]:
    with _mistakes({"claim": claim.name, "verdict": "undecided", "value": None, "reason": "", "runs": 0}) as row:
        verdict = judge(claim, runs, lacking)
        row |= {name: getattr(verdict, name) for name in ("verdict", "value", "reason", "runs")}
    if row["failed"]:
        row["reason"] = f"its code failed: {row['failed']}"
    return row


@contextmanager
def _mistakes(answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """An error in the code of a room costs this answer alone: `failed` says what it was."""
    answer["failed"] = ""
    try:
        yield answer
    except (Exception, SystemExit) as error:
        if isinstance(error, Damaged) or concerns_all(error):
            raise
        answer["failed"] = told_with_place(error)


def failures(answer: Any) -> list[str]:
    """What failed in an answer, by the name of its claim if it has one."""
    rows = answer if isinstance(answer, list) else [answer]
    return [f"{row.get('claim', '')}: {row['failed']}".removeprefix(": ") for row in rows if row["failed"]]


def claims_on(found: Room, experiment: str) -> list[Claim]:
    return [claim for claim in found.claims if claim.experiment == experiment]


def lacking(full: bool) -> str:
    """What to say of a claim that these runs are too few for."""
    return "" if full else NEEDS_FULL


def verdicts_from(claims: Sequence[Claim], rows: Sequence[dict[str, Any]]) -> list[Verdict]:
    by_name = {claim.name: claim for claim in claims}
    return [
        Verdict(claim, row["verdict"], row["value"], claim.relation.bound, row["reason"], row["runs"])
        for row in rows
        for claim in (by_name[row["claim"]],)
    ]
