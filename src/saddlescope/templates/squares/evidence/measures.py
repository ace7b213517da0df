"""Numbers that claims and figures read off runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from saddlescope import Run

from ..prediction import drop_times


def stage_times(run: Run) -> list[float]:
    """Measured."""
    return [float("nan") if stage.time is None else stage.time for stage in run.stages]


def predicted_times(run: Run) -> list[float]:
    start = run.system.start(run.seed)
    return sorted(drop_times(start.point.u**2, start.frame.p))


def first_drops(runs: Sequence[Run]) -> list[list[float]]:
    """log(1/ε) and the time of the first drop, run by run."""
    return [[np.log(1 / run.system.spec.init_scale) for run in runs], [stage_times(run)[0] for run in runs]]
