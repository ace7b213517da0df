"""Start: where all faces of a run begin."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple, TypeVar, get_type_hints

T = TypeVar("T")
_OF_THE_START = "of the start"
OfTheStart = Annotated[T, _OF_THE_START]
"""Marks the fields of a frame that record the start: the seed moves them, and no others."""


class Start(NamedTuple):
    """What `System.start` returns. point: what moves, the weights.  frame: what does not, e.g. data and targets."""

    point: Any
    frame: Any


class ReducedStart(Start):
    """One whose point is the reduced state, because the weights cannot be formed (alpha = 1e-1000); frame: as ever."""


def fields_of_the_start(frame: Any) -> set[str]:
    """Names of the fields of a frame that are `OfTheStart`."""
    hints = get_type_hints(type(frame), include_extras=True)
    return {name for name, hint in hints.items() if _OF_THE_START in getattr(hint, "__metadata__", ())}
