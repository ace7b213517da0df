"""Reads a loss curve that somebody else recorded."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from saddlescope.core.errors import BadArgument, unknown


def read_curve(path: Path, time: str | None = None, loss: str | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Time and loss from a .csv with a header, or from a trajectory (.nc)."""
    if not path.is_file():
        raise BadArgument(f"{path} is a folder, not a file" if path.is_dir() else f"there is no file {path}")
    if path.suffix == ".nc":
        return _from_netcdf(path, time or "time", loss or "loss")
    if path.suffix != ".csv":
        raise BadArgument(f"cannot read {path}: give a .csv with a header, or a trajectory (.nc)")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadArgument(f"cannot read {path}: it is no csv ({error})") from error
    if len(rows) < 2 or len(rows[0]) < 2:
        raise BadArgument(f"cannot read {path}: it needs a header and two columns, time and loss")
    header = [name.strip() for name in rows[0]]
    time = time or next((name for name in ("time", "step") if name in header), header[0])
    loss = loss or ("loss" if "loss" in header else header[1])
    for name in (time, loss):
        if name not in header:
            raise unknown("column", name, header)
    columns = header.index(time), header.index(loss)
    values = []
    for line, row in enumerate(rows[1:], start=2):
        try:
            values.append([float(row[column]) for column in columns])
        except (ValueError, IndexError) as error:
            raise BadArgument(f"{path}, line {line}: expected numbers in {time!r} and {loss!r}, got {row}") from error
    table = np.array(values)
    if np.any(np.diff(table[:, 0]) <= 0):
        raise BadArgument(
            f"{path}: column {time!r} must increase strictly; name another with --time, or keep one run per file"
        )
    return table[:, 0], table[:, 1]


def _from_netcdf(path: Path, time: str, loss: str) -> tuple[np.ndarray, np.ndarray]:
    import xarray

    try:
        data = xarray.load_dataset(path, engine="scipy")
    except (OSError, ValueError, TypeError, IndexError, AssertionError) as error:
        raise BadArgument(f"cannot read {path}: it is no trajectory written by --out") from error
    for name in (time, loss):
        if name not in data.variables:
            raise unknown("variable", name, [str(known) for known in data.variables])
    if data[loss].ndim != 1:
        raise BadArgument(f"`{loss}` in {path} has the dimensions {data[loss].dims}: name one that has only time")
    return data[time].values, data[loss].values
