"""Runs into files that other programs read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from saddlescope.core.errors import BadArgument
from saddlescope.core.files import write_csv, write_whole
from saddlescope.core.trajectory import series_in

if TYPE_CHECKING:
    from saddlescope.core.run import Run

    from .compare import Comparison


SUFFIXES = (".nc", ".csv")


def write_runs(path: Path, runs: Sequence[Run]) -> None:
    """.csv: a row per saved time (per stage for predict). .nc: the trajectory of one seed, all observables."""
    if path.suffix == ".csv":
        rows = [row for run in runs for row in _rows(run)]
        write_whole(path, lambda partial: write_csv(partial, rows))
        return
    trajectory = runs[0].trajectory
    if path.suffix != ".nc" or len(runs) > 1 or trajectory is None:
        raise BadArgument(f"cannot write {path}: .csv takes all, .nc the trajectory of one seed of flow or train")
    # The format takes a dimension without places for one that may grow, and cannot be read back.
    whole = trajectory.drop_dims([name for name, size in trajectory.sizes.items() if not size])
    write_whole(path, lambda partial: whole.to_netcdf(partial, engine="scipy"))


def write_comparisons(path: Path, results: Sequence[Comparison]) -> None:
    """.csv: a row for each stage of each seed, with its time and loss in every face."""
    from saddlescope.show.of_comparison import rows

    found = [row for result in results for row in rows(result)]
    write_whole(path, lambda partial: write_csv(partial, found))


def _rows(run: Run) -> list[dict[str, Any]]:
    if run.trajectory is None:
        return [{"seed": run.seed, **stage.to_dict()} for stage in run.stages]
    columns: dict[str, np.ndarray] = {"time": run.trajectory["time"].values}
    for name, values in series_in(run.trajectory).items():
        columns |= series_of(name, values)
    return [
        {"seed": run.seed, **{name: float(values[number]) for name, values in columns.items()}}
        for number in range(len(columns["time"]))
    ]


def series_of(name: str, values: np.ndarray) -> dict[str, np.ndarray]:
    """Every number of an observable over time, by its name and place, counted from 1 as in the papers."""
    return {
        "_".join([name, *(str(index + 1) for index in where)]): values[(slice(None), *where)]
        for where in np.ndindex(values.shape[1:])
    }
