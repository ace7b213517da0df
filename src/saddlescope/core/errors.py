"""Errors that name the argument, the value and the way out."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class BadArgument(ValueError):
    """The caller asked for something that cannot be: exit code 2 on the command line."""


class CannotGoOn(BadArgument):
    """What a training should go on from is damaged, or is of another run."""


def told(error: BaseException) -> str:
    """An error of somebody's code in one line."""
    return f"{type(error).__name__}: {error}".partition("\n")[0]


class OnlyHelped(Exception):
    """This process helped another one, which has the results: there is nothing to show here."""


def unknown(kind: str, given: str, options: Iterable[str]) -> BadArgument:
    """The error for a name that is not among `options`, with the nearest one suggested."""
    options = sorted(options)
    near = difflib.get_close_matches(given, options, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"choose one of: {', '.join(options)}"
    return BadArgument(f"unknown {kind} {given!r}: {hint}")
