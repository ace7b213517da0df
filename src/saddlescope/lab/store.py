"""Runs on disk: each appears whole, by one rename, under a name that says exactly what it is.

`<root>/<system>/<face>-<digest>-seed<N>/` holds spec.json, meta.json, stages.json, trajectory.zarr and checksums.json;
ensembles of which only the stages are kept are `<face>-<digest>-seeds<first>-<last>/`, without a trajectory. A training
that is not done has its checkpoint beside them, `.unfinished-<name>.npz`, or, with a loop of its own, its folder
`.unfinished-<name>/`. A run that is not as it was written is never read: it is moved to `.damaged-<name>`, and missing.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from saddlescope.core.errors import BadArgument
from saddlescope.core.files import lock, may_be_sound, remove
from saddlescope.core.run import Origin, Run
from saddlescope.core.stage import Mark, Prediction, Stage
from saddlescope.core.strict import strict
from saddlescope.core.trajectory import described, series_in

from .request import Request
from .seal import read_sealed, seal, sync

if TYPE_CHECKING:
    import xarray


class Store:
    """Runs below `root`. Several processes may use one store; the second writer of a run discards its copy."""

    def __init__(self, root: Path):
        self.root = root
        self._known: dict[str, About] = {}

    def __reduce__(self) -> tuple[type[Store], tuple[Path]]:
        return Store, (self.root,)  # what one process has looked through means nothing to another

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
        """Remove what killed processes of this machine, or of this container, left half-written."""
        for depth in ("", "*/", "*/*/"):
            # pathlib's glob fails on a folder that another command removes meanwhile.
            for partial in glob(f"{depth}{_PARTIAL}{here()}-*", root_dir=self.root):  # noqa: PTH207
                pid = partial.rsplit("-", 2)[1]
                if pid.isdigit() and not _alive(int(pid)):
                    remove(self.root / partial)

    def look_again(self) -> None:
        """Forget what `about` has found: another process has changed something."""
        self._known.clear()

    def folder(self, request: Request) -> Path:
        return self.root / request.system.name / request.name

    def unfinished(self, request: Request) -> Path:
        """Where a long training keeps its checkpoint until it is done: a file; a loop of one's own has a folder."""
        training = request.system.training
        suffix = "" if training is not None and training.keeps == "folder" else ".npz"
        return self.folder(request).with_name(f".unfinished-{request.name}{suffix}")

    def begin_anew(self, request: Request) -> str:
        """Set the checkpoint aside, so that the training does not go on from it; says so."""
        return f"it was set aside as {_aside(self.unfinished(request))}, and the run begun anew"

    @contextmanager
    def held(self, request: Request) -> Iterator[None]:
        """One process at a time makes a run that has a checkpoint; the next one waits, and finds it made."""
        path = self.folder(request).with_name(f".unfinished-{request.name}.lock")
        path.parent.mkdir(parents=True, exist_ok=True)
        with lock(path, wait=True):
            yield

    def __contains__(self, request: Request) -> bool:
        """Whether something has the run's name. It is whole, unless something happened to it, which reading tells."""
        return os.path.lexists(self.folder(request))

    def save(self, request: Request, runs: Sequence[Run]) -> None:
        """Write a finished run. What is there already stays: it is the same run."""
        final = self.folder(request)
        final.parent.mkdir(parents=True, exist_ok=True)
        partial = final.parent / _partial_name()
        try:
            partial.mkdir()
            (partial / "spec.json").write_text(request.system.spec.to_json() + "\n")
            (partial / "stages.json").write_text(json.dumps([_brief(run) for run in runs]))
            if not request.stages_only and runs[0].trajectory is not None:
                _write_trajectory(partial, runs[0].trajectory)
            (partial / "meta.json").write_text(json.dumps(_meta(request, runs), indent=1) + "\n")
            seal(partial, request.name)
            try:
                partial.rename(final)
            except OSError:
                if request not in self:  # otherwise another process wrote it first
                    raise
            sync(final.parent)
            remove(self.unfinished(request))
        finally:
            remove(partial)

    def about(self, request: Request) -> About:
        """What a stored run is. The whole run is looked through, once: a damaged one is set aside as by `load`."""
        if request.name not in self._known:
            self._read(request)
        return self._known[request.name]

    def load(self, request: Request) -> list[Run]:
        """What is stored. A run that is not as it was written is set aside, and missing from then on."""
        files = self._read(request)
        try:
            return _runs(request, files)
        except Exception as error:
            raise RuntimeError(
                f"{request.words}: {self.folder(request)} is as it was written, but cannot be understood "
                f"({type(error).__name__}: {error}); if the code that reads it is right, remove it: it is made again"
            ) from error

    def _read(self, request: Request) -> dict[str, bytes]:
        """The files of a run, once their checksums are found to be right."""
        folder = self.folder(request)
        before = _identity(folder)
        try:
            files = read_sealed(folder, request.name)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            if may_be_sound(error):
                raise
            self._known.pop(request.name, None)
            raise Damaged(f"{request.words}: {self._set_aside(folder, before, error)}") from error
        self._known[request.name] = _about(files)
        return files

    @staticmethod
    def _set_aside(folder: Path, before: tuple[int, int] | None, error: Exception) -> str:
        """Move a damaged run out of the way; says so."""
        if before is None or _identity(folder) != before:
            return f"the stored run was damaged ({error}); another process has taken it away"
        return f"the stored run was damaged ({error}); it was set aside as {_aside(folder)}"


class Damaged(RuntimeError):
    """A stored run is not what was written."""


def _aside(path: Path) -> Path:
    """Where it has been moved, so that a user can look at it; of several with one name the last is kept."""
    aside = path.with_name(f"{_DAMAGED}{path.name.removeprefix('.')}")
    remove(aside)
    with suppress(FileNotFoundError):  # another process was faster
        path.rename(aside)
    return aside


def _identity(folder: Path) -> tuple[int, int] | None:
    """Differs for a folder of the same name that was made anew; None where there is none."""
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


class About(NamedTuple):
    """stamp: changes with anything in the run.  finished: seeds that did.  seconds: of all of them."""

    stamp: str
    finished: int
    seconds: float
    made: Origin


def _about(files: Mapping[str, bytes]) -> About:
    meta = json.loads(files["meta.json"])
    result = meta["result"]
    finished = result.get("finished", 0) if isinstance(result, dict) else int(result.startswith("finished"))
    stamp = hashlib.sha256(b"\0".join(part for place in sorted(files) for part in (place.encode(), files[place])))
    return About(stamp.hexdigest(), finished, meta["seconds"], _origin(meta))


def _origin(meta: Mapping[str, Any]) -> Origin:
    return Origin(meta["versions"], meta["machine"], meta["device"])


def _runs(request: Request, files: Mapping[str, bytes]) -> list[Run]:
    """Of what was stored, by the names of the files."""
    meta = json.loads(files["meta.json"])
    prediction, made = _prediction_from(meta["prediction"]), _origin(meta)
    kept: dict[str, Any] = {"observables": {}}
    if request.face == "predict":
        assert prediction is not None
        kept["observables"] = prediction.observables
    elif not request.stages_only:
        # zarr lists a folder in the order in which answers arrive; a file written from it has one order.
        trajectory = described(_trajectory(files)[[*request.system.observables]], request.system)
        last = {name: values[-1] for name, values in series_in(trajectory).items()}
        kept = {"observables": last, "trajectory": trajectory}
    return [
        Run(
            request.system,
            request.face,
            **{**brief, "stages": [Stage.from_dict(stage) for stage in brief["stages"]]},
            **kept,
            prediction=prediction,
            made=made,
        )
        for brief in json.loads(files["stages.json"])
    ]


def _write_trajectory(folder: Path, trajectory: xarray.Dataset) -> None:
    """Through memory: zarr takes twice as long to write its many small files itself."""
    from zarr.storage import MemoryStore

    written: dict[str, Any] = {}
    # Words of one length have no format in zarr; those of any length have.
    words = {name: one.astype(object) for name, one in trajectory.coords.items() if one.dtype.kind == "U"}
    trajectory.assign_coords(words).to_zarr(MemoryStore(written), mode="w", consolidated=False)  # pyright: ignore[reportCallIssue]
    for place, content in written.items():
        path = folder / _ZARR / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.to_bytes())


def _trajectory(files: Mapping[str, bytes]) -> xarray.Dataset:
    import xarray
    from zarr.core.buffer import default_buffer_prototype
    from zarr.storage import MemoryStore

    buffer = default_buffer_prototype().buffer
    inside = {
        place.removeprefix(_ZARR): buffer.from_bytes(content)
        for place, content in files.items()
        if place.startswith(_ZARR)
    }
    return xarray.load_dataset(MemoryStore(inside), engine="zarr", consolidated=False, decode_times=False)  # pyright: ignore[reportArgumentType]


_ZARR = "trajectory.zarr/"
_DAMAGED = ".damaged-"
_PARTIAL = ".partial-"


def _partial_name() -> str:
    return f"{_PARTIAL}{here()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


@cache
def here() -> str:
    """Where the numbers of processes mean something: this machine, or one of its containers."""
    space = ""
    with suppress(OSError):
        space = f".{Path('/proc/self/ns/pid').stat().st_ino}"
    return f"{socket.gethostname()}{space}"


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _meta(request: Request, runs: Sequence[Run]) -> dict[str, Any]:
    prediction, trajectory = runs[0].prediction, runs[0].trajectory
    about = {} if trajectory is None else trajectory.attrs
    return strict(
        {
            "system": request.system.name,
            "face": request.face,
            "seeds": list(request.seeds),
            "result": runs[0].result if len(runs) == 1 else _results(runs),
            "solver": runs[0].solver,
            "seconds": sum(run.seconds for run in runs),
            "sources": request.sources,
            "argv": sys.argv,
            "dtype": about.get("dtype", "float64"),
            "device": about.get("device", "cpu"),
            "versions": versions(*(request.system.training.libraries if request.face == "train" else ())),
            "machine": machine(),
            "prediction": None if prediction is None else _prediction_to(prediction),
        }
    )


def _results(runs: Sequence[Run]) -> dict[str, int]:
    words = [run.result.partition(":")[0] for run in runs]
    return {word: words.count(word) for word in sorted(set(words))}


@cache
def machine() -> str:
    """This machine in words; without its name, which is private."""
    import platform

    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"


@cache
def versions(*more: str) -> dict[str, str]:
    """Of everything that numbers depend on, where it is installed. more: packages beside those of the engines."""
    from importlib.metadata import PackageNotFoundError, version

    import saddlescope

    found = {}
    for name in ("numpy", "scipy", "jax", "jaxlib", "optax", "diffrax", "xarray", "zarr", *more):
        with suppress(PackageNotFoundError):
            found[name] = version(name)
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
        "staircase": prediction.staircase,
    }


def _prediction_from(fields: dict[str, Any] | None) -> Prediction | None:
    if fields is None:
        return None
    import numpy as np

    marks = [Mark(name, level, event, tuple(index), count) for name, level, event, index, count in fields["marks"]]
    return Prediction(
        stages=tuple(Stage.from_dict(stage) for stage in fields["stages"]),
        marks=tuple(marks),
        initial_loss=fields["initial_loss"],
        observables={name: np.asarray(value) for name, value in fields["observables"].items()},
        solver=fields["solver"],
        notes=tuple(fields["notes"]),
        staircase=fields["staircase"],
    )


def _brief(run: Run) -> dict[str, Any]:
    kept = ("seed", "final_loss", "conserved_drift", "solver", "result", "seconds")
    stages = [stage.to_dict() for stage in run.stages]
    return {**{name: getattr(run, name) for name in kept}, "stages": _without_arrays(stages)}


def _without_arrays(value: Any) -> Any:
    return json.loads(json.dumps(value, default=lambda array: array.tolist()))
