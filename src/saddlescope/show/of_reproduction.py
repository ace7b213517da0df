"""How a reproduction shows itself: verdicts of each paper in numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saddlescope.core.words import duration

from .display import Card
from .of_verdicts import COLOURS

if TYPE_CHECKING:
    from saddlescope.lab.job import Reproduction


def counts(found: Reproduction) -> dict[str, dict[str, int]]:
    """Verdicts of each kind, by paper."""
    return {
        name: {
            word: sum(row["system"] == name and row["verdict"] == word for row in found.verdicts) for word in COLOURS
        }
        for name in found.seconds
    }


def card(found: Reproduction) -> Card:
    table = [
        (name, *(str(count) for count in of.values()), duration(found.seconds[name]))
        for name, of in counts(found).items()
    ]
    total = ", ".join(f"{sum(row['verdict'] == word for row in found.verdicts)} {word}" for word in COLOURS)
    numbers = (*COLOURS, "time of its runs")
    return Card(
        f"reproduction: {total}", ("system", *numbers), table, numbers, [*found.mistakes, f"page: {found.page}"]
    )


def rows(found: Reproduction) -> list[dict[str, Any]]:
    """A row for each claim."""
    return found.verdicts


def draw(found: Reproduction, axes: Any) -> None:
    left = dict.fromkeys(counts(found), 0)
    for word, colour in COLOURS.items():
        widths = [of[word] for of in counts(found).values()]
        axes.barh(list(left), widths, left=list(left.values()), color=colour, label=word)
        left = {name: start + width for (name, start), width in zip(left.items(), widths, strict=True)}
    axes.invert_yaxis()
    axes.set_xlabel("claims")
    axes.legend(loc="lower right", fontsize="small")
