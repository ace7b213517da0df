"""Trajectory: an xarray.Dataset with a checked schema. Data, not a class with methods."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import unknown
from .observable import Coordinate, Observable, Once, OverTime
from .subject import Subject

if TYPE_CHECKING:
    import xarray

REQUIRED_ATTRS = ("system", "face", "seed", "spec", "solver", "result", "seconds", "conserved_drift")

STEP = Observable("steps of the optimizer")
OFF_THE_FLOW = "steps times learning rate, on the flow's clock"
"""What time is where an optimizer moves the weights at a pace of its own."""


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
    coordinates: Mapping[str, Any] | None = None,
) -> xarray.Dataset:
    """The dataset of one run, checked.

    Dims: time and those that the system declares, all with coordinates; attrs carry where it comes from (system, face,
    seed, solver), how it ended (result, seconds, conserved_drift), and what is `extra`.

    observables: what the subject measures; what it makes of these over time is added.
    step: a second coordinate along time, of training.  constants: what the subject has `Once`.
    coordinates: values of those that the run knows and the subject does not.
    """
    import xarray

    time = np.asarray(time, float)
    variables: dict[str, Any] = {}
    for name, one in system.observables.items():
        if isinstance(one, Once):
            variables[name] = (one.dims, np.asarray((constants or {})[name]))
        elif isinstance(one, OverTime):
            variables[name] = (("time", *one.dims), np.asarray(one.of(time, observables)))
        else:
            variables[name] = (("time", *one.dims), np.asarray(observables[name]))
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
    known: dict[str, Any] = {"time": time}
    if step is not None:
        known["step"] = ("time", step)
    for name, values in (coordinates or {}).items():
        if name not in system.coordinates():
            raise unknown("coordinate", name, system.coordinates())
        known[name] = (system.coordinates()[name].dims, np.asarray(values))
    trajectory = described(xarray.Dataset(variables, coords=known, attrs=attrs), system)
    check_schema(trajectory)
    return trajectory


def described(found: xarray.Dataset, subject: Subject) -> xarray.Dataset:
    """A run's dataset with all that its subject says of it."""
    time = subject.time
    if found.attrs["face"] == "train" and not getattr(subject.spec, "follows_flow", True):
        time = Observable(OFF_THE_FLOW, units=time.units)
    return labelled(found, subject.observables, subject.coordinates(), time)


def labelled(
    found: xarray.Dataset,
    observables: Mapping[str, Observable],
    coordinates: Mapping[str, Coordinate],
    time: Observable,
) -> xarray.Dataset:
    """A dataset whose variables say what they are, so that pictures of it are labelled, and all dims have coordinates.

    Coordinates that it has keep their values; where nothing says otherwise, places are counted from 1.
    """
    usual = {dim: Coordinate(dim.replace("_", " "), dim) for dim in map(str, found.sizes)}
    added = {}
    for name, one in {**usual, **coordinates}.items():
        if one.dims[0] in usual and (values := _places(name, one, found)) is not None:
            added[name] = (one.dims, values, one.attrs)
    found = found.assign_coords(added)
    for name, one in {**observables, "time": time, "step": STEP}.items():
        if name in found.variables:
            found[name].attrs.update(one.attrs)
    return found


def _places(name: str, one: Coordinate, found: xarray.Dataset) -> np.ndarray | None:
    """The values of a coordinate; None where neither the dataset nor the coordinate knows them."""
    (dim,), size = one.dims, found.sizes[one.dims[0]]
    if name in found.data_vars:
        raise ValueError(f"coordinate {name!r} has the name of an observable: rename one of them")
    if name in found.coords:
        values = found[name].values
        words = values.dtype.kind in "OT"  # as they come from files; xarray draws those of a fixed length alone
        return np.array(list(map(str, values)), str) if words else values
    if one.values is None:
        return np.arange(1, size + 1) if name == dim else None
    values = np.asarray(one.values)
    if values.shape != (size,):
        raise ValueError(f"coordinate {name!r} has {len(values)} values, but its dimension {dim!r} has {size} places")
    return values


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
    if bare := [dim for dim in trajectory.sizes if dim not in trajectory.coords]:
        raise ValueError(f"trajectory lacks coordinates along {bare}: build_trajectory gives all dimensions theirs")
    if silent := [name for name, variable in trajectory.variables.items() if not variable.attrs.get("long_name")]:
        raise ValueError(f"trajectory does not say what {silent} are: build_trajectory gives all a `long_name`")


def check_trained(trajectory: xarray.Dataset) -> None:
    """Raise ValueError unless the trajectory of a loop of one's own says what the store and the records ask of it."""
    check_schema(trajectory)
    missing = [name for name in ("device", "dtype") if name not in trajectory.attrs]
    if missing:
        raise ValueError(f"trajectory lacks the attributes {missing}: pass them to build_trajectory as `extra`")
    if "step" not in trajectory.coords:
        raise ValueError("trajectory lacks the coordinate `step`: pass it to build_trajectory")
