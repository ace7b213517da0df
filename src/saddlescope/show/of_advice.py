"""How the advice for a LoRA shows itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .by_layer import draw_by_layer, say, shortened
from .display import Card
from .weights import ADVISED, advised_groups, left_out_lines
from .words import number

if TYPE_CHECKING:
    from saddlescope.checkpoints.advice import Advice


def card(advice: Advice) -> Card:
    groups = advised_groups(advice.config["rank_pattern"])
    names = [column.header for column in ADVISED]
    rows = [[shortened(group[0], 48), *(column.cell(group) for column in ADVISED[1:])] for group in groups]
    lines = [*left_out_lines(advice.left_out), *(f"note: {words}" for words in advice.remarks)]
    return Card(_headline(advice), names, rows, names[1:], lines)


def _headline(advice: Advice) -> str:
    if not advice.ranks:
        why = "nothing above the floor" if advice.budget is None else f"{advice.budget:,} parameters buy no direction"
        return f"LoRA: none, {why}"
    low, high = min(advice.ranks.values()), max(advice.ranks.values())
    ranks = f"rank {low}" if low == high else f"ranks {low} to {high}"
    left = number(100 * advice.relative_residual, 3)
    return (
        f"LoRA of {ranks} for {len(advice.ranks)} matrices, {advice.parameters:,} parameters: leaves {left}% of the "
        "change's norm"
    )


def rows(advice: Advice) -> list[dict[str, Any]]:
    """A row for each matrix that changed: its rank, or why it has none."""
    found: list[dict[str, Any]] = [
        {"name": name, "module": advice.names[name], "rank": rank, "left_out": ""}
        for name, rank in advice.ranks.items()
    ]
    return [
        *found,
        *({"name": row["name"], "module": None, "rank": 0, "left_out": row["reason"]} for row in advice.left_out),
    ]


def draw(advice: Advice, axes: Any) -> None:
    """Ranks by layer, a line for each kind of matrix."""
    ranks = [{"name": name, "rank": rank} for name, rank in advice.ranks.items()]
    if ranks:
        draw_by_layer(axes, ranks, "rank", "rank of the LoRA")
    else:
        say(axes, "no directions to keep")
