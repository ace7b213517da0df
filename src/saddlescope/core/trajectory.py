"""Trajectory: an xarray.Dataset with a checked schema. Data, not a class with methods."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .subject import Once, OverTime, Subject

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
    """The dataset of one run, checked.

    Dims: time and those that the system declares; attrs carry where it comes from (system, face, seed, solver), how it
    ended (result, seconds, conserved_drift), and what is `extra`.

    observables: what the subject measures; what it makes of these over time is added.
    step: a second coordinate along time, of training.  constants: what the subject has `Once`.
    """
    import xarray

    time = np.asarray(time, float)
    variables: dict[str, Any] = {}
    for name, kind in system.observables.items():
        if isinstance(kind, Once):
            variables[name] = (kind.dims, np.asarray((constants or {})[name]))
        elif isinstance(kind, OverTime):
            variables[name] = (("time", *kind.dims), np.asarray(kind.of(time, observables)))
        else:
            variables[name] = (("time", *kind), np.asarray(observables[name]))
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
    coordinates: dict[str, Any] = {"time": time}
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


def check_trained(trajectory: xarray.Dataset) -> None:
    """Raise ValueError unless the trajectory of a loop of one's own says what the store and the records ask of it."""
    check_schema(trajectory)
    missing = [name for name in ("device", "dtype") if name not in trajectory.attrs]
    if missing:
        raise ValueError(f"trajectory lacks the attributes {missing}: pass them to build_trajectory as `extra`")
    if "step" not in trajectory.coords:
        raise ValueError("trajectory lacks the coordinate `step`: pass it to build_trajectory")
