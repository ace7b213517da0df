"""A small system with everything that a room has, to be replaced file by file."""

from saddlescope import Paper

from .system import Squares

CITATION = Paper(authors=("Nobody, Ann",), title="How small numbers are learned", year=2026)
"""The paper that the room is about: for the head of its report, and for `saddlescope cite`."""

SYSTEMS = (Squares,)
