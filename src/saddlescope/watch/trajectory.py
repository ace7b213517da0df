"""Stored steps as one dataset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from saddlescope.analysis.growth import growth_stages
from saddlescope.core.errors import BadArgument
from saddlescope.core.observable import Coordinate, Observable
from saddlescope.core.stage import Stage
from saddlescope.core.trajectory import labelled
from saddlescope.spectra.heads import CIRCUITS
from saddlescope.spectra.ranks import stable_rank

from .folder import Record

if TYPE_CHECKING:
    import xarray

HEADS = ("layer", "circuit", "head")
OBSERVABLES = {
    "singular_values": Observable("singular values of the change", *HEADS, "mode"),
    "stable_rank": Observable("stable rank of the change", *HEADS),
    "entropy_rank": Observable("entropy rank of the change", *HEADS),
    "relative_change": Observable("relative size of the change", *HEADS),
    "loss": Observable("loss"),
    "start_singular_values": Observable("singular values at the start", *HEADS, "mode"),
    "lora_singular_values": Observable("singular values of each module's LoRA", "module", "mode"),
    "lora_stable_rank": Observable("stable rank of each module's LoRA", "module"),
}


class HeadStage(NamedTuple):
    """A head learned a direction."""

    layer: str
    circuit: str
    head: int
    stage: Stage


def trajectory(
    meta: dict[str, Any], records: Sequence[Record], unwritten: Sequence[int] = (), where: str = ""
) -> xarray.Dataset:
    """Dims time, layer, circuit, head, mode (and module, with LoRA): layers and heads are counted from 0, modes from 1.

    unwritten: steps that only memory holds.
    """
    import xarray

    if not records:
        raise BadArgument(f"no step is stored in {where or 'this run'} yet")
    norms = np.array(meta["start_norms"], float)
    attrs = {
        "family": meta["family"],
        "notes": list(meta["notes"]),
        "schedule": meta["schedule"]["kind"],
        "every": meta["schedule"]["every"],
        "start": meta["start"],
        "method": meta["method"],
        "saddlescope": meta["saddlescope"],
        "diverged": [record.step for record in records if record.note],
        "unwritten": list(unwritten),
    }
    over = ("time", "layer", "circuit", "head")
    values = _padded([record.singular_values for record in records])
    energy = np.stack([record.energy for record in records])
    there = np.isfinite(energy)  # neither a head that a layer does not have nor a diverged step
    # Only the largest modes are stored: ranks and sizes come from the energy of the whole spectrum.
    ranks = stable_rank(np.nan_to_num(values), np.nan_to_num(energy))
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(energy > 0, np.sqrt(energy) / norms, 0.0)
    found = xarray.Dataset(
        {
            "singular_values": ((*over, "mode"), values),
            "stable_rank": (over, np.where(there, ranks, np.nan)),
            "entropy_rank": (over, np.stack([record.entropy_rank for record in records])),
            "relative_change": (over, np.where(there, relative, np.nan)),
            "loss": ("time", np.array([record.loss for record in records], float)),
        },
        coords={
            "time": np.array([record.step for record in records], float),
            "layer": list(meta["layers"]),
            "circuit": list(CIRCUITS),
        },
        attrs=attrs,
    )
    return described(_with_lora(found, meta["lora_modules"], records) if meta["lora_modules"] else found)


def described(found: xarray.Dataset) -> xarray.Dataset:
    """With words for every variable, and coordinates of every dimension."""
    coordinates = {
        "layer": Coordinate("layer", "layer"),
        "circuit": Coordinate("what heads look at (QK), what they move (OV)", "circuit"),
        "head": Coordinate("head", "head", values=range(found.sizes["head"])),
        "mode": Coordinate("direction, by falling singular value", "mode"),
        "module": Coordinate("module", "module"),
    }
    return labelled(found, OBSERVABLES, coordinates, Observable("steps of training"))


def _with_lora(found: xarray.Dataset, modules: Sequence[str], records: Sequence[Record]) -> xarray.Dataset:
    values = _padded([record.lora_singular_values for record in records], found.sizes["mode"])
    found = found.pad({"mode": (0, values.shape[-1] - found.sizes["mode"])})
    there = np.isfinite(values[..., 0])
    found["lora_singular_values"] = (("time", "module", "mode"), values)
    found["lora_stable_rank"] = (("time", "module"), np.where(there, stable_rank(np.nan_to_num(values)), np.nan))
    return found.assign_coords(module=list(modules))


def _padded(spectra: Sequence[np.ndarray], modes: int = 0) -> np.ndarray:
    """Stacked over time; modes that a step did not keep are NaN."""
    modes = max(modes, *(values.shape[-1] for values in spectra))
    return np.stack(
        [
            np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, modes - values.shape[-1])], constant_values=np.nan)
            for values in spectra
        ]
    )


def place_of(label: str) -> dict[str, Any]:
    """A layer's label, "3" or "decoder.3", as rows of a table have it: the number, and the stack where there are
    several."""
    stack, _, number = str(label).rpartition(".")
    return {"layer": int(number), **({"stack": stack} if stack else {})}


def head_stages(found: xarray.Dataset) -> list[HeadStage]:
    """When each head learned each direction of its change, the earliest first."""
    stages = []
    time, values = found["time"].values, found["singular_values"].values
    for place, layer in enumerate(found["layer"].values):
        for number, circuit in enumerate(found["circuit"].values):
            for head in range(found.sizes["head"]):
                spectra = values[:, place, number, head]
                measured = np.isfinite(spectra[:, 0])  # neither a head that is not there nor a diverged step
                grown = growth_stages(time[measured], np.nan_to_num(spectra[measured]))
                stages += [HeadStage(str(layer), str(circuit), head, stage) for stage in grown]
    return sorted(stages, key=lambda found: (found.stage.time or 0.0, found.layer, found.circuit, found.head))
