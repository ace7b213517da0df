"""Tables for people. Each function returns rich tables (or strings) made from plain rows."""

from __future__ import annotations

import inspect
import json
import math
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from saddlescope.core.words import duration

if TYPE_CHECKING:
    from pathlib import Path

    from saddlescope.core.run import Run
    from saddlescope.core.subject import Subject
    from saddlescope.lab.compare import Comparison


class Rows(list):
    """Rows of a table that can also be printed as JSON."""

    def __init__(self, rows: Iterable[dict[str, Any]], tables: list[Any]):
        super().__init__(tables)
        self.data = list(rows)


def as_data(what: Any) -> Any:
    return what.data if isinstance(what, Rows) else what


def number(value: float | None, digits: int = 6) -> str:
    return "-" if value is None or not math.isfinite(value) else f"{value:.{digits}g}"


WORDS = (
    *("system", "what it is", "label", "field", "meaning", "where", "statement", "check", "reason", "faces", "claim"),
    *("verdict", "source"),
)
"""Columns that do not hold numbers."""

PARTS = ("claims", "figures", "errata")
"""Of a room, what is counted."""


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", header_style="bold")
    for name in columns:
        table.add_column(name, justify="left" if name in WORDS else "right", overflow="fold")
    return table


def systems() -> Rows:
    """Studies too. Variants share the claims and figures of their room, which are counted with its main system."""
    from saddlescope.core.registry import subject_types
    from saddlescope.core.room import rooms

    found = rooms()
    rows = [
        {
            "system": kind.name,
            "faces": list(kind.faces),
            **{part: len(getattr(found[kind.name], part)) if kind.name in found else None for part in PARTS},
            "presets": list(kind.presets),
            "summary": kind.summary,
        }
        for kind in subject_types().values()
    ]
    table = _table("", "system", "faces", "claims", "what it is")
    table.columns[0].no_wrap = True
    for row in rows:
        claims = "" if row["claims"] is None else str(row["claims"])
        table.add_row(row["system"], ", ".join(row["faces"]), claims, row["summary"])
    return Rows(rows, [table])


def coverage() -> Rows:
    """How many lines of each paper's inventory point to something here, and to what."""
    from saddlescope.core.room import rooms

    rows = [
        {"system": room.name, **room.coverage(), **{part: len(getattr(room, part)) for part in PARTS}}
        for room in rooms().values()
        if room.inventory  # what a study treats of a paper is counted with the paper
    ]
    table = _table("", "system", "lines", "covered", "by claim", "function", "figure", "erratum", "reason")
    for row in rows:
        names = ("system", "lines", "covered", "claim", "function", "figure", "erratum", "reason")
        table.add_row(*(str(row[name]) for name in names))
    words = (
        "covered: lines that point to a claim, function, figure, erratum or written reason; one may point to several."
    )
    return Rows(rows, [table, words])


COLOURS = {"supported": "green", "refuted": "red", "undecided": "yellow"}


def verdicts(
    rows: Sequence[dict[str, Any]], seconds: Mapping[str, float], page: Path, *, everything: bool = False
) -> Rows:
    """A line for each paper, then the refuted claims, or all of them. seconds: of each paper's runs."""
    papers = _table("", "system", *COLOURS, "time of its runs")
    papers.columns[0].no_wrap = True
    for name, spent in seconds.items():
        counts = [sum(row["verdict"] == word for row in _of(name, rows)) for word in COLOURS]
        papers.add_row(name, *map(str, counts), duration(spent))
    shown = rows if everything else [row for row in rows if row["verdict"] == "refuted"]
    tables = [_claims(name, found, everything) for name in seconds if (found := _of(name, shown))]
    counts = ", ".join(f"{sum(row['verdict'] == word for row in rows)} {word}" for word in COLOURS)
    reasons = Counter(row["reason"] for row in rows if row["verdict"] == "undecided")
    undecided = [f"{count} undecided: {reason}" for reason, count in sorted(reasons.items())]
    more = "" if everything else "; --all lists every claim"
    return Rows(rows, [papers, *tables, *undecided, f"{counts}; the report: {page}{more}"])


def _of(system: str, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["system"] == system]


def _claims(system: str, rows: Sequence[dict[str, Any]], everything: bool) -> Table:
    """In a narrow terminal words may be broken over lines; numbers may not."""
    title = system if everything else f"{system}: refuted"
    table = _table(title, *["verdict"] * everything, "claim", "value", "bound", "source")
    for column in table.columns:
        column.no_wrap = column.header not in ("claim", "source")
    for row in rows:
        verdict = [f"[{COLOURS[row['verdict']]}]{row['verdict']}[/]"] * everything
        numbers = (number(row["value"], 3), number(row["bound"], 3))
        table.add_row(*verdict, row["claim"], *numbers, row["source"].partition(", ")[2])
    return table


def errata(rows: Sequence[dict[str, Any]]) -> Rows:
    """Blocks of text: in a table's columns the sentences would be a word wide."""
    parts: list[Any] = []
    for row in rows:
        lines = [(name, row[name]) for name in ("printed", "true", "repair")]
        if row["off_printed"] is not None:
            off = f"{number(row['off_printed'], 2)} as printed, {number(row['off_repaired'], 2)} repaired"
            lines.append(("off by", f"{off}: {row['measure']}"))
        block = Table.grid(padding=(0, 2))
        block.add_column(style="dim")
        block.add_column(overflow="fold")
        block.add_row("", f"[bold]{escape(row['where'])}[/], {row['severity']} ({row['name']})", style="not dim")
        for name, text in lines:
            block.add_row(name, escape(text))
        parts += [block, ""]
    return Rows(rows, parts or ["none known"])


def fields(kind: type[Subject]) -> Rows:
    """Every field of a Spec with its quick value and its meaning, which is read from its docstring."""
    import dataclasses

    from saddlescope.core.spec import Spec

    quick = kind.preset("quick").to_dict()
    meanings = _meanings(kind.spec_type)
    shared = {field.name for field in dataclasses.fields(Spec)} if issubclass(kind.spec_type, Spec) else set()
    # Its own first.
    names = sorted((field.name for field in dataclasses.fields(kind.spec_type)), key=shared.__contains__)
    rows = [{"field": name, "value": quick[name], "meaning": meanings.get(name, "")} for name in names]
    table = _table(f"{kind.name}: {kind.summary}", "field", "quick", "meaning")
    for row in rows:
        table.add_row(row["field"], json.dumps(row["value"]), row["meaning"])
    presets = []
    for name, changes in kind.presets.items():
        settings = " ".join(f"{key}={json.dumps(value, separators=(',', ':'))}" for key, value in changes.items())
        presets.append(f"preset {name}: {settings or 'as above'}")
    return Rows(rows, [table, *presets])


def _meanings(spec_type: type) -> dict[str, str]:
    """Lines "name: meaning" and "name, name: meaning" of the docstrings of a Spec and its bases."""
    found: dict[str, str] = {}
    for base in reversed(spec_type.__mro__):
        names: list[str] = []
        for line in (inspect.getdoc(base) or "").splitlines() if base is not object else ():
            if match := re.match(r"(\w+(?:, \w+)*): (.*)", line):
                names = match[1].split(", ")
                found.update(dict.fromkeys(names, match[2]))
            elif names and line.startswith("    "):
                found.update((name, f"{found[name]} {line.strip()}") for name in names)
            else:
                names = []
    return found


MANY = 8
"""Seeds above which a table shows their distribution instead of each."""


def runs(found: Sequence[Run]) -> Rows:
    """Stages of one run; of several, each run's; of many, their distribution."""
    data = [run.to_dict() for run in found]
    if len(found) == 1:
        return Rows(data, [_stage_table(found), *_closing_lines(found[0])])
    ended = Counter(run.result.split(":")[0] for run in found)
    table = _stage_table(found) if len(found) <= MANY else _distribution(found)
    return Rows(data, [table, "; ".join(f"{count} {result}" for result, count in ended.items())])


def _stage_table(found: Sequence[Run]) -> Table:
    several = len(found) > 1
    title = f"{found[0].face} {found[0].system.name}"
    # A theory says what more of a stage a table should show; a face may not know all of it.
    theory = found[0].system.theory
    more = {
        heading: text
        for heading, text in (theory.columns if theory else {}).items()
        if any(text(run.system, stage) for run in found for stage in run.stages)
    }
    table = _table(title, *["seed"] * several, "stage", "label", "time", *more, "loss after")
    for run in found:
        for stage in run.stages:
            row = [*[str(run.seed)] * several, str(stage.index), stage.label, number(stage.time)]
            table.add_row(*row, *(text(run.system, stage) for text in more.values()), number(stage.loss, 9))
    return table


def _distribution(found: Sequence[Run]) -> Table:
    title = f"{found[0].face} {found[0].system.name}, {len(found)} seeds: time of each stage"
    table = _table(title, "stage", "label", "seen", "earliest", "median", "latest")
    stages = {stage.index: stage.label for run in found for stage in run.stages}
    for index, label in sorted(stages.items()):
        times = sorted(s.time for o in found for s in o.stages if s.index == index and s.time is not None)
        picks = [times[0], statistics.median(times), times[-1]] if times else [None] * 3
        table.add_row(str(index), label, str(len(times)), *map(number, picks))
    return table


def _closing_lines(run: Run) -> list[str]:
    lines = [f"final loss {number(run.final_loss, 9)}"]
    if run.conserved_drift is not None and math.isfinite(run.conserved_drift):
        lines.append(f"conserved drift {run.conserved_drift:.1e}")
    return ["; ".join(lines), f"{run.solver}; {run.result}; {run.seconds:.2f} s"]


def comparison(result: Comparison) -> Rows:
    """Times and losses of each stage in every face, then how far each face is from the flow."""
    faces = list(result.runs)
    rows = result.rows()
    tables = []
    for quantity, title, digits in (("time", "time of each drop", 6), ("loss", "loss of the plateau after it", 9)):
        table = _table(f"{result.system.name}, seed {result.seed}: {title}", "stage", "label", *faces)
        for row in rows:
            table.add_row(str(row["index"]), row["label"], *(number(row[face][quantity], digits) for face in faces))
        tables.append(table)
    lines = [f"{face}: {run.solver}; {run.result}; {run.seconds:.2f} s" for face, run in result.runs.items()]
    gaps = []
    for face, found in result.differences().items():
        words = ", ".join(f"{quantity} {gap:.1e}" for quantity, gap in found.items())
        gaps.append(f"{face} against flow, largest relative difference: {words}")
    return Rows(rows, [*tables, *gaps, *lines])


def found_stages(rows: list[dict[str, Any]]) -> Rows:
    table = _table("", "stage", "time", "from", "to", "loss before", "loss after", "confidence")
    for row in rows:
        numbers = (number(row[name]) for name in ("time", "start", "end", "loss_before", "loss_after"))
        table.add_row(str(row["index"]), *numbers, f"{row['confidence']:.2f}")
    return Rows(rows, [table] if rows else ["no stages: the curve moves without a conspicuous step, or not at all"])


def sources(rows: list[dict[str, Any]]) -> Rows:
    table = _table("", "statement", "function", "where")
    for row in rows:
        table.add_row(row["statement"], row["function"], f"{row['file']}:{row['line']}")
    return Rows(rows, [table])


def checks(reports: Sequence[Any]) -> Rows:
    """Checks down, presets across; what failed or does not apply is explained below."""
    presets = list(dict.fromkeys(report.preset for report in reports))
    table = _table(reports[0].system, "check", *presets)
    signs = {"passed": "[green]passed[/]", "failed": "[red]FAILED[/]", "not applicable": "[dim]-[/]"}
    for name in dict.fromkeys(report.check for report in reports):
        row = {report.preset: signs[report.outcome] for report in reports if report.check == name}
        table.add_row(name, *(row[preset] for preset in presets))
    said: dict[tuple[str, str, str], list[str]] = {}
    for report in sorted(reports, key=lambda report: report.outcome == "failed"):
        if report.reason:
            said.setdefault((report.outcome, report.check, report.reason), []).append(report.preset)
    words = [f"{outcome}: {check} ({', '.join(where)}): {reason}" for (outcome, check, reason), where in said.items()]
    return Rows([report.to_dict() for report in reports], [table, *words])
