"""How to cite saddlescope, and the papers whose systems were used: BibTeX."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import saddlescope
from saddlescope.core.paper import Paper
from saddlescope.core.registry import subject_type
from saddlescope.core.room import Room, room_of, rooms
from saddlescope.show.latex import text

KEY = "saddlescope"

TITLE = "saddlescope: a laboratory and an instrument for how transformers learn in stages"
AUTHORS = ("The saddlescope authors",)
"""As in CITATION.cff, which an installed package does not have."""


def cite(system: str | None = None) -> str:
    """BibTeX of saddlescope and of the paper of a system or study.

    system: a name that `saddlescope list` shows, or "module:Class"; None means all papers.
    """
    return "\n\n".join(entry["bibtex"] for entry in entries(system))


def entries(system: str | None = None) -> list[dict[str, Any]]:
    """The same one by one: key, type, systems (whose paper it is), fields in plain words, bibtex."""
    found = {KEY: _entry(KEY, "misc", _tool_fields())}
    chosen = rooms().values() if system is None else [room_of(subject_type(system))]
    for room in chosen:
        if room.paper not in found:
            found[room.paper] = _paper_entry(room)
        found[room.paper]["systems"].append(room.name)
    return list(found.values())


def _tool_fields() -> Iterator[tuple[str, Any]]:
    yield "author", AUTHORS
    yield "title", TITLE
    yield "version", saddlescope.__version__
    yield "note", f"Computer software, version {saddlescope.__version__}"


def _paper_entry(room: Room) -> dict[str, Any]:
    paper = room.cited
    return _entry(room.paper, "inproceedings" if paper.published else "misc", _fields(paper))


def _fields(paper: Paper) -> Iterator[tuple[str, Any]]:
    yield "author", paper.authors
    yield "title", paper.title
    yield "booktitle", paper.published
    yield "year", paper.year
    yield "series", paper.series
    yield "volume", paper.volume
    yield "pages", paper.pages
    yield "eprint", paper.eprint
    yield "archivePrefix", paper.eprint and "arXiv"
    yield "primaryClass", paper.subject
    yield "url", paper.url
    yield "note", paper.note


def _entry(key: str, kind: str, fields: Iterator[tuple[str, Any]]) -> dict[str, Any]:
    known = {name: list(value) if name == "author" else str(value) for name, value in fields if value}
    key = re.sub(r"[^A-Za-z0-9_:.+/-]+", "", key) or "paper"
    lines = [f"  {name} = {{{_bibtex(name, value)}}}," for name, value in known.items()]
    return {
        "key": key,
        "type": kind,
        "systems": [],
        "fields": known,
        "bibtex": "\n".join([f"@{kind}{{{key},", *lines, "}"]),
    }


def _bibtex(name: str, value: Any) -> str:
    if name == "author":
        return " and ".join(map(_author, value))
    # A title keeps its capitals, and an address its signs.
    return value if name == "url" else f"{{{text(value)}}}" if name == "title" else text(value)


def _author(name: str) -> str:
    """A name without a comma is that of a group, or a family name alone: it is kept together."""
    return text(name) if "," in name else f"{{{text(name)}}}"
