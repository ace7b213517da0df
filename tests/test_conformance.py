"""Every system, every tiny preset, every check: all three by discovery."""

from __future__ import annotations

import pytest

from saddlescope.core.registry import system_types
from saddlescope.core.room import Line, Room
from saddlescope.systems.linear_icl import LinearICL
from saddlescope.testing.conformance import all_checks, run_check, tiny_presets

from .conftest import EXAMPLE

KINDS = {**system_types(), "squares": EXAMPLE.Squares}
CASES = [(kind, preset) for kind in KINDS.values() for preset in tiny_presets(kind)]

LONG = {
    "faces share the start",
    "flow is converged",
    "plateaus are stationary and all but the last can be left",
    "prediction error falls along the limit",
    "supported claims can lose",
    "train tends to flow",
    "trajectories keep the schema",
}
"""Checks that run a flow or a training: of a system's further presets `make verify` has them."""


def every_check():
    for kind, preset in CASES:
        for one in all_checks():
            further = one.name in LONG and preset != tiny_presets(kind)[0]
            name = f"{kind.name}-{preset}-{one.name.replace(' ', '_')}"
            yield pytest.param(kind, preset, one, id=name, marks=[pytest.mark.slow] * further)


def test_long_checks_exist():
    assert {one.name for one in all_checks()} >= LONG


@pytest.mark.parametrize(("kind", "preset", "one"), list(every_check()))
def test_system(kind, preset, one):
    report = run_check(one, kind(kind.preset(preset)), preset)
    if report.outcome == "not applicable":
        pytest.skip(report.reason)
    assert report.outcome == "passed", report.reason


def test_every_check_applies_somewhere():
    """A check that no system's declarations allow would pass by never running."""
    checks = [one for one in all_checks() if all(one.missing(kind(kind.preset(p))) for kind, p in CASES)]
    assert [one.name for one in checks] == []


def test_inventory_check_can_fail(monkeypatch):
    """A line that points nowhere, or to something that does not exist, fails the check."""
    inventory = next(one for one in all_checks() if one.name == "inventory is complete")
    chosen = LinearICL(LinearICL.preset("tiny"))
    assert run_check(inventory, chosen).outcome == "passed"
    for target in ((), (("claim", "no_such_claim"),), (("function", "data.nowhere"),), (("reason", "short"),)):
        line = Line("1", "equation", "(1)", "something", target)
        monkeypatch.setattr(Room, "inventory", (line,))
        assert run_check(inventory, chosen).outcome == "failed", target


def test_a_claim_without_its_experiment_is_caught(monkeypatch):
    inventory = next(one for one in all_checks() if one.name == "inventory is complete")
    monkeypatch.setattr(Room, "experiments", {})
    assert run_check(inventory, LinearICL(LinearICL.preset("tiny"))).outcome == "failed"
