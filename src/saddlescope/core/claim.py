"""Claim, what a paper says in a form that can lose; Verdict, what the evidence says of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from .run import Run
from .shown import Shown

NEEDS_FULL = "needs --full"

OURS = "saddlescope"
"""The source of claims that no paper makes."""


def by_field(runs: Iterable[Run], field: str) -> dict[Any, list[Run]]:
    """These runs by the value of a `field` of their spec, in increasing order."""
    found: dict[Any, list[Run]] = {}
    for run in runs:
        found.setdefault(getattr(run.system.spec, field), []).append(run)
    return {value: found[value] for value in sorted(found)}


def rows_over(field: str, measured: Callable[[Run], Any]) -> Callable[[Sequence[Run]], np.ndarray]:
    """For a claim's `measured`, with `scales_as`: rows (value of this `field` of the spec, number) of all runs.

    measured: of a run, a number or several: the first of all runs comes before the second of all.
    """

    def rows(runs: Sequence[Run]) -> np.ndarray:
        x = [getattr(run.system.spec, field) for run in runs]
        numbers = zip(*(np.ravel(measured(run)) for run in runs), strict=True)
        return np.array([row for y in numbers for row in zip(x, y, strict=True)], float)

    return rows


# ---- relations -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Relation:
    """How measured numbers must stand to expected ones: a deviation on the right side of a bound.

    because: the reason for the tolerance.  words: what was found, for people.
    """

    name: str
    because: str
    deviation: Callable[[np.ndarray, np.ndarray], float]
    bound: float
    side: Literal["at most", "at least", "above"] = "at most"
    words: Callable[[np.ndarray, np.ndarray], str] = lambda value, expected: ""

    def holds(self, deviation: float) -> bool:
        """NaN holds nothing."""
        if self.side == "at most":
            return deviation <= self.bound
        return deviation >= self.bound if self.side == "at least" else deviation > self.bound

    def worst(self, deviations: Sequence[float]) -> float:
        return float(np.max(deviations) if self.side == "at most" else np.min(deviations))


def close(rtol: float, because: str) -> Relation:
    """A relation for claims: every measured number is within `rtol`, relatively, of the expected one.

    Of an expected zero it must be equal to it. because: the reason for the tolerance, as in all relations.
    """

    def deviation(value: np.ndarray, expected: np.ndarray) -> float:
        if value.shape != expected.shape:
            return np.inf
        gap, size = np.abs(value - expected), np.abs(expected)
        return float(np.max(np.divide(gap, size, out=np.where(gap > 0, np.inf, gap), where=size > 0), initial=0.0))

    return Relation("close", because, deviation, rtol)


def bounded(upper: float | None = None, because: str = "", *, lower: float | None = None) -> Relation:
    """A relation for claims: no measured number exceeds `upper`; or none falls below `lower`; `because`: why."""
    if (upper is None) == (lower is None):
        raise ValueError(f"give one of `upper` and `lower`, got {upper} and {lower}")
    if upper is not None:
        return Relation("bounded", because, lambda v, _: _extreme(np.max, v), upper)
    assert lower is not None
    return Relation("bounded", because, lambda v, _: _extreme(np.min, v), lower, "at least")


def aligned(cosine: float, because: str) -> Relation:
    """A relation for claims: the measured numbers are cosines, all at least `cosine` in size; `because`: why."""
    return Relation("aligned", because, lambda v, _: _extreme(np.min, np.abs(v)), cosine, "at least")


def ordered(because: str) -> Relation:
    """A relation for claims: the measured numbers strictly increase; the value is the least step; `because`: why."""
    return Relation("ordered", because, lambda v, _: _extreme(np.min, np.diff(v)), 0.0, "above", _listing)


def monotone(direction: Literal["rises", "falls"], because: str, slack: float = 0.0) -> Relation:
    """A relation for claims: along the last axis nothing moves against `direction`.

    The value is the worst step, `slack` what is forgiven, and `because` why.
    """
    sign = 1.0 if direction == "rises" else -1.0
    return Relation(
        "monotone",
        because,
        lambda v, _: _extreme(np.min, sign * np.diff(v, axis=-1)),
        0.0 - slack,
        "at least",
        _listing,
    )


def scales_as(exponent: float, tolerance: float, because: str) -> Relation:
    """A relation for claims: of measured rows (x, y), y grows as x to this exponent.

    The value is how far it is off, `tolerance` what it may be, and `because` why.
    """

    def fit(value: np.ndarray) -> tuple[float, float]:
        """The exponent, and its standard error by what the fit leaves."""
        x, y = value.reshape(-1, 2).T
        if len(np.unique(x)) < 3 or not np.all(value > 0):
            return np.nan, np.nan
        x, y = np.log(x), np.log(y)
        line = np.polyfit(x, y, 1)
        rest = ((y - np.polyval(line, x)) ** 2).sum() / (len(x) - 2)
        return float(line[0]), float(np.sqrt(rest / ((x - x.mean()) ** 2).sum()))

    def words(value: np.ndarray) -> str:
        slope, error = fit(value)
        return f"fitted exponent {slope:.4g} ± {error:.1g}, expected {exponent:g}"

    return Relation(
        "scales_as",
        because,
        lambda v, _: abs(fit(v)[0] - exponent),
        tolerance,
        words=lambda v, _: words(v),
    )


def _extreme(which: Callable[..., Any], values: np.ndarray) -> float:
    """An empty measurement is no support."""
    return float(which(values)) if values.size else np.nan


def _listing(value: np.ndarray, _: np.ndarray) -> str:
    shown = ", ".join(f"{number:.4g}" for number in value.reshape(-1)[:8])
    return shown + (", ..." if value.size > 8 else "")


# ---- quantifiers -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Quantifier:
    """What runs must agree. least: fewer decided runs leave the claim undecided.

    share: of the runs that must support it.  together: the runs are one piece of evidence (a fitted exponent, a
    variance over seeds), and `measured` receives them all.
    """

    least: int = 1
    share: float = 1.0
    together: bool = False


def all_of(least: int) -> Quantifier:
    """For a claim's `seeds`: every run supports it, and there are at least so many."""
    return Quantifier(least)


def share_of(share: float, least: int) -> Quantifier:
    """For a claim's `seeds`: this share of the runs supports it, and there are at least so many."""
    return Quantifier(least, share)


def together(least: int) -> Quantifier:
    """For a claim's `seeds`: all runs are measured as one, and there are at least so many."""
    return Quantifier(least, together=True)


# ---- claims ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a paper says, in a form that can lose. name: unique in the room; `listed` gives it.

    says: in our own words.  source: (paper, where).  experiment: whose runs decide; None: any flow of the system.
    measured, expected: functions of a run (of all runs, where `seeds` takes them together) that give a number or
    several; what is expected may be the numbers themselves.  relation: how the two must stand to each other.
    applies: the reason why a run cannot decide the claim, or None.
    repairs: the name of the claim, refuted as the paper prints it, that this one corrects.
    """

    name: str = ""
    says: str
    source: tuple[str, str]
    measured: Callable[[Any], Any]
    relation: Relation
    experiment: str | None = None
    expected: Callable[[Any], Any] | float | Sequence[float] = np.nan
    applies: Callable[[Run], str | None] = lambda _: None
    seeds: Quantifier = Quantifier()
    repairs: str | None = None

    def __post_init__(self) -> None:
        for name, kind in (("relation", Relation), ("seeds", Quantifier)):
            if not isinstance(given := getattr(self, name), kind):
                raise TypeError(f"`{name}` of claim {self.name} must be a {kind.__name__}, got {given!r}")

    def expected_of(self, piece: Any) -> np.ndarray:
        """The expected numbers of a run, or of runs that are taken together."""
        return _numbers(self.expected(piece) if callable(self.expected) else self.expected)

    def measured_in(self, piece: Any) -> np.ndarray:
        """The numbers measured in a run, or in runs that are taken together."""
        return _numbers(self.measured(piece))

    def of_one_run(self) -> Claim:
        """The same claim, to be judged by one run, whatever number of runs it asks for."""
        return replace(self, seeds=Quantifier())


def _numbers(found: Any) -> np.ndarray:
    """One number counts as a list of one."""
    return np.atleast_1d(np.asarray(found, float))


def only(**fields: Any) -> Callable[[Run], str | None]:
    """For a claim's `applies`: it can be decided by runs whose Spec has these values in these fields."""

    def reason(run: Run) -> str | None:
        wrong = [name for name, value in fields.items() if getattr(run.system.spec, name) != value]
        return f"a statement about {wrong[0]} = {fields[wrong[0]]}" if wrong else None

    return reason


@dataclass(frozen=True, repr=False)
class Verdict(Shown):
    """What runs say of a claim. verdict: in a word; value: the worst deviation found; bound: what it may be; reason:
    why undecided, or what was found; runs: how many decided."""

    shown_by: ClassVar[str] = "saddlescope.show.of_verdicts"

    claim: Claim
    verdict: Literal["supported", "refuted", "undecided"]
    value: float | None
    bound: float
    reason: str = ""
    runs: int = 0


# A run may be no solution at all: what then overflows or cannot be measured is NaN or infinite, and refutes.
@np.errstate(over="ignore", divide="ignore", invalid="ignore")
def judge(claim: Claim, runs: Sequence[Run], lacking: str = "") -> Verdict:
    """The verdict of an experiment. lacking: what to say of runs that are missing, e.g. NEEDS_FULL.

    A run that failed, did not finish or is too small decides nothing.
    """
    reasons = [_why_not(claim, run) for run in runs]
    decided = [run for run, reason in zip(runs, reasons, strict=True) if reason is None]
    if len(decided) < max(claim.seeds.least, 1):
        failed = next((reason for reason in reasons if reason is not None), None)
        reason = failed if failed and len(runs) >= claim.seeds.least else lacking or failed
        words = reason or f"{len(decided)} runs, and {claim.seeds.least} are needed"
        return Verdict(claim, "undecided", None, claim.relation.bound, words, len(decided))
    pieces = [decided] if claim.seeds.together else decided
    numbers = [(claim.measured_in(piece), claim.expected_of(piece)) for piece in pieces]
    deviations = [claim.relation.deviation(value, expected) for value, expected in numbers]
    support = [claim.relation.holds(deviation) for deviation in deviations]
    needed = 1.0 if claim.seeds.together else claim.seeds.share
    words = claim.relation.words(*numbers[0]) if len(numbers) == 1 else f"{sum(support)} of {len(support)} runs agree"
    value = claim.relation.worst(deviations)
    if needed < 1 and np.mean(support) >= needed:  # the value of a share is that of its worst supporting run
        value = claim.relation.worst([d for d, holds in zip(deviations, support, strict=True) if holds])
    outcome = "supported" if np.mean(support) >= needed else "refuted"
    return Verdict(claim, outcome, value, claim.relation.bound, words, len(decided))


def _why_not(claim: Claim, run: Run) -> str | None:
    if not run.result.startswith("finished"):
        return f"seed {run.seed}: the run ended with {run.result}"
    return claim.applies(run)
