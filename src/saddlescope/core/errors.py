"""Errors that name the argument, the value and the way out."""

from __future__ import annotations

import difflib
import sysconfig
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
    """The same, and the line of a room that led to it; where no room did, the line that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    place = next((frame for frame in reversed(frames) if _of_a_room(Path(frame.filename))), frames[-1])
    file = Path(place.filename)
    return f"{told(error)} (in {place.name}, {file.parent.name}/{file.name} line {place.lineno})"


def _of_a_room(file: Path) -> bool:
    """Whether a file is neither a library's nor of this package outside its rooms."""
    ours = Path(__file__).parents[1]
    if file.is_relative_to(ours):
        return file.relative_to(ours).parts[0] in ("systems", "studies", "templates")
    return not any(file.is_relative_to(sysconfig.get_path(name)) for name in ("stdlib", "purelib"))


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
