"""Trajectories of long studies, thinned until they are small enough to keep beside the code.

`<folder>/<room>/runs/<digest of the Spec>-seed<N>.nc`. They stand in for runs that a machine without the GPU or the
data cannot make: claims are judged and figures drawn from them as from the runs themselves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from saddlescope.core.errors import BadArgument
from saddlescope.core.files import write_whole
from saddlescope.core.study import Study, check_trained

from .request import Request
from .run import Outcome, outcome_of

if TYPE_CHECKING:
    import xarray

EARLY = 15
"""Times that are all kept: most happens there."""

RATIO = 1.1
"""Of one later time that is kept to the one before."""

MODES = 24
"""Singular values per head and time that are kept."""


PROVENANCE = "provenance"
"""Attribute of a recorded trajectory: where and by what it was made, as JSON."""


class Records:
    def __init__(self, folder: Path):
        if not folder.is_dir():
            raise BadArgument(f"--recorded {folder} is no folder: the project keeps its records in results/")
        self.folder = folder

    def path(self, request: Request) -> Path:
        room = request.system.name.partition("/")[0]
        return self.folder / room / "runs" / f"{request.system.spec.digest}-seed{request.seeds[0]}.nc"

    def __contains__(self, request: Request) -> bool:
        return isinstance(request.system, Study) and self.path(request).is_file()

    def load(self, request: Request) -> Outcome:
        import xarray

        path, study = self.path(request), request.system
        try:
            read = xarray.load_dataset(path, engine="scipy")
            trajectory = read[[*study.observables, *study.timed, *study.constants]]
            check_trained(trajectory)
            if trajectory.attrs["spec"] != study.spec.to_json():
                raise ValueError("it is of another Spec")
        except Exception as error:  # a damaged file may raise anything
            raise BadArgument(f"{path} cannot be read ({error}): restore it, or leave out --recorded") from error
        return outcome_of(study, "train", request.seeds[0], trajectory, None, trajectory.attrs["seconds"])

    def save(self, request: Request, trajectory: xarray.Dataset, provenance: Mapping[str, Any]) -> None:
        path = self.path(request)
        path.parent.mkdir(parents=True, exist_ok=True)
        small = thinned(trajectory).assign_attrs({PROVENANCE: json.dumps(provenance)})
        write_whole(path, lambda partial: small.to_netcdf(partial, engine="scipy"))


def thinned(trajectory: xarray.Dataset) -> xarray.Dataset:
    """The first times and the last, and between them ever fewer; 32 bits; of singular values over time the largest."""
    last = trajectory.sizes["time"] - 1
    later = EARLY * RATIO ** np.arange(1 + max(0.0, np.log(max(last, 1) / EARLY) / np.log(RATIO)))
    places = np.unique([*range(min(EARLY, last) + 1), *(int(place) for place in later if place < last), last])
    kept = trajectory.isel(time=places)
    if "mode" in kept.dims:
        kept = kept.isel(mode=slice(MODES))
    return kept.astype(np.float32, keep_attrs=True)
