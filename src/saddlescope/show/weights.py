"""Tables of weight changes for people. Each takes what --json prints."""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from saddlescope.core.words import printable

from .fitted import Column, fitted, legend
from .tables import Rows
from .words import number

Found = Mapping[str, Any]
"""What --json prints of a comparison, a matrix or a head."""

FEW = 40
"""Matrices up to which each has its row; beyond, those that differ only by numbers in their names share one."""


class Group(NamedTuple):
    """Matrices that share a row. name: without what all names begin with."""

    name: str
    modules: Sequence[Found]


def change(found: Found, *, full: bool = False, page: Path | None = None) -> Rows:
    """Modules, heads by layer, the advice, and the notes."""
    parts, shown = [], []
    for table, columns in (_modules(found, full=full), *([_heads(found["heads"])] if found["heads"] else [])):
        parts.append(table)
        shown += columns
    parts.append(legend(shown))
    if found["lora"] is not None:
        parts += _advice(found["lora"])
    parts += [f"note: {words}" for words in found["notes"]]
    if page is not None:
        parts.append(f"the report: {page}")
    return Rows([dict(found)], parts)


def groups_of(modules: Sequence[Found], *, grouped: bool) -> tuple[list[Group], str]:
    """Those of a kind together, or each by itself; and what was taken off the front of their names."""
    # What stands outside the layers (an output matrix) has no part in what the layers' names share.
    layered = [module["name"] for module in modules if re.search(r"\.\d+\.", module["name"])]
    above = _shared_start(layered or [module["name"] for module in modules])
    groups: dict[str, list[Found]] = {}
    for module in modules:
        name = module["name"].removeprefix(above).removesuffix(".weight")
        groups.setdefault(_kind(name) if grouped else name, []).append(module)
    return [Group(name, members) for name, members in groups.items()], above


NAME = Column("matrix", lambda group: group.name)
LAYERS = Column("layers", lambda group: str(len(group.modules)), 65)
SIZE = Column("change", lambda group: _share(_middle(group, "relative_change")))
OF_RANK = Column("of r", lambda group: _span([str(module["rank"]) for module in group.modules]))
RANKS = (
    Column(
        "stable\nrank",
        lambda group: number(_middle(group, "stable_rank"), 3),
        95,
        "stable rank: energy of the change over that of its top direction",
    ),
    Column(
        "rank\n90%",
        lambda group: _held(group, "energy_rank_90"),
        85,
        "rank 90%: directions that hold so much of the energy, that of rounding included",
    ),
    Column(
        "rank\n99%",
        lambda group: _held(group, "energy_rank_99"),
        75,
        "rank 99%: likewise",
    ),
    Column(
        "above\nfloor",
        lambda group: _range([module["rank_above_floor"] for module in group.modules]),
        100,
        "above floor: directions that rounding of the stored weights cannot explain",
    ),
)
"""What decides the rank of a LoRA."""

FURTHER = (
    Column(
        "random",
        lambda group: number(_middle(group, "random_stable_rank"), 3),
        30,
        "random: the stable rank of a random change",
    ),
    Column(
        "entropy\nrank",
        lambda group: number(_middle(group, "entropy_rank"), 3),
        20,
        "entropy rank: exp of the entropy of the shares of energy",
    ),
    Column(
        "top /\nfloor",
        lambda group: number(_over_floor(group), 3),
        25,
        "top / floor: how far the strongest direction is above rounding",
    ),
)
SHAPE = Column("shape", lambda group: _span([" x ".join(map(str, module["shape"])) for module in group.modules]), 60)


def _modules(found: Found, *, full: bool) -> tuple[Table, list[Column]]:
    modules = found["modules"]
    grouped = len(modules) > FEW and not full
    groups, above = groups_of(modules, grouped=grouped)
    title = "change of each kind of matrix: medians, and the range of ranks" if grouped else "change of each matrix"
    size = OF_RANK if found["tuned"] is None else SIZE
    return fitted(
        title + (f" (names without {_safe(above)})" if above else ""),
        NAME,
        [*([LAYERS] if grouped else []), SHAPE, size, *RANKS, *FURTHER],
        groups,
    )


def _middle(group: Group, field: str) -> float | None:
    return _median(module[field] for module in group.modules)


def _held(group: Group, field: str) -> str:
    """The median. Where not all singular values are known, a rank that none of them reaches is larger than any."""
    known = [math.inf if module[field] is None else module[field] for module in group.modules]
    middle = statistics.median(known)
    least = max(len(module["singular_values"]) for module in group.modules)
    return number(middle, 4) if math.isfinite(middle) else f"> {least}"


def _over_floor(group: Group) -> float | None:
    return _median(
        module["singular_values"][0] / module["floor"]
        for module in group.modules
        if module["floor"] and module["singular_values"]
    )


def _shared_start(names: Sequence[str]) -> str:
    """What all names begin with, up to a dot."""
    words = zip(*(name.split(".")[:-1] for name in names), strict=False) if len(names) > 1 else ()
    return "".join(f"{level[0]}." for level in itertools.takewhile(lambda level: len(set(level)) == 1, words))


HEADS = (
    Column("layer", lambda group: str(group[0]["layer"])),
    Column("heads", lambda group: str(len(group)), 40),
    Column("change", lambda group: _share(_median(head["relative_change"] for head in group))),
    Column(
        "stable rank",
        lambda group: " ".join(number(value, 3) for value in _three([head["stable_rank"] for head in group])),
        95,
        RANKS[0].means,
    ),
    Column(
        "random", lambda group: number(_median(head["random_stable_rank"] for head in group), 3), 30, FURTHER[0].means
    ),
    Column(
        "rank above\nfloor",
        lambda group: " ".join(number(value, 4) for value in _three([head["rank"] for head in group])),
        100,
        RANKS[3].means,
    ),
)


def _heads(heads: Sequence[Found]) -> tuple[Table, list[Column]]:
    """A row for each layer and circuit: the least, middle and largest of its heads."""
    groups: dict[tuple[str, int, str], list[Found]] = {}
    for head in heads:
        groups.setdefault((head.get("stack", ""), head["layer"], head["circuit"]), []).append(head)
    stacks = any(stack for stack, _, _ in groups)
    name = Column(
        "circuit of stack" if stacks else "circuit",
        lambda group: " ".join(filter(None, [group[0]["circuit"], group[0].get("stack", "")])),
    )
    title = "change of the heads: least, median and largest of each layer"
    return fitted(title, name, HEADS, list(groups.values()))


def _advice(lora: Found) -> list[Any]:
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
    table, _ = fitted(f"LoRA ranks: {how}", ADVISED[0], ADVISED[1:], advised_groups(ranks))
    lines = [
        f"{lora['parameters']:,} parameters; leaves {number(lora['relative_residual'], 3)} of the change's norm "
        f"({number(lora['residual'], 6)})"
    ]
    if "extracted" in lora:
        extracted = lora["extracted"]
        lines.append(f"the adapter: {extracted['folder']}, which leaves {number(extracted['residual'], 6)}")
    else:
        lines.append("PEFT's rank_pattern and alpha_pattern are in --json; --extract DIR writes the adapter itself")
    lines += [*left_out_lines(lora["left_out"]), *(f"note: {words}" for words in lora["remarks"])]
    return [table, *lines]


ADVISED = (
    Column("module", lambda pair: pair[0]),
    Column("layers", lambda pair: str(len(pair[1]))),
    Column("rank", lambda pair: _range(pair[1])),
)


def advised_groups(ranks: Mapping[str, int]) -> list[tuple[str, list[int]]]:
    """The ranks of each kind of module."""
    groups: dict[str, list[int]] = {}
    for name, rank in ranks.items():
        groups.setdefault(_kind(name), []).append(rank)
    return list(groups.items())


def left_out_lines(left_out: Sequence[Mapping[str, str]]) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for row in left_out:
        reasons.setdefault(row["reason"], []).append(row["name"])
    return [f"no LoRA for {len(names)} matrices ({names[0]}, ...): {reason}" for reason, names in reasons.items()]


def series(found: Found) -> Rows:
    """Medians over heads at every step, the first stages, and what is wrong with the checkpoints."""
    growth = found["growth"]
    circuits = list(dict.fromkeys(row["circuit"] for row in growth))
    table, _ = fitted(
        "change from the first checkpoint: medians over all heads",
        Column("step", lambda rows: number(rows[0]["step"], 9)),
        [column for place, circuit in enumerate(circuits) for column in _growth(place, circuit)],
        [[row for row in growth if row["step"] == step] for step in dict.fromkeys(row["step"] for row in growth)],
    )
    stages = found["stages"]
    words = ["no direction stands out"]
    if stages:
        words = [f"{len(stages)} directions grew above a tenth of their head's largest; the first and the last:"]
    for stage in [*stages[:3], *stages[max(3, len(stages) - 2) :]]:
        layer = " ".join(filter(None, [stage.get("stack"), f"layer {stage['layer']}"]))
        where = f"{layer}, head {stage['head']}, {stage['circuit']}"
        words.append(f"  step {number(stage['step'], 3)}: direction {stage['direction']} of {where}")
    findings = [
        Text.assemble((printable(finding["kind"]), "red"), ": ", printable(finding["message"]))
        for finding in found["findings"]
    ]
    checked: list[Any] = findings or [f"{len(found['checkpoints'])} checkpoints: no duplicates, jumps, gaps or NaN"]
    return Rows([dict(found)], [table, *words, *checked, *(f"note: {note}" for note in found["notes"])])


def _growth(place: int, circuit: str) -> tuple[Column, Column]:
    return (
        Column(f"{circuit}\nchange", lambda rows: _share(rows[place]["relative_change_median"])),
        Column(f"{circuit}\nstable rank", lambda rows: number(rows[place]["stable_rank_median"], 3)),
    )


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
