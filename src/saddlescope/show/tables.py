"""Tables for people. Each function returns rich tables (or strings) made from plain rows."""

from __future__ import annotations

import inspect
import json
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from saddlescope.core.words import columns, duration, folded

from .words import closing_lines, gap_lines, number

if TYPE_CHECKING:
    from pathlib import Path

    from saddlescope.core.run import Run
    from saddlescope.core.subject import Subject
    from saddlescope.lab.compare import Comparison
    from saddlescope.lab.judge import Verdicts


class Rows(list):
    """Rows of a table that can also be printed as JSON."""

    def __init__(self, rows: Iterable[dict[str, Any]], tables: list[Any]):
        super().__init__(tables)
        self.data = list(rows)


def as_data(what: Any) -> Any:
    return what.data if isinstance(what, Rows) else what


WORDS = (
    *(
        "system",
        "what it is",
        "label",
        "field",
        "observable",
        "over",
        "meaning",
        "where",
        "statement",
        "check",
        "reason",
        "faces",
        "claim",
    ),
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


NARROW = 90
"""Columns of a terminal that is narrow."""

NAME, NARROW_NAME = 36, 24
"""Letters of a name in one line, and in one of a narrow terminal."""


def _name(name: str) -> str:
    """For a column without wrapping: a terminal would break a name in mid-word."""
    return folded(name, NARROW_NAME if columns() < NARROW else NAME)


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
    names = ("claim", "function", "figure", "erratum", "reason")
    table = _table("", "system", "covered", *names)
    for column in table.columns:
        column.no_wrap = True
        column.justify = "left" if column.header == "system" else "right"
    for row in rows:
        table.add_row(row["system"], f"{row['covered']} of {row['lines']}", *(str(row[name]) for name in names))
    words = (
        "covered: lines of the inventory that point to a claim, function, figure, erratum or written reason; one may "
        "point to several."
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
    """In a narrow terminal sentences may be broken over lines; numbers may not, and names only between their words."""
    title = system if everything else f"{system}: refuted"
    table = _table(title, *["verdict"] * everything, "claim", "value", "bound", "source")
    for column in table.columns:
        column.no_wrap = column.header != "source"
    for row in rows:
        verdict = [f"[{COLOURS[row['verdict']]}]{row['verdict']}[/]"] * everything
        numbers = (number(row["value"], 3), number(row["bound"], 3))
        table.add_row(*verdict, _name(row["claim"]), *numbers, row["source"].partition(", ")[2])
    return table


def errata(rows: Sequence[dict[str, Any]]) -> Rows:
    """Blocks of text: in a table's columns the sentences would be a word wide."""
    parts: list[Any] = []
    for row in rows:
        lines = [(name, row[name]) for name in ("printed", "true", "repair")]
        if row["off_printed"] is not None:
            off = f"{number(row['off_printed'], 2)} as printed, {number(row['off_repaired'], 2)} repaired"
            lines.append(("off by", f"{off}: {row['measure']}"))
        elif row["lacks"]:
            lines.append(("off by", f"not computed: {row['lacks']}"))
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
    return Rows(rows, [table, *presets, _measured(kind)])


def _measured(kind: type[Subject]) -> Table:
    """What every run of it measures."""
    from saddlescope.core.observable import Once

    table = _table("what is measured, at every saved time", "observable", "over", "meaning")
    table.columns[0].no_wrap = True
    for name, one in kind.observables.items():
        once = ["once"] if isinstance(one, Once) else []
        table.add_row(_name(name), ", ".join([*once, *one.dims]), escape(one.label))
    return table


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
        return Rows(data, [_stage_table(found), *closing_lines(found[0])])
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
    from .of_ensemble import COLUMNS, distribution

    title = f"{found[0].face} {found[0].system.name}, {len(found)} seeds: time of each stage"
    table = _table(title, *COLUMNS)
    for row in distribution(found):
        table.add_row(*row)
    return table


def comparisons(results: Sequence[Comparison]) -> Rows:
    """Of one seed: times and losses of each stage in every face. Of several: times; of many, their medians."""
    from .of_comparison import rows

    faces = list(results[0].runs)
    data = [row for result in results for row in rows(result)]
    name = results[0].system.name
    if len(results) == 1:
        tables = [
            _faces_table(f"{name}, seed {results[0].seed}: {title}", data, faces, quantity, digits)
            for quantity, title, digits in (
                ("time", "time of each drop", 6),
                ("loss", "loss of the plateau after it", 9),
            )
        ]
        lines = [f"{face}: {run.solver}; {run.result}; {run.seconds:.2f} s" for face, run in results[0].runs.items()]
        return Rows(data, [*tables, *gap_lines(results), *lines])
    title = f"{name}, {len(results)} seeds: time of each drop"
    if len(results) <= MANY:
        return Rows(data, [_faces_table(title, data, faces, "time", 6, seeds=True), *gap_lines(results)])
    middle = [
        {
            "index": index,
            "label": next(row["label"] for row in data if row["index"] == index),
            **{f"{face}_time": _median(row[f"{face}_time"] for row in data if row["index"] == index) for face in faces},
        }
        for index in sorted({row["index"] for row in data})
    ]
    return Rows(data, [_faces_table(f"{title}, median", middle, faces, "time", 6), *gap_lines(results)])


def _faces_table(
    title: str, rows: Iterable[Mapping[str, Any]], faces: Sequence[str], quantity: str, digits: int, seeds: bool = False
) -> Table:
    table = _table(title, *["seed"] * seeds, "stage", "label", *faces)
    for row in rows:
        numbers = (number(row[f"{face}_{quantity}"], digits) for face in faces)
        table.add_row(*[str(row.get("seed"))] * seeds, str(row["index"]), row["label"], *numbers)
    return table


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def verdicts_of_one_run(found: Verdicts) -> Rows:
    """Every claim that the run decides, then those that it cannot, by their reasons."""
    from .of_verdicts import rows

    data = [{"system": found.run.system.name, **row} for row in rows(found)]
    decided = [row for row in data if row["verdict"] != "undecided"]
    counts = ", ".join(f"{sum(row['verdict'] == word for row in data)} {word}" for word in COLOURS)
    reasons = [f"undecided: {row['claim']}: {row['reason']}" for row in data if row["verdict"] == "undecided"]
    return Rows(data, [_claims(found.title, decided, everything=True), *reasons, counts])


THINGS_TO_TRY = (
    ("compare linear_icl --plot staircase.png", "a paper's staircase: predicted, integrated and trained"),
    ("reproduce linear_icl:4 --all", "a figure of a paper, and verdicts on the claims it rests on"),
    ("judge linear_icl --set context_length=100", "verdicts on its claims at parameters of your own"),
    ("diff BASE TUNED --report change.html", "your fine-tune: how low-rank it was, matrix by matrix and head by head"),
    ("stages log.jsonl --plot stages.png", "the stages of your own loss curve"),
)
"""Commands without the program's name, and what each shows."""


def things_to_try() -> list[Any]:
    lines = [line for command, words in THINGS_TO_TRY for line in (f"  saddlescope {command}", f"      {words}")]
    return [
        "saddlescope: how transformers learn in stages. Five things to try:",
        *lines,
        "`saddlescope list` shows every system, `saddlescope --help` every command, each with examples in its --help.",
    ]


def found_stages(rows: list[dict[str, Any]]) -> Rows:
    table = _table("", "stage", "time", "from", "to", "loss before", "loss after", "confidence")
    for row in rows:
        numbers = (number(row[name]) for name in ("time", "start", "end", "loss_before", "loss_after"))
        table.add_row(str(row["index"]), *numbers, f"{row['confidence']:.2f}")
    return Rows(rows, [table] if rows else ["no stages: the curve moves without a conspicuous step, or not at all"])


def sources(rows: list[dict[str, Any]]) -> Rows:
    """One place in a line that an editor understands; many by file, each function with all its statements."""
    if len({(row["file"], row["line"]) for row in rows}) == 1:
        one = rows[0]
        return Rows(rows, [f"{one['file']}:{one['line']}  {one['function']}  ({_statements(rows)})"])
    files: dict[str, dict[tuple[int, str], list[dict[str, Any]]]] = {}
    for row in rows:
        files.setdefault(row["file"], {}).setdefault((row["line"], row["function"]), []).append(row)
    parts: list[Any] = []
    for file, functions in files.items():
        block = Table.grid(padding=(0, 2, 0, 0))
        block.add_column(justify="right", min_width=6)
        block.add_column(no_wrap=True)
        block.add_column()
        for (line, function), found in sorted(functions.items()):
            block.add_row(str(line), _name(function), escape(_statements(found)))
        parts += [file, block]
    return Rows(rows, parts)


def _statements(rows: Iterable[Mapping[str, Any]]) -> str:
    return "; ".join(dict.fromkeys(row["statement"] for row in rows))


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
