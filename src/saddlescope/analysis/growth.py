"""When directions were learned: stages of a spectrum that grows."""

from __future__ import annotations

import numpy as np

from saddlescope.core.stage import Mark, Stage

COUNTED = 0.1
"""A direction counts if it ends at more than this share of the largest."""


def growth_stages(time: np.ndarray, singular_values: np.ndarray, counted: float = COUNTED) -> list[Stage]:
    """One stage for each direction, at the moment when its singular value passes half of what it ends at, for good.

    singular_values: [time, mode], descending.  From a stage's time on there are at least k directions of that size.
    Stage.extra holds the direction's number and its last value.
    """
    time, values = np.asarray(time, float), np.asarray(singular_values, float)
    if time.ndim != 1 or values.ndim != 2 or len(time) != len(values):
        raise ValueError(f"`singular_values` must be [time, mode], got {values.shape} for {len(time)} times")
    last = values[-1] if len(values) else np.zeros(0)
    found = []
    for mode in np.flatnonzero((last > counted * last.max(initial=0.0)) & (last > 0)):
        mark = Mark("singular_values", last[mode] / 2, "stays above", (int(mode),))
        found.append((mark.passage(time, {"singular_values": values}) or 0.0, int(mode)))
    return [
        Stage(index, moment, None, f"direction {mode + 1}", {"mode": mode + 1, "singular_value": float(last[mode])})
        for index, (moment, mode) in enumerate(sorted(found), start=1)
    ]
