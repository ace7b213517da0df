"""How a comparison of two models shows itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from .by_layer import draw_by_layer, say, shortened
from .change import has_changed
from .display import Card
from .weights import LAYERS, NAME, OF_RANK, RANKS, SIZE, groups_of
from .words import number

if TYPE_CHECKING:
    from saddlescope.checkpoints.difference import Difference

NOTES = 3
"""Of all notes, how many are shown."""


PLACE = 30
"""Letters of the name of a model."""


def card(found: Difference) -> Card:
    modules = [module.to_dict() for module in found.modules]
    groups, above = groups_of(modules, grouped=True)
    columns = [NAME, LAYERS, OF_RANK if found.tuned is None else SIZE, *RANKS]
    names = [column.header.replace("\n", " ") for column in columns]
    rows = [[shortened(group.name), *(column.cell(group) for column in columns[1:])] for group in groups]
    return Card(_headline(found, modules, above), names, rows, names[1:], _lines(found))


def _headline(found: Difference, modules: Sequence[Mapping[str, Any]], above: str) -> str:
    without = f" (names without {above})" if above else ""
    base = shortened(found.base, PLACE)
    if found.tuned is None:
        return f"an adapter of {len(modules)} matrices: {base}{without}"
    changed = sum(map(has_changed, modules))
    return f"{changed} of {len(modules)} matrices changed: {base} -> {shortened(found.tuned, PLACE)}{without}"


def _lines(found: Difference) -> list[str]:
    lines = []
    rows = [row for row in found.head_rows() if row["stable_rank"]]
    for circuit in dict.fromkeys(row["circuit"] for row in rows):
        own = [row for row in rows if row["circuit"] == circuit]
        middle, chance = (number(median(row[name] for row in own), 3) for name in ("stable_rank", "random_stable_rank"))
        lines.append(f"{circuit} of {len(own)} heads: median stable rank {middle}, of a random change {chance}")
    lines.append(".advise() gives the ranks of a LoRA, .extract(folder) writes it, .report(path) shows everything")
    lines += [f"note: {words}" for words in found.notes[:NOTES]]
    return [*lines, *([f"and {len(found.notes) - NOTES} more in .notes"] if len(found.notes) > NOTES else [])]


def rows(found: Difference, of: str = "modules") -> list[dict[str, Any]]:
    """A row for each matrix, or for each head and circuit; lists of singular values are left out."""
    if of == "heads":
        return [_flat(row) for row in found.head_rows()]
    if of != "modules":
        raise ValueError(f"`of` must be 'modules' or 'heads', got {of!r}")
    return [
        {"name": module.name, "rows": module.shape[0], "columns": module.shape[1], "kind": module.kind}
        | _flat(module.to_dict())
        for module in found.modules
    ]


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if not isinstance(value, list)}


def draw(found: Difference, axes: Any) -> None:
    """Stable rank of the change by layer, a line for each kind of matrix."""
    modules = [module for module in (one.to_dict() for one in found.modules) if has_changed(module)]
    if modules:
        draw_by_layer(axes, modules, "stable_rank", "stable rank of the change")
    else:
        say(axes, "nothing changed")
