"""Trajectories of long studies, thinned until they are small enough to keep beside the code.

`<folder>/<room>/runs/<digest of the Spec>-seed<N>.nc`. They stand in for runs that a machine without the GPU or the
data cannot make: claims are judged and figures drawn from them as from the runs themselves. A record says itself what
it is of: a field that the Spec has gained since had its default value, and classes and files may change their names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import saddlescope
from saddlescope.core.errors import BadArgument
from saddlescope.core.files import write_whole
from saddlescope.core.run import Origin, Run
from saddlescope.core.trajectory import check_trained, described

from .request import Request
from .seal import checksum
from .stages import run_of
from .store import About

if TYPE_CHECKING:
    import xarray

EARLY = 15
"""Times that are all kept: most happens there."""

RATIO = 1.1
"""Of one later time that is kept to the one before."""

MODES = 24
"""Singular values per head and time that are kept."""


CHECKSUMS = "checksums.json"
"""Beside the records of a room: what each of their files holds."""

PROVENANCE = "provenance"
"""Attribute of a recorded trajectory: where and by what it was made, as JSON."""

RESULTS = Path("results")
"""The folder of the records that come with saddlescope: inside an installed package, beside src/ in a checkout."""


class Records:
    def __init__(self, folder: Path):
        if not folder.is_dir():
            raise BadArgument(f"--recorded {folder} is no folder: `{RESULTS}` means the records of saddlescope itself")
        self.folder = folder

    @classmethod
    def found(cls, folder: Path) -> Records:
        """Those in `folder`; if there is no folder `results` here, that name means those that come with saddlescope."""
        ours = [Path(saddlescope.__file__).parents[up] / RESULTS for up in (0, 2)]
        places = ours if folder == RESULTS and not folder.is_dir() else []
        return cls(next((place for place in places if place.is_dir()), folder))

    def path(self, request: Request) -> Path:
        """Of the record of this run; where there is none, of a new one."""
        study, seed = request.system, request.seeds[0]
        usual_place = self.folder / study.name.partition("/")[0] / "runs" / f"{study.spec.digest}-seed{seed}.nc"
        return self._holding(request) or usual_place

    def _holding(self, request: Request) -> Path | None:
        """The record that says that it is of this run, whatever its file is called."""
        study, seed = request.system, request.seeds[0]
        usual = type(study.spec)().to_dict()
        for said, path in self._found:
            same = said["system"] == study.name and int(said["seed"]) == seed
            if same and {**usual, **json.loads(said["spec"])} == study.spec.to_dict():
                return path
        return None

    @cached_property
    def _found(self) -> list[tuple[Mapping[str, Any], Path]]:
        """All records, with what they say of themselves."""
        found = []
        for path in sorted(self.folder.glob("*/runs/*.nc")):
            with _readable(path):
                found.append((_said_by(_checked(path)), path))
        return found

    def __contains__(self, request: Request) -> bool:
        return request.face == "train" and self._holding(request) is not None

    def about(self, request: Request) -> About:
        path = self.path(request)
        with _readable(path):
            content = _checked(path)
            said = _said_by(content)
            finished = int(said["result"].startswith("finished"))
            return About(checksum(content), finished, float(said["seconds"]), _origin(said))

    def load(self, request: Request) -> Run:
        import xarray

        path, study = self.path(request), request.system
        with _readable(path):
            read = xarray.load_dataset(BytesIO(_checked(path)), engine="scipy", decode_times=False)
            trajectory = described(read[[*study.observables]], study)  # the first records do not say what they hold
            check_trained(trajectory)
            found = run_of(trajectory, study)
            return replace(found, made=_origin(trajectory.attrs))

    def save(self, request: Request, trajectory: xarray.Dataset, provenance: Mapping[str, Any]) -> None:
        path = self.path(request)
        path.parent.mkdir(parents=True, exist_ok=True)
        small = thinned(trajectory).assign_attrs({PROVENANCE: json.dumps(provenance)})
        write_whole(path, lambda partial: small.to_netcdf(partial, engine="scipy"))
        known = _checksums(path.parent) if path.with_name(CHECKSUMS).is_file() else {}
        known[path.name] = checksum(path.read_bytes())
        text = json.dumps(known, indent=1, sort_keys=True) + "\n"
        write_whole(path.with_name(CHECKSUMS), lambda partial: partial.write_text(text, encoding="utf-8"))


def _checked(path: Path) -> bytes:
    """The content of a record. Files may change their names: it must be what one of them held when it was written."""
    content = path.read_bytes()
    if checksum(content) not in _checksums(path.parent).values():
        raise ValueError("it is not as it was written")
    return content


def _checksums(folder: Path) -> dict[str, str]:
    return json.loads((folder / CHECKSUMS).read_text(encoding="utf-8"))


def _said_by(content: bytes) -> Mapping[str, Any]:
    """What a record says of itself, without its arrays."""
    from scipy.io import netcdf_file

    with netcdf_file(BytesIO(content), mmap=False) as file:
        found = dict(vars(file)["_attributes"])
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in found.items()}


def _origin(said: Mapping[str, Any]) -> Origin:
    by = json.loads(said[PROVENANCE])
    # The first records do not say on what machine they were made.
    return Origin(by["versions"], by.get("machine", "machine not recorded"), by["device"])


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # a damaged file may raise anything
        raise BadArgument(f"{path} cannot be read ({error}): restore it, or leave out --recorded") from error


def thinned(trajectory: xarray.Dataset) -> xarray.Dataset:
    """The first times and the last, and between them ever fewer; 32 bits; of singular values over time the largest."""
    last = trajectory.sizes["time"] - 1
    later = EARLY * RATIO ** np.arange(1 + max(0.0, np.log(max(last, 1) / EARLY) / np.log(RATIO)))
    places = np.unique([*range(min(EARLY, last) + 1), *(int(place) for place in later if place < last), last])
    kept = trajectory.isel(time=places)
    if "mode" in kept.dims:
        kept = kept.isel(mode=slice(MODES))
    return kept.astype(np.float32, keep_attrs=True)
