"""Tables of weight changes for people. Each takes what --json prints."""

from __future__ import annotations

import itertools
import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from saddlescope.core.words import columns, printable

from .tables import Rows, number

WIDE = 96
"""Columns of a terminal from which on all that is known of a matrix fits beside its name."""

FEW = 40
"""Matrices up to which each has its row; beyond, those that differ only by numbers in their names share one."""


def change(found: Mapping[str, Any], *, full: bool = False, page: Path | None = None) -> Rows:
    """Modules, heads by layer, the advice, and the notes."""
    modules = found["modules"]
    parts: list[Any] = [_modules(modules, alone=found["tuned"] is None, full=full)]
    if found["heads"]:
        parts.append(_heads(found["heads"]))
    parts.append(
        "stable rank: energy over that of the top direction; random: that of a random change; entropy: entropy rank; "
        "above floor: directions that rounding of the stored weights cannot explain"
    )
    if found["lora"] is not None:
        parts += _advice(found["lora"])
    parts += [f"note: {words}" for words in found["notes"]]
    if page is not None:
        parts.append(f"the report: {page}")
    return Rows([dict(found)], parts)


def _columns(title: str, words: Sequence[str], numbers: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", header_style="bold")
    for name in words:
        table.add_column(name, overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _modules(modules: Sequence[Mapping[str, Any]], *, alone: bool, full: bool) -> Table:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    grouped = len(modules) > FEW and not full
    # What stands outside the layers (an output matrix) has no part in what the layers' names share.
    layered = [module["name"] for module in modules if re.search(r"\.\d+\.", module["name"])]
    above = _shared_start(layered or [module["name"] for module in modules])
    wide = columns() >= WIDE
    for module in modules:
        name = module["name"].removeprefix(above).removesuffix(".weight")
        groups.setdefault(_kind(name) if grouped else name, []).append(module)
    size = ["of r"] if alone else ["change"]
    title = "change of each kind of matrix: medians, and the range of ranks" if grouped else "change of each matrix"
    extra = ["random", "entropy", "top / floor"] if wide else []
    numbers = ["shape", *size, "stable rank", "above floor", *extra]
    table = _columns(
        title + (f" (names without {_safe(above)})" if above else ""),
        ["matrix"],
        [*(["layers"] if grouped else []), *numbers],
    )
    for name, group in groups.items():
        largest = [
            module["singular_values"][0] / module["floor"]
            for module in group
            if module["floor"] and module["singular_values"]
        ]
        table.add_row(
            _safe(name),
            *([str(len(group))] if grouped else []),
            _span([" x ".join(map(str, module["shape"])) for module in group]),
            _span([str(module["rank"]) for module in group])
            if alone
            else _share(_median(module["relative_change"] for module in group)),
            number(_median(module["stable_rank"] for module in group), 3),
            _range([module["rank_above_floor"] for module in group]),
            *(
                (
                    number(_median(module["random_stable_rank"] for module in group), 3),
                    number(_median(module["entropy_rank"] for module in group), 3),
                    number(_median(largest), 3),
                )
                if wide
                else ()
            ),
        )
    return table


def _shared_start(names: Sequence[str]) -> str:
    """What all names begin with, up to a dot."""
    words = zip(*(name.split(".")[:-1] for name in names), strict=False) if len(names) > 1 else ()
    return "".join(f"{level[0]}." for level in itertools.takewhile(lambda level: len(set(level)) == 1, words))


def _heads(heads: Sequence[Mapping[str, Any]]) -> Table:
    """A row for each layer and circuit: the least, middle and largest of its heads."""
    groups: dict[tuple[str, int, str], list[Mapping[str, Any]]] = {}
    for head in heads:
        groups.setdefault((head.get("stack", ""), head["layer"], head["circuit"]), []).append(head)
    stacks = any(stack for stack, _, _ in groups)
    table = _columns(
        "change of the heads: least, median and largest of each layer",
        [*(["stack"] if stacks else []), "circuit"],
        ["layer", "heads", "change", "stable rank", "random", "rank above floor"],
    )
    for (stack, layer, circuit), group in groups.items():
        table.add_row(
            *([_safe(stack)] if stacks else []),
            circuit,
            str(layer),
            str(len(group)),
            _share(_median(head["relative_change"] for head in group)),
            " ".join(number(value, 3) for value in _three([head["stable_rank"] for head in group])),
            number(_median(head["random_stable_rank"] for head in group), 3),
            " ".join(number(value, 4) for value in _three([head["rank"] for head in group])),
        )
    return table


def _advice(lora: Mapping[str, Any]) -> list[Any]:
    ranks = lora["rank_pattern"]
    if not ranks:
        why = (
            f"{lora['budget']:,} parameters buy no direction"
            if lora["budget"] is not None
            else "nothing above the floor"
        )
        return [f"LoRA: none, {why}"]
    how = f"the best for {lora['budget']:,} parameters" if lora["budget"] is not None else "directions above the floor"
    if lora["energy"] is not None and lora["energy"] < 1:
        how = f"{lora['energy']:.4g} of the energy above the floor"
    groups: dict[str, list[int]] = {}
    for name, rank in ranks.items():
        groups.setdefault(_kind(name), []).append(rank)
    table = _columns(f"LoRA ranks: {how}", ["module"], ["layers", "rank"])
    for name, found in groups.items():
        table.add_row(_safe(name), str(len(found)), _range(found))
    lines = [
        f"{lora['parameters']:,} parameters; leaves {number(lora['relative_residual'], 3)} of the change's norm "
        f"({number(lora['residual'], 6)})"
    ]
    if "extracted" in lora:
        extracted = lora["extracted"]
        lines.append(f"the adapter: {extracted['folder']}, which leaves {number(extracted['residual'], 6)}")
    else:
        lines.append("PEFT's rank_pattern and alpha_pattern are in --json; --extract DIR writes the adapter itself")
    reasons: dict[str, list[str]] = {}
    for row in lora["left_out"]:
        reasons.setdefault(row["reason"], []).append(row["name"])
    lines += [f"no LoRA for {len(names)} matrices ({names[0]}, ...): {reason}" for reason, names in reasons.items()]
    lines += [f"note: {words}" for words in lora["remarks"]]
    return [table, *lines]


def series(found: Mapping[str, Any]) -> Rows:
    """Medians over heads at every step, the first stages, and what is wrong with the checkpoints."""
    growth = found["growth"]
    circuits = list(dict.fromkeys(row["circuit"] for row in growth))
    table = _columns(
        "change from the first checkpoint: medians over all heads",
        [],
        ["step", *(f"{circuit} {what}" for circuit in circuits for what in ("change", "stable rank"))],
    )
    for step in dict.fromkeys(row["step"] for row in growth):
        rows = {row["circuit"]: row for row in growth if row["step"] == step}
        cells = [
            text
            for circuit in circuits
            for text in (
                _share(rows[circuit]["relative_change_median"]),
                number(rows[circuit]["stable_rank_median"], 3),
            )
        ]
        table.add_row(number(step, 9), *cells)
    stages = found["stages"]
    words = ["no direction stands out"]
    if stages:
        words = [f"{len(stages)} directions grew above a tenth of their head's largest; the first and the last:"]
    for stage in [*stages[:3], *stages[max(3, len(stages) - 2) :]]:
        where = f"layer {stage['layer']}, head {stage['head']}, {stage['circuit']}"
        words.append(f"  step {number(stage['step'], 3)}: direction {stage['direction']} of {where}")
    findings = [
        Text.assemble((printable(finding["kind"]), "red"), ": ", printable(finding["message"]))
        for finding in found["findings"]
    ]
    checked: list[Any] = findings or [f"{len(found['checkpoints'])} checkpoints: no duplicates, jumps, gaps or NaN"]
    return Rows([dict(found)], [table, *words, *checked, *(f"note: {note}" for note in found["notes"])])


def _safe(name: str) -> str:
    """A name out of a file, for a cell of a table."""
    return escape(printable(name))


def _kind(name: str) -> str:
    """A number that is a whole part of a name counts layers or experts; those in fc1 and fc2 tell names apart."""
    return re.sub(r"(^|\.)\d+(?=\.|$)|\[\d+\]", lambda found: "[*]" if found[0][0] == "[" else f"{found[1]}*", name)


def _median(values: Any) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _three(values: Sequence[float]) -> list[float]:
    return [min(values), statistics.median(values), max(values)]


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low} to {high}"


def _span(texts: Sequence[str]) -> str:
    kinds = list(dict.fromkeys(texts))
    return kinds[0] if len(kinds) == 1 else f"{kinds[0]}, ..."


def _share(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{100 * value:.3g}%" if value < 1 else f"{value:.3g} x"
