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
    """A check that no system's declarations allow would pass by never running."""
    checks = [one for one in all_checks() if all(one.missing(kind(kind.preset(p))) for kind, p in CASES)]
    assert [one.name for one in checks] == []


def test_inventory_check_can_fail(tmp_path, monkeypatch):
    """No room has an inventory to be checked above, so the check is shown one: complete, then with an open line."""
    inventory = next(one for one in all_checks() if one.name == "inventory is complete")
    monkeypatch.setattr("inspect.getfile", lambda _: str(tmp_path / "system.py"))
    chosen = EXAMPLE.Squares()
    file = tmp_path / "inventory.tsv"
    file.write_text("id\twhat\twhere\n1\tEq. (1)\tfunction x\n")
    assert run_check(inventory, chosen).outcome == "passed"
    file.write_text("id\twhat\twhere\n1\tEq. (1)\t\n")
    assert run_check(inventory, chosen).outcome == "failed"
