"""Every system, every tiny preset, every check: all three by discovery."""

from __future__ import annotations

import pytest

from saddlescope.core.registry import system, system_types
from saddlescope.core.room import Line, Room
from saddlescope.testing.conformance import all_checks, run_check, tiny_presets

from .conftest import EXAMPLE

KINDS = {**system_types(), "example": EXAMPLE.Squares}
CASES = [(name, preset) for name, kind in KINDS.items() for preset in tiny_presets(kind)]


def every_check():
    """Those that run a flow or a training take long: `make verify` has them on a system's further presets."""
    for name, preset in CASES:
        for one in all_checks():
            further = one.long and preset != tiny_presets(KINDS[name])[0]
            words = f"{name}-{preset}-{one.name.replace(' ', '_')}"
            yield pytest.param(name, preset, one, id=words, marks=[pytest.mark.slow] * further)


@pytest.mark.parametrize(("name", "preset", "one"), list(every_check()))
def test_system(name, preset, one):
    kind = KINDS[name]
    report = run_check(one, kind(kind.preset(preset)), preset)
    if report.outcome == "not applicable":
        pytest.skip(report.reason)
    assert report.outcome == "passed", report.reason


def test_every_check_applies_somewhere():
    """A check that no system's parts allow would pass by never running."""
    systems = [KINDS[name](KINDS[name].preset(preset)) for name, preset in CASES]
    assert [one.name for one in all_checks() if all(map(one.missing, systems))] == []


COMPLETE = next(one for one in all_checks() if one.name == "room is complete")


def test_inventory_check_can_fail(monkeypatch):
    """A line that points nowhere, or to something that does not exist, fails the check."""
    chosen = system("squares", "tiny")
    assert run_check(COMPLETE, chosen).outcome == "passed"
    for target in ((), (("claim", "no_such_claim"),), (("function", "data.nowhere"),), (("reason", "short"),)):
        line = Line("1", "equation", "(1)", "something", target)
        monkeypatch.setattr(Room, "inventory", (line,))
        assert run_check(COMPLETE, chosen).outcome == "failed", target


def test_a_claim_without_its_experiment_is_caught(monkeypatch):
    monkeypatch.setattr(Room, "experiments", {})
    assert run_check(COMPLETE, system("squares", "tiny")).outcome == "failed"
