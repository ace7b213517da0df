"""Outcomes into files that other programs read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from saddlescope.core.errors import BadArgument
from saddlescope.core.files import write_csv, write_whole
from saddlescope.core.trajectory import series_in

if TYPE_CHECKING:
    from .outcome import Outcome


SUFFIXES = (".nc", ".csv")


def write_outcomes(path: Path, outcomes: Sequence[Outcome]) -> None:
    """.csv: a row per saved time (per stage for predict). .nc: the trajectory of one seed, all observables."""
    if path.suffix == ".csv":
        rows = [row for outcome in outcomes for row in _rows(outcome)]
        write_whole(path, lambda partial: write_csv(partial, rows))
        return
    trajectory = outcomes[0].trajectory
    if path.suffix != ".nc" or len(outcomes) > 1 or trajectory is None:
        raise BadArgument(f"cannot write {path}: .csv takes all, .nc the trajectory of one seed of flow or train")
    write_whole(path, lambda partial: trajectory.to_netcdf(partial, engine="scipy"))


def _rows(outcome: Outcome) -> list[dict[str, Any]]:
    if outcome.trajectory is None:
        return [{"seed": outcome.seed, **stage.to_dict()} for stage in outcome.stages]
    columns: dict[str, np.ndarray] = {"time": outcome.trajectory["time"].values}
    for name, values in series_in(outcome.trajectory).items():
        columns |= series_of(name, values)
    return [
        {"seed": outcome.seed, **{name: float(values[number]) for name, values in columns.items()}}
        for number in range(len(columns["time"]))
    ]


def series_of(name: str, values: np.ndarray) -> dict[str, np.ndarray]:
    """Every number of an observable over time, by its name and place, counted from 1 as in the papers."""
    return {
        "_".join([name, *(str(index + 1) for index in where)]): values[(slice(None), *where)]
        for where in np.ndindex(values.shape[1:])
    }
