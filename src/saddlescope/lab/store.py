"""Runs on disk: each appears whole, by one rename, under a name that says exactly what it is.

`<root>/<system>/<face>-<digest>-seed<N>/` holds spec.json, meta.json and trajectory.zarr; ensembles of which only the
stages are kept are `<face>-<digest>-seeds<first>-<last>/` with stages.json in the trajectory's place. A training that
is not done has its checkpoint beside them, `.unfinished-<name>.npz`, and a study its folder, `.unfinished-<name>/`.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from glob import glob
from pathlib import Path
from typing import Any

from saddlescope.core.errors import BadArgument
from saddlescope.core.stage import Prediction, Stage
from saddlescope.core.study import Study

from .request import Request, sources
from .run import Outcome, outcome_of, predicted_outcome, strict


class Store:
    """Runs below `root`. Several processes may use one store: who comes second finds the run there and drops his."""

    def __init__(self, root: Path):
        self.root = root

    def prepare(self) -> None:
        """Make sure that runs can be written."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            probe = self.root / _partial_name()
            probe.mkdir()
            probe.rmdir()
        except OSError as error:
            raise BadArgument(f"cannot write to {self.root}: {error.strerror}; choose another folder with --out") from (
                error
            )
        self.sweep()

    def sweep(self) -> None:
        """Remove what killed processes of this machine left half-written."""
        for depth in ("", "*/", "*/*/"):
            # pathlib's glob fails on a folder that another command removes meanwhile.
            for partial in glob(f"{depth}{_PARTIAL}{socket.gethostname()}-*", root_dir=self.root):  # noqa: PTH207
                pid = partial.rsplit("-", 2)[1]
                if pid.isdigit() and not _alive(int(pid)):
                    _remove(self.root / partial)

    def folder(self, request: Request) -> Path:
        return self.root / request.system.name / request.name

    def unfinished(self, request: Request) -> Path:
        """Where a long training keeps its checkpoint until it is done: a file; a study's is a folder."""
        suffix = "" if isinstance(request.system, Study) else ".npz"
        return self.folder(request).with_name(f".unfinished-{request.name}{suffix}")

    @contextmanager
    def held(self, request: Request) -> Iterator[None]:
        """One process at a time makes a run whose checkpoint is a folder; the next one waits, and finds it made."""
        import fcntl

        lock = self.folder(request).with_name(f".unfinished-{request.name}.lock")
        lock.parent.mkdir(parents=True, exist_ok=True)
        with lock.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # a process that is killed lets go of it
            yield
            if request in self:
                lock.unlink(missing_ok=True)

    def __contains__(self, request: Request) -> bool:
        folder = self.folder(request)
        return not folder.is_symlink() and (folder / "meta.json").is_file()

    def save(self, request: Request, outcomes: Sequence[Outcome]) -> None:
        """Write a finished run. What is there already stays: it is the same run."""
        final = self.folder(request)
        final.parent.mkdir(parents=True, exist_ok=True)
        partial = final.parent / _partial_name()
        try:
            partial.mkdir()
            (partial / "spec.json").write_text(request.system.spec.to_json() + "\n")
            if request.stages_only:
                (partial / "stages.json").write_text(json.dumps([_brief(outcome) for outcome in outcomes]))
            elif outcomes[0].trajectory is not None:
                outcomes[0].trajectory.to_zarr(partial / "trajectory.zarr", mode="w", consolidated=False)
            (partial / "meta.json").write_text(json.dumps(_meta(request, outcomes), indent=1) + "\n")
            try:
                partial.rename(final)
            except OSError:
                if request not in self:  # else somebody was faster
                    # What has the name of a run and is none (no meta.json, a file, a link to elsewhere) makes room.
                    _remove(final)
                    partial.rename(final)
            _remove(self.unfinished(request))
        finally:
            _remove(partial)

    def load(self, request: Request) -> list[Outcome]:
        """The outcomes of a stored run. One that cannot be read is removed, and missing from then on."""
        folder = self.folder(request)
        try:
            meta = json.loads((folder / "meta.json").read_text())
            prediction = _prediction_from(meta["prediction"])
            if request.stages_only:
                briefs = json.loads((folder / "stages.json").read_text())
                if [brief["seed"] for brief in briefs] != list(request.seeds):
                    raise ValueError("it holds other seeds")
                return [_from_brief(request, brief, prediction) for brief in briefs]
            if request.face == "predict":
                assert prediction is not None
                return [predicted_outcome(request.system, request.seeds[0], prediction, meta["seconds"])]
            import xarray

            read = xarray.load_dataset(folder / "trajectory.zarr", engine="zarr", consolidated=False)
            # zarr lists a folder in the order in which answers arrive; a file written from it has one order.
            declared = request.system
            trajectory = read[[*declared.observables, *declared.timed, *declared.constants]]
            seed, seconds = request.seeds[0], meta["seconds"]
            return [outcome_of(request.system, request.face, seed, trajectory, prediction, seconds)]
        except Exception as error:  # a damaged file may raise anything, from a decoder's error to a recursion
            _remove(folder)
            raise Damaged(f"{folder} was damaged and has been removed ({type(error).__name__}: {error})") from error


class Damaged(RuntimeError):
    """A stored run could not be read."""


_PARTIAL = ".partial-"


def _remove(path: Path) -> None:
    """A folder with all it holds, a file, or a link but not what it leads to."""
    if path.is_symlink() or path.is_file():
        path.unlink(missing_ok=True)
    else:
        shutil.rmtree(path, ignore_errors=True)


def _partial_name() -> str:
    return f"{_PARTIAL}{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _meta(request: Request, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    prediction = outcomes[0].prediction
    study = isinstance(request.system, Study)
    about = outcomes[0].trajectory.attrs if study and outcomes[0].trajectory is not None else {}
    return strict(
        {
            "system": request.system.name,
            "face": request.face,
            "seeds": list(request.seeds),
            "result": outcomes[0].result if len(outcomes) == 1 else _results(outcomes),
            "solver": outcomes[0].solver,
            "seconds": sum(outcome.seconds for outcome in outcomes),
            "sources": sources(request.system),
            "argv": sys.argv,
            "dtype": about["dtype"] if study else "float64",
            "device": about["device"] if study else "cpu" if request.face != "train" else _device(),
            "versions": versions(study),
            "prediction": None if prediction is None else _prediction_to(prediction),
        }
    )


def _results(outcomes: Sequence[Outcome]) -> dict[str, int]:
    words = [outcome.result.partition(":")[0] for outcome in outcomes]
    return {word: words.count(word) for word in sorted(set(words))}


def _device() -> str:
    import jax

    return jax.devices()[0].device_kind


@cache
def versions(study: bool = False) -> dict[str, str]:
    """Of everything that numbers depend on; those of a study also on PyTorch, where it is installed."""
    from importlib.metadata import PackageNotFoundError, version

    import saddlescope

    found = {name: version(name) for name in ("numpy", "scipy", "jax", "jaxlib", "optax", "diffrax", "xarray", "zarr")}
    with suppress(PackageNotFoundError):
        found |= {"torch": version("torch")} if study else {}
    return {"saddlescope": saddlescope.__version__, "python": sys.version.split()[0], **found}


def _prediction_to(prediction: Prediction) -> dict[str, Any]:
    """Without the points on the plateaus, which the system makes again whenever they are wanted."""
    return {
        "stages": [stage.to_dict() for stage in prediction.stages],
        "marks": [list(mark) for mark in prediction.marks],
        "initial_loss": prediction.initial_loss,
        "observables": {name: value for name, value in prediction.observables.items()},
        "solver": prediction.solver,
        "notes": list(prediction.notes),
    }


def _prediction_from(fields: dict[str, Any] | None) -> Prediction | None:
    if fields is None:
        return None
    import numpy as np

    from saddlescope.core.stage import Mark

    marks = [Mark(name, level, event, tuple(index), count) for name, level, event, index, count in fields["marks"]]
    return Prediction(
        stages=tuple(Stage.from_dict(stage) for stage in fields["stages"]),
        marks=tuple(marks),
        initial_loss=fields["initial_loss"],
        observables={name: np.asarray(value) for name, value in fields["observables"].items()},
        solver=fields["solver"],
        notes=tuple(fields["notes"]),
    )


def _brief(outcome: Outcome) -> dict[str, Any]:
    kept = ("seed", "final_loss", "conserved_drift", "solver", "result", "seconds")
    stages = [stage.to_dict() for stage in outcome.stages]
    return strict({**{name: getattr(outcome, name) for name in kept}, "stages": stages})


def _from_brief(request: Request, brief: dict[str, Any], prediction: Prediction | None) -> Outcome:
    stages = [Stage.from_dict(stage) for stage in brief.pop("stages")]
    return Outcome(request.system, request.face, stages=stages, observables={}, prediction=prediction, **brief)
