"""The room squares: conformance, verdicts, errata."""

from __future__ import annotations

import numpy as np
import pytest

import saddlescope as ss
from saddlescope.core.room import room
from saddlescope.testing.conformance import all_checks, run_check


@pytest.mark.parametrize("check", all_checks(), ids=lambda check: check.name)
def test_conformance(check):
    report = run_check(check, ss.system("squares", "tiny"))
    assert report.outcome != "failed", report.reason


def test_every_claim_is_supported_and_the_figure_is_drawn(tmp_path):
    found = ss.reproduce("squares", out=tmp_path)
    assert {row["claim"]: row["verdict"] for row in found.verdicts} == {
        "drop_times": "supported",
        "one_after_the_other": "supported",
    }
    assert found.page.is_file() and (tmp_path / "figures" / "squares-1.svg").is_file()


def test_the_erratum_is_shown_in_numbers():
    shows = room("squares").errata[0].shows
    assert shows is not None
    printed, repaired = shows()
    assert printed > 0.9 and repaired < 1e-4


def test_a_golden_value():
    """p_i passes s_i/2 when log(p/(s − p)) has grown from log(p_0/(s − p_0)) to 0, at rate 2s."""
    system = ss.system("squares", targets=[2.0], init_scale=0.01)
    start = system.start(0).point.u[0] ** 2
    assert ss.predict(system).stages[0].time == pytest.approx(np.log(2.0 / start - 1) / 4, rel=1e-12)
