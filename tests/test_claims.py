"""Relations, quantifiers and the judge: what supports, what refutes, and what decides nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from saddlescope.core.claim import (
    NEEDS_FULL,
    Claim,
    aligned,
    all_of,
    bounded,
    close,
    judge,
    monotone,
    ordered,
    scales_as,
    share_of,
    together,
)
from saddlescope.core.run import Run

WHY = "a reason that is long enough"


def holds(relation, value, expected: Any = np.nan):
    return relation.holds(relation.deviation(np.asarray(value, float), np.asarray(expected, float)))


@pytest.mark.parametrize(
    ("relation", "good", "bad"),
    [
        (close(0.1, WHY), ([1.05, 2.0], [1.0, 2.0]), ([1.05, 2.3], [1.0, 2.0])),
        (close(0.0, WHY), ([0, 1, 2], [0, 1, 2]), ([0, 1, 3], [0, 1, 2])),
        (close(0.1, WHY), ([0.0], [0.0]), ([1e-9], [0.0])),
        (bounded(1.0, WHY), ([0.3, 1.0],), ([0.3, 1.1],)),
        (bounded(because=WHY, lower=2), ([2, 3],), ([1, 3],)),
        (aligned(0.99, WHY), ([0.995, -1.0],), ([0.98, 1.0],)),
        (ordered(WHY), ([1, 2, 4],), ([1, 2, 2],)),
        (monotone("falls", WHY), ([[3, 2, 2], [9, 5, 1]],), ([[3, 2, 2], [9, 5, 6]],)),
        (monotone("rises", WHY, slack=0.5), ([1, 0.6, 3],), ([1, 0.4, 3],)),
        (
            scales_as(-2, 0.01, WHY),
            ([(x, 5 * x**-2.0) for x in (1, 2, 4)],),
            ([(x, 5 * x**-2.1) for x in (1, 2, 4)],),
        ),
    ],
)
def test_relations(relation, good, bad):
    assert holds(relation, *good)
    assert not holds(relation, *bad)


@pytest.mark.parametrize(
    "relation", [close(0.1, WHY), bounded(1.0, WHY), aligned(0.9, WHY), ordered(WHY), monotone("falls", WHY)]
)
def test_not_a_number_supports_nothing(relation):
    assert not holds(relation, [np.nan, np.nan], [1.0, 1.0])


@pytest.mark.parametrize("relation", [bounded(1.0, WHY), aligned(0.9, WHY), ordered(WHY), monotone("falls", WHY)])
def test_an_empty_measurement_supports_nothing(relation):
    assert not holds(relation, [])


def test_an_exponent_needs_three_points_and_positive_numbers():
    relation = scales_as(1, 0.1, WHY)
    assert not holds(relation, [(1, 1), (2, 2)])
    assert not holds(relation, [(1, 1), (2, -2), (3, 3)])
    rows = np.array([(1, 1), (2, 2 * np.e), (4, 4)])
    # The fit leaves -1/3, 2/3, -1/3 to one degree of freedom: √(1/3)/ln 2 = 0.83.
    assert relation.words(rows, np.array(np.nan)) == "fitted exponent 1 ± 0.8, expected 1"


def test_a_wrong_number_of_values_is_refuted_not_broadcast():
    assert not holds(close(0.1, WHY), [1.0], [1.0, 1.0])


def runs(*values, result="finished"):
    return [
        Run(None, "flow", seed, (), None, None, {}, "", result, 0.0, trajectory=value)
        for seed, value in enumerate(values)
    ]


def claim(seeds, measured=lambda run: [run.trajectory]):
    said = {"name": "c", "says": "says", "source": ("paper", "where")}
    return Claim(**said, measured=measured, relation=bounded(1.0, WHY), experiment="e", seeds=seeds)


def test_every_run_must_agree():
    assert judge(claim(all_of(2)), runs(0.1, 0.9)).verdict == "supported"
    verdict = judge(claim(all_of(2)), runs(0.1, 1.9))
    assert (verdict.verdict, verdict.value, verdict.reason) == ("refuted", 1.9, "1 of 2 runs agree")


def test_a_share_of_runs_may_suffice():
    verdict = judge(claim(share_of(0.6, 3)), runs(0.1, 0.5, 1.9))
    assert (verdict.verdict, verdict.value) == ("supported", 0.5)
    assert judge(claim(share_of(0.7, 3)), runs(0.1, 0.5, 1.9)).verdict == "refuted"


def test_runs_may_be_one_piece_of_evidence():
    mean = claim(together(3), measured=lambda all_runs: [np.mean([run.trajectory for run in all_runs])])
    assert judge(mean, runs(0.1, 0.2, 2.0)).value == pytest.approx(2.3 / 3)


def test_too_few_runs_decide_nothing():
    verdict = judge(claim(all_of(3)), runs(0.1), lacking=NEEDS_FULL)
    assert (verdict.verdict, verdict.value, verdict.reason) == ("undecided", None, NEEDS_FULL)
    assert "3 are needed" in judge(claim(all_of(3)), runs(0.1)).reason
    assert judge(claim(all_of(1)), [], lacking=NEEDS_FULL).reason == NEEDS_FULL


def test_a_failed_run_decides_nothing_and_is_named():
    verdict = judge(claim(all_of(1)), runs(5.0, result="diverged: overflow"), lacking=NEEDS_FULL)
    assert verdict.verdict == "undecided"
    assert "diverged" in verdict.reason


def test_bounded_takes_one_bound():
    with pytest.raises(ValueError, match="one of"):
        bounded(because=WHY)
