"""Experiment, a named set of runs; Figure, what is drawn from experiments; Erratum, what a paper got wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from .claim import Evidence
from .subject import Face


@dataclass(frozen=True)
class Size:
    """Runs of one size: every variant (overrides of the Spec) from the seeds 0..seeds-1."""

    seeds: int = 1
    variants: Sequence[Mapping[str, Any]] = ({},)


def over(name: str, *values: Any, **others: Any) -> tuple[dict[str, Any], ...]:
    """Variants that differ in one field."""
    return tuple({**others, name: value} for value in values)


@dataclass(frozen=True)
class Experiment:
    """asks: what it is for.  system: name of a system or a study.  fields: overrides that all its runs share.

    quick: None where only the paper's size means anything.  keep: "stages" for ensembles whose trajectories nobody
    reads; their flows run together.  solver: of flows; a question finer than the default tolerance names another.
    """

    name: str
    asks: str
    system: str
    face: Face
    paper: Size
    quick: Size | None
    fields: Mapping[str, Any] = field(default_factory=dict)
    keep: Literal["trajectories", "stages"] = "trajectories"
    solver: str = "default"

    def size(self, full: bool) -> Size | None:
        return self.paper if full else self.quick


Results = Mapping[str, Sequence[Evidence]]
"""Runs by the name of their experiment."""


@dataclass(frozen=True)
class Figure:
    """name: the paper's number, or a word for figures of our own.  source: what of the paper it shows.

    caption: in our words; look_for: what a reader should see.  panels: rows of panel names, as for matplotlib's
    subplot_mosaic; `draw` receives the axes by these names, and the results of `experiments`.  size: in inches.
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


@dataclass(frozen=True)
class Erratum:
    """printed, true: in our words.  repair: the weakest change under which the statement holds.

    shows: computes how far off the paper's form is, and the repaired one; `measure` says in what.
    version: of the paper that was read.
    """

    name: str
    where: str
    printed: str
    true: str
    severity: Literal["misprint", "imprecise", "conclusion fails"]
    repair: str
    measure: str
    shows: Callable[[], tuple[float, float]]
    version: str
