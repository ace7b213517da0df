"""Trajectory: an xarray.Dataset with a checked schema. Data, not a class with methods."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .subject import Subject

if TYPE_CHECKING:
    import xarray

REQUIRED_ATTRS = ("system", "face", "seed", "spec", "solver", "result", "seconds", "conserved_drift")


def build_trajectory(
    system: Subject,
    face: str,
    seed: int,
    time: np.ndarray,
    observables: Mapping[str, np.ndarray],
    *,
    solver: str,
    result: str,
    seconds: float,
    conserved_drift: float | None,
    extra: Mapping[str, Any] | None = None,
    step: np.ndarray | None = None,
    constants: Mapping[str, np.ndarray] | None = None,
) -> xarray.Dataset:
    """Dims: time and those that the system or study declares; attrs carry where it comes from and how it ended.

    step: a second coordinate along time, of training.  constants: what the subject declares under this name.
    """
    import xarray

    dimensions = {**system.observables, **system.timed}
    observables = {**observables, **system.over_time(np.asarray(time, float), observables)}
    variables: dict[str, Any] = {
        name: (("time", *others), np.asarray(observables[name])) for name, others in dimensions.items()
    }
    for name, dims in system.constants.items():
        variables[name] = (dims, np.asarray((constants or {})[name]))
    attrs = {
        "system": system.name,
        "face": face,
        "seed": int(seed),
        "spec": system.spec.to_json(),
        "solver": solver,
        "result": result,
        "seconds": float(seconds),
        "conserved_drift": float("nan") if conserved_drift is None else float(conserved_drift),
        **(extra or {}),
    }
    coordinates: dict[str, Any] = {"time": np.asarray(time, float)}
    if step is not None:
        coordinates["step"] = ("time", step)
    trajectory = xarray.Dataset(variables, coords=coordinates, attrs=attrs)
    check_schema(trajectory)
    return trajectory


def series_in(trajectory: xarray.Dataset) -> dict[str, np.ndarray]:
    """What moves: every observable over time, without the constants."""
    return {str(name): found.values for name, found in trajectory.data_vars.items() if "time" in found.dims}


def check_schema(trajectory: xarray.Dataset) -> None:
    """Raise ValueError unless every face's readers can rely on this dataset."""
    missing = [name for name in REQUIRED_ATTRS if name not in trajectory.attrs]
    if missing:
        raise ValueError(f"trajectory lacks the attributes {missing}")
    json.loads(trajectory.attrs["spec"])
    if "loss" not in trajectory or trajectory["loss"].dims != ("time",):
        raise ValueError("trajectory lacks `loss` over `time`")
    time = trajectory["time"].values
    if time.size == 0 or np.any(np.diff(time) <= 0):
        raise ValueError("`time` must increase strictly")
    for name, variable in trajectory.data_vars.items():
        if "time" in variable.dims[1:]:
            raise ValueError(f"`{name}` must have `time` as its first dimension, got {variable.dims}")
