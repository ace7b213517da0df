"""Experiment, a named set of runs; Figure, what is drawn from experiments; Erratum, what a paper got wrong."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from .run import Run
from .subject import Face

T = TypeVar("T", bound=Any)


@dataclass(frozen=True)
class Size:
    """Runs of one size: each of the `variants` (overrides of the `preset`) from the seeds 0..seeds-1."""

    seeds: int = 1
    variants: Sequence[Mapping[str, Any]] = ({},)
    preset: str = "quick"


def over(name: str, *values: Any, **others: Any) -> tuple[dict[str, Any], ...]:
    """Variants for a `Size` that differ in the field `name`: one for each of the values; all have the `others`.

    Example: `over("heads", 2, 4, init_scale=0.1)`.
    """
    return tuple({**others, name: value} for value in values)


def by_seeds(full: int, short: int, variants: Sequence[Mapping[str, Any]] = ({},)) -> dict[str, Any]:
    """`full` and `short` of an `Experiment` whose sizes differ in the number of seeds alone."""
    return {"full": Size(full, variants), "short": Size(short, variants)}


@dataclass(frozen=True)
class Experiment:
    """A named set of runs.

    asks: what it is for.  system, face: what is run, a system or a study by name.  fields: overrides that all its runs
    share.

    full: its runs under `reproduce --full`, the paper's own size.  short: those of a plain `reproduce`; None where only
    the full size means anything.  keep: "stages" for ensembles whose trajectories nobody reads; their flows run
    together.  solver: of flows; a question finer than the default tolerance names another.
    """

    name: str
    asks: str
    system: str
    face: Face
    full: Size
    short: Size | None
    fields: Mapping[str, Any] = field(default_factory=dict)
    keep: Literal["trajectories", "stages"] = "trajectories"
    solver: str = "default"

    def size(self, full: bool) -> Size | None:
        return self.full if full else self.short


Results = Mapping[str, Sequence[Run]]
"""Runs by the name of their experiment."""


@dataclass(frozen=True)
class Figure:
    """What is drawn from experiments. name: the paper's number, or a word.  title: above it.  source: what of the paper
    it shows.

    caption: in our words; look_for: what a reader should see.  panels: rows of panel names, as for matplotlib's
    subplot_mosaic; `draw` receives the axes by these names, and the results of `experiments`.  size: in inches; of a
    journal (`--figures pdf`) a figure up to 6.4 wide takes one column, a wider one two.
    """

    name: str
    title: str
    source: str
    caption: str
    look_for: str
    experiments: tuple[str, ...]
    draw: Callable[[Mapping[str, Any], Results], None]
    panels: tuple[str, ...] = ("a",)
    size: tuple[float, float] = (6.4, 3.6)


@dataclass(frozen=True, kw_only=True)
class Erratum:
    """What a paper got wrong. name: unique in the room; `listed` gives it.  where: in the paper.

    printed, true: in our words.
    severity: what it costs.  repair: the weakest change under which the statement holds.

    shows: computes how far off the paper's form is, and the repaired one; `measure` says in what.  A plain misprint
    needs no numbers.
    """

    name: str = ""
    where: str
    printed: str
    true: str
    severity: Literal["misprint", "imprecise", "conclusion fails"]
    repair: str
    measure: str = ""
    shows: Callable[[], tuple[float, float]] | None = None


def listed(**found: T) -> tuple[T, ...]:
    """What was `found`, claims or errata, each with the name that it is given: `listed(falls=Claim(...), ...)`."""
    return tuple(replace(one, name=name) for name, one in found.items())


MISPRINT = ("name", "where", "printed", "true", "repair")


def misprints(table: str | Path) -> tuple[Erratum, ...]:
    """Plain misprints, from a `table` with tabs between its columns: name, where, printed, true, repair."""
    with Path(table).open(newline="", encoding="utf-8") as lines:
        reader = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        rows = [(reader.line_num, row) for row in reader if row]
    for place, (number, row) in enumerate(rows):
        if len(row) != len(MISPRINT) or (place == 0 and tuple(row) != MISPRINT):
            raise ValueError(f"{table}, line {number}: expected {', '.join(MISPRINT)}, with tabs between them")
    fields = (dict(zip(MISPRINT, row, strict=True)) for _, row in rows[1:])
    return tuple(Erratum(severity="misprint", measure="", shows=None, **given) for given in fields)
