"""A run with everything wrong: a claim that it still supports cannot lose, and says nothing."""

from __future__ import annotations

import dataclasses

import numpy as np

from saddlescope.core.claim import Evidence


def sabotaged(evidence: Evidence) -> Evidence:
    """The same run off by a third and noisy, with its dimensions and stages in reverse order, and nothing conserved."""
    rng = np.random.default_rng(0)
    trajectory = evidence.trajectory.copy(deep=True)
    for name, variable in trajectory.data_vars.items():
        values = variable.values[:, *(slice(None, None, -1),) * (variable.ndim - 1)]
        trajectory[name] = (variable.dims, values * (1.33 + 0.1 * rng.standard_normal(values.shape)))
    trajectory.attrs["conserved_drift"] = 1.0
    times = [stage.time for stage in evidence.stages][::-1]
    stages = [
        dataclasses.replace(stage, time=time, loss=None if stage.loss is None else 1.33 * stage.loss)
        for stage, time in zip(evidence.stages, times, strict=True)
    ]
    return dataclasses.replace(evidence, trajectory=trajectory, stages=stages)
