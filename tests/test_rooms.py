"""What every paper's room must hold besides its systems, by discovery."""

from __future__ import annotations

import pytest

from saddlescope.core.room import rooms
from saddlescope.core.study import Study
from saddlescope.lab.sources import BEGIN, END, equation_table

ROOMS = list(rooms().values())
LINES = {"cooccurrence": 100, "gradual_rank": 92, "linear_icl": 63, "sparse_attention": 61}
"""Statements, equations, figures, tables and experiments that were counted in each paper."""

each_room = pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)


@each_room
def test_every_line_of_the_inventory_points_somewhere(room):
    assert room.astray() == []
    lines = LINES.get(room.name, 0)  # what a study treats of a paper is counted in the paper's own room
    assert room.coverage()["covered"] == room.coverage()["lines"] == lines
    assert len({line.id for line in room.inventory}) == lines


@each_room
def test_every_claim_erratum_and_figure_is_somewhere_in_the_inventory(room):
    """In its own room's, or in that of the paper which a study treats."""
    pointed = {
        (kind, *other.place_of(target))
        for other in ROOMS
        for line in other.inventory
        for kind, target in line.points_to
        if kind != "reason"
    }
    assert {claim.name for claim in room.claims if ("claim", room.name, claim.name) not in pointed} == set()
    assert {figure for figure in room.figures if ("figure", room.name, figure) not in pointed} == set()
    assert {erratum.name for erratum in room.errata if ("erratum", room.name, erratum.name) not in pointed} == set()


@each_room
def test_every_experiment_is_used(room):
    used = {claim.experiment for claim in room.claims}
    used |= {name for figure in room.figures.values() for name in figure.experiments}
    assert set(room.experiments) == used


@each_room
def test_figures_say_what_to_look_for(room):
    for figure in room.figures.values():
        assert len(figure.caption) > 40 and len(figure.look_for) > 20 and figure.source, figure.name


@each_room
def test_corrections_belong_to_claims(room):
    names = {claim.name for claim in room.claims}
    assert {claim.repairs for claim in room.claims if claim.repairs} <= names


@each_room
def test_the_table_of_equations_is_that_of_the_code(room):
    text = (room.folder / "README.md").read_text()
    if BEGIN not in text and issubclass(room.subjects[0], Study):
        pytest.skip("a study that implements no numbered equation")
    found = text.partition(BEGIN)[2].partition(END)[0].strip()
    assert found == equation_table(room.subjects[0]), "run `make tables`"


def test_every_numbered_equation_has_its_function():
    """Of linear_icl: (1) to (51)."""
    table = equation_table(next(room for room in ROOMS if room.name == "linear_icl").subjects[0])
    assert [number for number in range(1, 52) if f"Eq. ({number})" not in table] == []
