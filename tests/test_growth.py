"""Stages of a growing spectrum."""

from __future__ import annotations

import numpy as np
import pytest

from saddlescope.analysis.growth import growth_stages


def test_directions_come_when_they_pass_the_level():
    """Two logistic rises, 3 at t=10 and 1 at t=30: above 0.3 from 10 − ln 9 and 30 − ln(7/3) on, to the grid's 1e-3."""
    time = np.linspace(0, 60, 6001)
    rises = [3 / (1 + np.exp(10 - time)), 1 / (1 + np.exp(30 - time)), 0.2 * time / 60]
    found = growth_stages(time, np.stack(rises, 1))
    assert [stage.label for stage in found] == ["direction 1", "direction 2"]
    times = [stage.time or 0.0 for stage in found]
    assert np.allclose(times, [10 - np.log(9), 30 - np.log(7 / 3)], atol=1e-3)
    assert found[1].extra == {"mode": 2, "singular_value": pytest.approx(1.0)}


def test_a_passing_rise_does_not_count():
    """A value that falls below the level again is there only from its last rise on."""
    values = np.array([[0.0, 0.0], [1.0, 0.5], [1.0, 0.05], [1.0, 0.3]])
    assert [stage.time for stage in growth_stages(np.arange(4.0), values)] == [0.1, pytest.approx(2.2)]


def test_nothing_grows():
    assert growth_stages(np.arange(3.0), np.zeros((3, 2))) == []
    assert growth_stages(np.zeros(0), np.zeros((0, 2))) == []
    with pytest.raises(ValueError, match="time, mode"):
        growth_stages(np.arange(3.0), np.zeros((2, 2)))
