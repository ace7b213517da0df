"""How to cite saddlescope and the papers: BibTeX, which says what CITATION.cff says."""

from __future__ import annotations

import json
import re

import pytest

import saddlescope as ss
from saddlescope.core.paper import Paper
from saddlescope.core.room import room, rooms
from saddlescope.lab import cite

from .conftest import ROOT


def bibtex(text: str) -> dict[str, dict[str, str]]:
    """Entries by key."""
    found = re.findall(r"@(\w+)\{([^,\s]+),\n(.*?)\n\}", text, re.S)
    assert len(found) == text.count("@")
    fields = {key: re.findall(r"^  (\w+) = \{(.*)\},$", body, re.M) for _, key, body in found}
    assert all(len(fields[key]) == body.count("\n") + 1 for _, key, body in found)
    return {key: {"type": kind, **dict(fields[key])} for kind, key, _ in found}


def test_the_tool_and_the_paper_of_every_room():
    everything = ss.cite()
    assert everything.isascii() and everything.count("{") == everything.count("}")
    entries = bibtex(everything)
    assert entries.keys() == {"saddlescope", *(one.paper for one in rooms().values())}
    assert entries["saddlescope"]["author"] == "{The saddlescope authors}"
    for name, one in rooms().items():
        assert bibtex(ss.cite(name)).keys() == {"saddlescope", one.paper}
        entry = entries[one.paper]
        assert entry["title"].startswith("{") and entry["author"] and re.fullmatch(r"(19|20)\d\d", entry["year"])
        assert entry["type"] == ("inproceedings" if "booktitle" in entry else "misc")
        assert ("eprint" in entry) == ("archivePrefix" in entry)


def test_two_rooms_of_one_paper_say_the_same_of_it():
    for one in rooms().values():
        assert all(other.cited == one.cited for other in rooms().values() if other.paper == one.paper)


def test_citation_file_says_the_same():
    yaml = pytest.importorskip("yaml", reason="CITATION.cff is YAML, which saddlescope itself does not read")
    said = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (said["title"], said["version"]) == (cite.TITLE, ss.__version__)
    assert tuple(author["name"] for author in said["authors"]) == cite.AUTHORS
    references = {one["title"]: one for one in said["references"]}
    ours = [one.cited for one in rooms().values() if one.package.startswith("saddlescope.s")]
    for one in ours:  # a paper whose room is absent is cited all the same
        authors = [f"{name['family-names']}, {name['given-names']}" for name in references[one.title]["authors"]]
        assert (tuple(authors), references[one.title]["year"]) == (one.authors, one.year)
        assert references[one.title]["doi"] == f"10.48550/arXiv.{one.eprint}"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Nobody: Small numbers (2026)", Paper(authors=("Nobody",), title="Small numbers", year=2026)),
        (
            "A. Uthor, C. O. Author: T: s (NeurIPS 2024)",
            Paper(
                authors=("Uthor, A.", "Author, C. O."), title="T: s", year=2024, venue="NeurIPS", published="NeurIPS"
            ),
        ),
        (
            "Two Names and Other: A title. arXiv 2306.07042 v1 (2023), Section 5",
            Paper(authors=("Two Names", "Other"), title="A title", year=2023, eprint="2306.07042"),
        ),
        ("key2026", Paper(title="key2026")),
        ("", Paper()),
    ],
)
def test_what_can_be_made_of_a_line(line, expected):
    assert Paper.read(line) == expected


def test_a_room_that_cites_by_a_line(monkeypatch):
    from saddlescope.templates import squares

    monkeypatch.setattr(squares, "CITATION", "Nobody, Else: Small & large (2026)")
    entry = bibtex(ss.cite("squares"))[room("squares").paper]
    assert entry["author"] == "{Nobody} and {Else}" and entry["title"] == r"{Small \& large}"
    monkeypatch.delattr(squares, "CITATION")
    assert bibtex(ss.cite("squares"))[room("squares").paper]["title"] == f"{{{room('squares').paper}}}"


def test_the_command_that_cites(call, answer, refusal):
    code, said, _ = call("cite", "linear_icl/softmax") if "linear_icl" in rooms() else call("cite", "squares")
    assert code == 0 and len(bibtex(said)) == 2
    entries = answer("cite", "squares")
    assert [entry["key"] for entry in entries] == ["saddlescope", room("squares").paper]
    assert entries[1]["systems"] == ["squares"] and entries[1]["fields"]["year"] == "2026"
    assert json.dumps(entries)
    assert "did you mean 'squares'" in refusal("cite", "sqares")
