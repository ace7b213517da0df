"""The stages of a trajectory, and the run that it and its stages make up."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from saddlescope.core.run import Run
from saddlescope.core.stage import Prediction, Stage
from saddlescope.core.subject import Subject
from saddlescope.core.trajectory import series_in

if TYPE_CHECKING:
    import xarray


def run_of(
    trajectory: xarray.Dataset, system: Subject, prediction: Prediction | None = None, before: float = 0.0
) -> Run:
    """The run that an engine's trajectory shows. before: seconds that went into it beside the engine's own."""
    about = trajectory.attrs
    observables = series_in(trajectory)
    return Run(
        system,
        about["face"],
        int(about["seed"]),
        measured_stages(trajectory, prediction, system),
        float(observables["loss"][-1]),
        float(about["conserved_drift"]),
        {name: values[-1] for name, values in observables.items()},
        about["solver"],
        about["result"],
        before + float(about["seconds"]),
        trajectory,
        prediction,
    )


def predicted_run(system: Subject, seed: int, prediction: Prediction, seconds: float) -> Run:
    reached = all(stage.time is not None for stage in prediction.stages)
    return Run(
        system,
        "predict",
        seed,
        prediction.stages,
        prediction.stages[-1].loss if prediction.stages else prediction.initial_loss,
        None,
        prediction.observables,
        prediction.solver,
        ": ".join(["finished", *prediction.notes[:1]]) if reached else "finished: theory gives no time for some stages",
        seconds,
        None,
        prediction,
    )


def measured_stages(
    trajectory: xarray.Dataset, prediction: Prediction | None, system: Subject | None = None
) -> list[Stage]:
    """Stages of a trajectory: passages of the predicted marks, or, without a theory, its conspicuous drops.

    A run that was given the prediction has its passages among its times; else they are read between two of them.

    With its system, each is described by what was learned, not by what theory expected.
    """
    from saddlescope.analysis.stages import detect_stages, stages_at_marks

    time = trajectory["time"].values
    observables = series_in(trajectory)
    if prediction is not None:
        stages = stages_at_marks(time, observables, prediction.marks, prediction.stages)
        return stages if system is None else _described(system, stages, time, observables)
    # Where the loss is noisy, `saddlescope stages` looks for drops in it.
    noisy = trajectory.attrs["face"] == "train" and system is not None and not system.training.steady
    if noisy:
        return []
    try:
        drops = detect_stages(time, observables["loss"])
    except ValueError:  # too few points, or a loss that is no longer a number
        return []
    return [
        Stage(index, drop.time, drop.loss_after, f"drop {index}", {"confidence": drop.confidence})
        for index, drop in enumerate(drops, start=1)
    ]


def _described(system: Subject, stages: list[Stage], time: np.ndarray, observables: Mapping[str, np.ndarray]):
    """Each stage named by its theory from the observables midway to its neighbours."""
    moments = [stage.time or 0.0 for stage in stages]
    between = [time[0], *((a + b) / 2 for a, b in itertools.pairwise(moments)), time[-1]]
    places = [{name: values[np.searchsorted(time, t)] for name, values in observables.items()} for t in between]
    return [
        system.theory.describe(stage, before, after)
        for stage, before, after in zip(stages, places, places[1:], strict=False)
    ]
