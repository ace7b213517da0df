"""How the change of every head grows over a run: one dataset for watched trainings and for series of checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .heads import CIRCUITS
from .ranks import entropy_rank, stable_rank

if TYPE_CHECKING:
    import xarray


def growth(
    steps: Sequence[int],
    layers: Sequence[str],
    spectra: Sequence[Sequence[np.ndarray]],
    start_norms: Sequence[np.ndarray],
    *,
    scalars: Mapping[str, Sequence[float]] | None = None,
    attrs: Mapping[str, Any] | None = None,
) -> xarray.Dataset:
    """The dataset: dims time, layer, circuit, head, mode; its time is the training step.

    spectra[t][l]: singular values [circuit, head, mode] of the change at a step, in a layer; None where the layer is
    missing.  start_norms[l]: Frobenius norms [circuit, head] of the start.  scalars: further curves over time, e.g.
    loss. Heads and modes that a layer does not have are NaN.
    """
    import xarray

    heads = max(array.shape[1] for array in start_norms)
    modes = max(layer.shape[2] for step in spectra for layer in step if layer is not None)
    values = np.full((len(steps), len(layers), len(CIRCUITS), heads, modes), np.nan)
    size = np.full((len(layers), len(CIRCUITS), heads), np.nan)
    for place, norms in enumerate(start_norms):
        size[place, :, : norms.shape[1]] = norms
    for moment, step in enumerate(spectra):
        for place, layer in enumerate(step):
            if layer is not None:
                values[moment, place, :, : layer.shape[1], : layer.shape[2]] = layer
    there = np.isfinite(values[..., 0])
    known = np.nan_to_num(values)
    change = np.sqrt((known**2).sum(-1))
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(change > 0, change / size, 0.0)
    over = ("time", "layer", "circuit", "head")
    curves = {name: ("time", np.asarray(curve, float)) for name, curve in (scalars or {}).items()}
    return xarray.Dataset(
        {
            "singular_values": ((*over, "mode"), values),
            "stable_rank": (over, np.where(there, stable_rank(known), np.nan)),
            "entropy_rank": (over, np.where(there, entropy_rank(known), np.nan)),
            "relative_change": (over, np.where(there, relative, np.nan)),
            **curves,
        },
        coords={"time": np.asarray(steps, float), "layer": list(layers), "circuit": list(CIRCUITS)},
        attrs=dict(attrs or {}),
    )
