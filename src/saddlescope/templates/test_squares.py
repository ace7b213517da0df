"""The room squares: conformance, verdicts, inventory, errata."""

from __future__ import annotations

import numpy as np
import pytest

import saddlescope as ss
from saddlescope.core.room import room
from saddlescope.testing.conformance import all_checks, run_check

from .expected import LINES, REFUTED

NAME = "squares"


@pytest.mark.parametrize("check", all_checks(), ids=lambda check: check.name)
def test_conformance(check):
    report = run_check(check, ss.system(NAME, "tiny"))
    assert report.outcome != "failed", report.reason


def test_claims_are_refuted_where_that_is_expected_and_figures_are_drawn(tmp_path):
    found = ss.reproduce(NAME, out=tmp_path)
    verdicts = {row["claim"]: row["verdict"] for row in found.verdicts}
    expected = {claim.name: "refuted" if claim.name in REFUTED else "supported" for claim in room(NAME).claims}
    assert found.mistakes == [] and verdicts == expected
    drawn = {file.name for file in (tmp_path / "figures").iterdir()}
    assert found.page.is_file() and drawn == {f"{NAME}-{figure}.svg" for figure in room(NAME).figures}


def test_every_line_of_the_inventory_points_somewhere():
    assert room(NAME).astray() == [] and len(room(NAME).inventory) == LINES


def test_the_erratum_is_shown_in_numbers():
    (shows,) = (erratum.shows for erratum in room(NAME).errata if erratum.name == "eq3")
    assert shows is not None
    printed, repaired = shows()
    assert printed > 0.9 and repaired < 1e-4


def test_errata_are_cured_by_their_repair():
    for shows in filter(None, (erratum.shows for erratum in room(NAME).errata)):
        printed, repaired = shows()
        assert printed > 1e-3 and repaired <= 0.01 * printed


def test_a_golden_value():
    """p_i passes s_i/2 when log(p/(s − p)) has grown from log(p_0/(s − p_0)) to 0, at rate 2s."""
    system = ss.system(NAME, targets=[2.0], init_scale=0.01)
    start = system.start(0).point.u[0] ** 2
    assert ss.predict(system).stages[0].time == pytest.approx(np.log(2.0 / start - 1) / 4, rel=1e-12)
