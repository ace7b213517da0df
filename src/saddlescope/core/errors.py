"""Errors that name the argument, the value and the way out."""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Iterable
from pathlib import Path


class BadArgument(ValueError):
    """The caller asked for something that cannot be: exit code 2 on the command line."""


class CannotGoOn(BadArgument):
    """What a training should go on from is damaged, or is of another run."""


def told(error: BaseException) -> str:
    """An error of somebody's code in one line."""
    words = str(error) if isinstance(error, BadArgument) else f"{type(error).__name__}: {error}"
    return words.partition("\n")[0]


def told_with_place(error: BaseException) -> str:
    """The same, and the line that raised it."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{told(error)} (in {place.name}, {Path(place.filename).name} line {place.lineno})"


def concerns_all(error: BaseException) -> bool:
    """Whether an error says nothing of the code that ran: no memory, a full disk. A file that has a name is its own."""
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.filename is None)


class OnlyHelped(Exception):
    """This process helped another one, which has the results: there is nothing to show here."""


def unknown(kind: str, given: str, options: Iterable[str]) -> BadArgument:
    """The error for a name that is not among `options`, with the nearest one suggested."""
    options = sorted(options)
    near = difflib.get_close_matches(given, options, n=1, cutoff=0.5)
    others = f"choose one of: {', '.join(options)}" if options else "there is none"
    hint = f"did you mean {near[0]!r}?" if near else others
    return BadArgument(f"unknown {kind} {given!r}: {hint}")
