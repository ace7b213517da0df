"""What a long `reproduce` showed, small enough to keep: verdicts, figures, training curves, where they come from."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from saddlescope.core.files import write_csv, write_whole
from saddlescope.core.run import Run

from .export import series_of
from .records import PROVENANCE, Records
from .report import verdict_rows
from .reproduce import Reproduced
from .request import Request
from .store import Store

ROWS = 50
"""Snapshots of each training that are kept, evenly spread over those that were made."""

LONG = 30.0
"""Seconds of training from which a study's run is not cheap to repeat."""

WIDEST = 16
"""Numbers per snapshot in an observable that is kept, in a row or a table: maps and single predictions are not."""


def record(results: Sequence[Reproduced], store: Store, out: Path, folder: Path, *, full: bool) -> None:
    """Write `folder`/<room>/: verdicts.json, runs.json, curves.csv, figures/. out: where the report has its figures.

    Flows, and figures that draw on flows alone, are left out: they are cheap to repeat. Of a study's long runs the
    trajectories themselves are kept, in runs/.
    """
    for result in results:
        place = folder / result.chosen.room.name
        (place / "figures").mkdir(parents=True, exist_ok=True)
        trained = {experiment.name for experiment in result.chosen.experiments if experiment.face == "train"}
        for figure in (one for one in result.chosen.figures if trained & set(one.experiments)):
            if figure.name not in result.figures:  # it was not drawn
                continue
            name = f"{result.chosen.room.name}-{figure.name}.svg"
            shutil.copyfile(out / "figures" / name, place / "figures" / name)
        trainings = list(_trainings(result))
        runs = [_where_from(number, *training, store) for number, training in enumerate(trainings)]
        _write_json(place / "verdicts.json", verdict_rows([result]))
        _write_json(place / "runs.json", runs)
        for _, request, run in trainings:
            # What was read from a record is thin already.
            if request.system.training.costly and run.seconds >= LONG and request in store:
                Records(folder).save(request, run.trajectory, _provenance(request, run, store))
        rows = [row for number, (_, _, run) in enumerate(trainings) for row in _curve(number, run)]
        write_whole(place / "curves.csv", lambda partial, rows=rows: write_csv(partial, rows))


def _trainings(result: Reproduced) -> Iterator[tuple[list[str], Request, Run]]:
    """Each once, with the experiments that it is for."""
    found: dict[str, tuple[list[str], Request, Run]] = {}
    for experiment in result.chosen.experiments:
        if experiment.face == "train" and experiment.name in result.runs:
            for request, run in zip(result.requests[experiment.name], result.runs[experiment.name], strict=True):
                found.setdefault(request.name, ([], request, run))[0].append(experiment.name)
    yield from found.values()


def _where_from(number: int, experiments: list[str], request: Request, run: Run, store: Store) -> dict[str, Any]:
    usual = type(run.system.spec)().to_dict()
    changed = {name: value for name, value in run.system.spec.to_dict().items() if value != usual[name]}
    return {
        "run": number,
        "experiments": experiments,
        "system": request.system.name,
        "seed": run.seed,
        "set": changed,
        **_provenance(request, run, store),
        "stages": [stage.to_dict() for stage in run.stages],
    }


def _provenance(request: Request, run: Run, store: Store) -> dict[str, Any]:
    """Where a run was made, and by what; of one that was read from a record, what that says."""
    if request not in store:
        return json.loads(run.trajectory.attrs[PROVENANCE])
    meta = json.loads((store.folder(request) / "meta.json").read_text())
    return {name: meta[name] for name in ("result", "solver", "seconds", "device", "machine", "versions", "sources")}


def _curve(number: int, run: Run) -> Iterator[dict[str, Any]]:
    trajectory = run.trajectory
    columns: dict[str, np.ndarray] = {}
    for name in run.system.measured():
        values = trajectory[name].values
        if values[0].size <= WIDEST and values[0].ndim <= 2:
            columns |= series_of(name, values)
    for place in np.unique(np.linspace(0, len(trajectory["time"]) - 1, ROWS).round().astype(int)):
        row = {name: f"{values[place]:.5g}" for name, values in columns.items()}
        yield {"run": number, "step": int(trajectory["step"][place]), **row}


def _write_json(path: Path, value: Any) -> None:
    text = json.dumps(value, indent=1, ensure_ascii=False) + "\n"
    write_whole(path, lambda partial: partial.write_text(text, encoding="utf-8"))
