"""A small system with everything that a room has, to be replaced file by file."""

from .system import Squares

CITATION = "Nobody: How small numbers are learned (2026)"
"""Of the paper that the room is about; shown at the head of its report."""

SYSTEMS = (Squares,)
