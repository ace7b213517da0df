"""Every system, every tiny preset, every check: all three by discovery."""

from __future__ import annotations

import pytest

from saddlescope.core.registry import system_types
from saddlescope.testing.conformance import all_checks, run_check, tiny_presets

from .conftest import EXAMPLE

KINDS = {**system_types(), "squares": EXAMPLE.Squares}
CASES = [(kind, preset) for kind in KINDS.values() for preset in tiny_presets(kind)]


@pytest.mark.parametrize("one", all_checks(), ids=lambda one: one.name.replace(" ", "_"))
@pytest.mark.parametrize(("kind", "preset"), CASES, ids=[f"{kind.name}-{preset}" for kind, preset in CASES])
def test_system(kind, preset, one):
    report = run_check(one, kind(kind.preset(preset)), preset)
    if report.outcome == "not applicable":
        pytest.skip(report.reason)
    assert report.outcome == "passed", report.reason


def test_every_check_applies_somewhere():
    """A check that no system ever meets would pass by never running; the inventory's waits for the first inventory."""
    idle = []
    for one in all_checks():
        if all(one.missing(kind(kind.preset(preset))) for kind, preset in CASES):
            idle.append(one.name)
    assert idle == []
