"""Words that are shown to people."""

from __future__ import annotations

import re
import shutil

NARROW = 70
"""Columns below which numbers would leave no room for names: on a narrower terminal lines are broken by it."""

WIDE = 140
"""Columns where there is no terminal to say how many it has: in a file, tables need not be squeezed."""


def columns() -> int:
    """How many characters a line of a table on stdout may have."""
    return max(NARROW, shutil.get_terminal_size((WIDE, 24)).columns)


def folded(name: str, width: int) -> str:
    """A name over several lines of at most so many letters, broken after an underscore, a dot or a slash where it has
    any."""
    lines, rest = [], name
    while len(rest) > width:
        places = [place for place, sign in enumerate(rest[:width], start=1) if sign in "_./"]
        cut = places[-1] if places else width
        lines.append(rest[:cut])
        rest = rest[cut:]
    return "\n".join([*lines, rest])


LONGEST = 300
"""Characters without a space, of which more are not shown."""


def printable(text: str) -> str:
    """Words from a file without what a terminal would obey, and without names that go on for pages.

    Nothing but letters, signs and line ends is passed on.
    """
    text = re.sub(rf"\S{{{LONGEST + 1},}}", lambda found: f"{found[0][:200]}...{found[0][-50:]}", text)
    return without_controls(text)


def without_controls(text: str) -> str:
    return "".join(sign if sign.isprintable() or sign == "\n" else "\N{REPLACEMENT CHARACTER}" for sign in text)


def duration(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    if seconds < 120:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02} min"
