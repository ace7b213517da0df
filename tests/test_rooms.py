"""What every paper's room must hold besides its systems, by discovery."""

from __future__ import annotations

import pytest

from saddlescope.core.room import Line, Room, room as find_room, rooms
from saddlescope.core.system import System
from saddlescope.lab.sources import BEGIN, END, equation_table

from .conftest import expected_of

ROOMS = list(rooms().values())

each_room = pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)


@each_room
def test_every_line_of_the_inventory_points_somewhere(room):
    assert room.astray() == []
    expected = expected_of(room)
    lines = len(room.inventory) if expected is None else expected.LINES
    assert room.coverage()["covered"] == room.coverage()["lines"] == lines, "see LINES in the room's expected.py"
    assert len({line.id for line in room.inventory}) == lines


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ("claim:drop_times", True),
        ("claim:squares/drop_times", True),
        ("claim:absent/drop_times", True),
        ("function:absent/prediction.drop_times", True),
        ("claim:drop_tmies", False),
        ("claim:squares/drop_tmies", False),
    ],
)
def test_a_pointer_into_an_absent_room_is_passed_over_and_no_other(target, found, monkeypatch):
    kind, _, name = target.partition(":")
    monkeypatch.setattr(Room, "inventory", (Line("1", "equation", "Eq. (1)", "the loss", ((kind, name),)),))
    wrong = [] if found else [f"1 points to {target}, which does not exist"]
    assert find_room("squares").astray() == wrong


@each_room
def test_every_claim_erratum_and_figure_is_somewhere_in_the_inventory(room):
    assert room.left_out() == []


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
def test_corrections_and_expectations_belong_to_claims(room):
    names = {claim.name for claim in room.claims}
    assert {claim.repairs for claim in room.claims if claim.repairs} <= names
    expected = expected_of(room)
    assert expected is None or names.issuperset(expected.REFUTED)


@each_room
def test_the_table_of_equations_is_that_of_the_code(room):
    text = (room.folder / "README.md").read_text()
    if BEGIN not in text and not issubclass(room.subjects[0], System):
        pytest.skip("a study that implements no numbered equation")
    found = text.partition(BEGIN)[2].partition(END)[0].strip()
    assert found == equation_table(room.subjects[0]), "run `make tables`"
