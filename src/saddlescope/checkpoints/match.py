"""Which tensor of one checkpoint is which of another: the same name, or the same name under another prefix."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable


def by_number(name: str) -> list[tuple[int, str]]:
    """A key to sort names by, in which layer 2 comes before layer 10."""
    parts = re.split(r"(\d+)", name)  # words and digits in turn
    return [(len(part), part) if place % 2 else (0, part) for place, part in enumerate(parts)]


def matched_names(base: Iterable[str], tuned: Iterable[str]) -> dict[str, str]:
    """Names in `base` and what they are called in `tuned`.

    A model with a head keeps its body under a prefix ("transformer.", "model."), a wrapper adds one ("module.",
    "_orig_mod."). Of all pairs of prefixes that would make some names equal, the pair that matches most is taken.
    """
    base, tuned = list(base), list(tuned)
    there = set(tuned)
    same = {name: name for name in base if name in there}
    best = same
    if len(same) == min(len(base), len(there)):
        return same
    for own, other in _prefixes(base, tuned):
        found = {
            name: other + name.removeprefix(own)
            for name in base
            if name.startswith(own) and other + name.removeprefix(own) in there
        }
        # A name that is there as it stands needs no prefix.
        found = {name: partner for name, partner in found.items() if name not in same and partner not in same} | same
        if len(found) > len(best):
            best = found
    return {name: best[name] for name in base if name in best}


def _prefixes(base: list[str], tuned: list[str]) -> list[tuple[str, str]]:
    """Pairs of prefixes, each ending in a dot or empty, that are all that some two names differ by; the
    commonest first."""
    endings: dict[str, list[str]] = {}
    for name in tuned:
        endings.setdefault(_last_words(name), []).append(name)
    votes: Counter[tuple[str, str]] = Counter()
    for name in base:
        for other in endings.get(_last_words(name), ())[:64]:
            mine, theirs = name.split("."), other.split(".")
            while mine and theirs and mine[-1] == theirs[-1]:
                mine.pop()
                theirs.pop()
            votes["".join(f"{word}." for word in mine), "".join(f"{word}." for word in theirs)] += 1
    votes.pop(("", ""), None)
    return [pair for pair, _ in votes.most_common(16)]


def _last_words(name: str) -> str:
    return ".".join(name.split(".")[-4:])
