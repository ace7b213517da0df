"""How verdicts show themselves: one, or all that one run decides."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from saddlescope.core.claim import Verdict

from .display import Card
from .page import comparison
from .words import number

COLOURS = {"supported": "#009E73", "refuted": "#D55E00", "undecided": "#999999"}
"""Colour-blind safe (Okabe-Ito)."""

SIGNS = {"supported": "o", "refuted": "X", "undecided": "."}

DECADES = 3.0
"""To either side of the bound, as far as a picture goes."""


def listed(found: Verdict | Sequence[Verdict]) -> list[Verdict]:
    return [found] if isinstance(found, Verdict) else list(found)


def card(found: Verdict | Sequence[Verdict]) -> Card:
    return _card_of_one(found) if isinstance(found, Verdict) else _card_of_many(found)


def _card_of_one(one: Verdict) -> Card:
    claim, relation = one.claim, one.claim.relation
    lines = [claim.says]
    if one.value is not None:
        lines.append(f"found {comparison(one.value, one.bound, relation.side)}; {relation.because}")
    if one.reason:
        lines.append(one.reason)
    return Card(f"{one.verdict}: {claim.name} ({', '.join(claim.source)})", lines=lines)


def _card_of_many(found: Sequence[Verdict]) -> Card:
    counts = Counter(one.verdict for one in found)
    headline = ", ".join(f"{counts[word]} {word}" for word in COLOURS)
    title = getattr(found, "title", "")
    # What needs a look first.
    order = sorted(found, key=lambda one: ("refuted", "supported", "undecided").index(one.verdict))
    table = [
        (one.verdict, one.claim.name, number(one.value, 3), number(one.bound, 3), one.claim.source[1]) for one in order
    ]
    return Card(
        f"{title}: {headline}" if title else headline,
        ("verdict", "claim", "value", "bound", "source"),
        table,
        ("value", "bound"),
    )


def rows(found: Verdict | Sequence[Verdict]) -> list[dict[str, Any]]:
    """A row for each claim."""
    return [
        {
            "claim": one.claim.name,
            "verdict": one.verdict,
            "value": one.value,
            "bound": one.bound,
            "source": ", ".join(one.claim.source),
            "says": one.claim.says,
            "reason": one.reason,
        }
        for one in listed(found)
    ]


def draw(found: Verdict | Sequence[Verdict], axes: Any) -> None:
    """How far each value is from its bound, on the side where the claim holds or where it does not."""
    shown = decided(found)
    for place, one in enumerate(shown):
        colour = COLOURS[one.verdict]
        axes.plot([0, margin(one)], [place, place], color=colour, lw=1.2)
        axes.plot(margin(one), place, color=colour, marker=SIGNS[one.verdict], ms=5)
    axes.axvline(0, color="#222222", lw=0.8)
    axes.set_yticks(range(len(shown)), [one.claim.name for one in shown], fontsize=7 if len(shown) > 8 else 9)
    axes.invert_yaxis()
    ticks = [-3, -2, -1, 0, 1, 2, 3]
    axes.set_xticks(ticks, ["≥ 1000 x", "100 x", "10 x", "bound", "10 x", "100 x", "≥ 1000 x"])
    axes.set_xlim(-DECADES - 0.2, DECADES + 0.2)
    axes.set_xlabel("beyond its bound    ◂    value    ▸    within its bound")
    title = "" if isinstance(found, Verdict) else getattr(found, "title", "")
    axes.set_title(title if shown else f"{title}: nothing was decided".lstrip(": "), loc="left")


def decided(found: Verdict | Sequence[Verdict]) -> list[Verdict]:
    return [one for one in listed(found) if one.value is not None and not math.isnan(one.value)]


def size(found: Verdict | Sequence[Verdict]) -> tuple[float, float]:
    """Of a picture of so many claims, in inches."""
    return 6.4, 1.1 + 0.17 * max(len(decided(found)), 3)


def margin(one: Verdict) -> float:
    """Decades between value and bound, positive where the claim holds; at most `DECADES`."""
    assert one.value is not None
    holds = one.claim.relation.holds(one.value)
    sign = 1.0 if holds else -1.0
    if one.value == 0 and one.bound == 0:
        return sign * 0.05  # exactly at the bound
    if one.value == 0 or one.bound == 0 or (one.value < 0) != (one.bound < 0) or math.isinf(one.value):
        return sign * DECADES
    return sign * min(abs(math.log10(one.value / one.bound)), DECADES)
