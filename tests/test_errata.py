"""Every erratum says what is wrong and what holds; one with numbers shows that its repair is a cure."""

from __future__ import annotations

from functools import cache
from typing import get_args, get_type_hints

import numpy as np
import pytest

from saddlescope.core.experiment import Erratum
from saddlescope.core.room import room, rooms
from saddlescope.lab.archive import Archive
from saddlescope.lab.derived import Derived, ask
from saddlescope.lab.store import Store

from .conftest import CACHE

VISIBLE = 1e-3
"""Far above the rounding and the solvers' errors that the numbers contain, and below what a reader would notice."""

CURED = 1e-2
"""A repair removes at least 99% of the error. Most leave rounding; those that hold in a limit (small initial weights,
long contexts) leave a remainder of that limit."""

ALL = [(name, erratum) for name, found in rooms().items() for erratum in found.errata]
SHOWN = [(name, erratum) for name, erratum in ALL if erratum.shows]


def each_of(pairs: list[tuple[str, Erratum]]) -> pytest.MarkDecorator:
    ids = [f"{paper}-{erratum.name}" for paper, erratum in pairs]
    return pytest.mark.parametrize(("paper", "erratum"), pairs, ids=ids)


@cache
def shown(paper: str, name: str) -> tuple[float, float]:
    """What `reproduce` has worked out in these tests, if it has: it depends on the code alone."""
    found = Derived(Archive(Store(CACHE / "runs"))).answer(ask("erratum", paper, name))
    assert not found["failed"]
    return found["off_printed"], found["off_repaired"]


def test_some_errata_are_known():
    assert SHOWN


@pytest.mark.parametrize("paper", rooms())
def test_names_are_unique_and_the_version_of_the_paper_is_said(paper: str):
    names = [erratum.name for erratum in room(paper).errata]
    assert len(set(names)) == len(names)
    assert bool(room(paper).version) == bool(names)


@each_of(ALL)
def test_every_text_says_something(paper: str, erratum: Erratum):
    for field in ("name", "where", "printed", "true", "repair"):
        text = getattr(erratum, field)
        assert text and text == text.strip(), field
    assert erratum.severity in get_args(get_type_hints(Erratum)["severity"])
    assert erratum.printed != erratum.true


@each_of(ALL)
def test_more_than_a_misprint_has_numbers(paper: str, erratum: Erratum):
    assert erratum.shows or erratum.severity == "misprint"
    assert bool(erratum.measure) == bool(erratum.shows), "`measure` says what the numbers are"


@each_of(SHOWN)
def test_numbers_show_it(paper: str, erratum: Erratum):
    printed, repaired = shown(paper, erratum.name)
    assert np.isfinite([printed, repaired]).all()
    assert printed > VISIBLE
    assert 0 <= repaired <= CURED * printed
