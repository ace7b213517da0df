"""When directions were learned: stages of a spectrum that grows."""

from __future__ import annotations

import numpy as np

from saddlescope.core.stage import Mark, Stage

COUNTED = 0.1
"""A direction is there once its singular value stays above this share of the largest one at the end."""


def growth_stages(time: np.ndarray, singular_values: np.ndarray, counted: float = COUNTED) -> list[Stage]:
    """One stage for each direction: the moment from which on so many singular values are above the level.

    singular_values: [time, mode], descending, so the first direction comes first.  The level is one for all,
    `counted` times the largest at the end: the stages are the steps of the rank above it.  Stage.extra holds the
    direction's number and its last value.
    """
    time, values = np.asarray(time, float), np.asarray(singular_values, float)
    if time.ndim != 1 or values.ndim != 2 or len(time) != len(values):
        raise ValueError(f"`singular_values` must be [time, mode], got {values.shape} for {len(time)} times")
    last = values[-1] if len(values) else np.zeros(0)
    level = counted * last.max(initial=0.0)
    stages = []
    for mode in np.flatnonzero(last > level):
        moment = Mark("singular_values", level, "stays above", (int(mode),)).passage(time, {"singular_values": values})
        extra = {"mode": int(mode) + 1, "singular_value": float(last[mode])}
        stages.append(Stage(int(mode) + 1, moment, None, f"direction {mode + 1}", extra))
    return stages
