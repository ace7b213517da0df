"""Words that come from files and are shown to people."""

from __future__ import annotations


def printable(text: str) -> str:
    """Without what a terminal would obey: other than letters, signs and line ends nothing is passed on."""
    return "".join(sign if sign.isprintable() or sign == "\n" else "\N{REPLACEMENT CHARACTER}" for sign in text)
