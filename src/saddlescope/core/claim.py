"""Claim, what a paper says in a form that can lose; Verdict, what the evidence says of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from .stage import Prediction, Stage
from .system import System


@dataclass(frozen=True)
class Evidence:
    """One run as a claim sees it."""

    system: System
    trajectory: Any
    stages: Sequence[Stage]
    prediction: Prediction


@dataclass(frozen=True)
class Relation:
    """How a measured value must stand to its bound; `because` is the reason for the tolerance."""

    name: str
    because: str
    holds: Callable[[np.ndarray, np.ndarray], bool]
    deviation: Callable[[np.ndarray, np.ndarray], float]
    tolerance: float


def close(rtol: float, because: str) -> Relation:
    """Every measured number is within `rtol`, relatively, of the expected one."""

    def deviation(value: np.ndarray, expected: np.ndarray) -> float:
        if value.shape != expected.shape:
            return np.inf
        return float(np.max(np.abs(value - expected) / np.abs(expected), initial=0.0))

    return Relation("close", because, lambda v, e: deviation(v, e) <= rtol, deviation, rtol)


def bounded(upper: float, because: str) -> Relation:
    """No measured number exceeds `upper`."""
    largest = lambda v, _: float(np.max(v, initial=-np.inf))  # noqa: E731
    return Relation("bounded", because, lambda v, e: largest(v, e) <= upper, largest, upper)


def ordered(because: str) -> Relation:
    """The measured numbers strictly increase."""
    worst = lambda v, _: float(np.min(np.diff(v), initial=np.inf))  # noqa: E731
    return Relation("ordered", because, lambda v, e: worst(v, e) > 0, worst, 0.0)


@dataclass(frozen=True)
class Claim:
    """says: in our own words.  source: (paper, where).  measured, expected: numbers from one run's evidence.

    applies: the reason why a run cannot decide the claim, or None.
    """

    name: str
    says: str
    source: tuple[str, str]
    measured: Callable[[Evidence], Any]
    relation: Relation
    expected: Callable[[Evidence], Any] = lambda _: np.nan
    applies: Callable[[Evidence], str | None] = lambda _: None


@dataclass(frozen=True)
class Verdict:
    claim: Claim
    verdict: Literal["supported", "refuted", "undecided"]
    value: float | None
    bound: float | None
    reason: str = ""


def judge_run(claim: Claim, evidence: Evidence) -> Verdict:
    """The verdict of one run. A run that failed or is too small decides nothing."""
    why_not = claim.applies(evidence)
    if why_not is None and not str(evidence.trajectory.attrs["result"]).startswith("finished"):
        why_not = f"the run ended with {evidence.trajectory.attrs['result']}"
    if why_not is not None:
        return Verdict(claim, "undecided", None, claim.relation.tolerance, why_not)
    value = np.asarray(claim.measured(evidence), float)
    expected = np.asarray(claim.expected(evidence), float)
    supported = claim.relation.holds(value, expected)
    deviation = claim.relation.deviation(value, expected)
    return Verdict(claim, "supported" if supported else "refuted", deviation, claim.relation.tolerance)
