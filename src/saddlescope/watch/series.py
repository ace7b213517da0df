"""A series of checkpoints as if it had been watched: the change of every head since the first of them.

series = read_series(["run"])           # a folder with checkpoint-500, checkpoint-1000, ...
series.trajectory                       # an xarray.Dataset over time, layer, circuit, head, mode
series.findings                         # what is wrong with the files themselves
draw_series(series, "growth.png")
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

import saddlescope
from saddlescope.checkpoints.match import matched_names
from saddlescope.checkpoints.read import Checkpoint, open_checkpoint
from saddlescope.core.errors import BadArgument
from saddlescope.core.progress import Tick, silent
from saddlescope.core.shown import Shown
from saddlescope.core.threads import threads_for
from saddlescope.spectra.factored import spectrum
from saddlescope.spectra.heads import CIRCUITS
from saddlescope.spectra.layouts import AttentionLayer, find_layout

from .folder import Record
from .integrity import Finding, Scan, check, scan
from .measure import METHODS, Weights, changed, filled, of_products, wide_numpy
from .order import find_series
from .trajectory import HeadStage, described, head_stages, place_of, trajectory

if TYPE_CHECKING:
    import xarray

DECADES = 30
"""Steps are drawn on a logarithmic axis if the last is this many times the first after the start."""


@dataclass(frozen=True, repr=False)
class Series(Shown):
    """Checkpoints as if they had been watched. Prints itself in a few lines, in a notebook as a table with a picture.

    trajectory: as of a watch, with `start_singular_values` beside.  stages: when each head learned each direction.
    findings: what is wrong with the files.  notes: what limits the numbers.  checkpoints: steps that were read, and
    where.
    """

    shown_by: ClassVar[str] = "saddlescope.show.of_series"

    trajectory: xarray.Dataset
    stages: list[HeadStage]
    findings: list[Finding]
    notes: list[str]
    checkpoints: list[tuple[int, str]]

    def to_dict(self) -> dict[str, Any]:
        """For JSON: everything but the singular values of every head."""
        return {
            "checkpoints": [{"step": step, "where": where} for step, where in self.checkpoints],
            "family": self.trajectory.attrs["family"],
            "notes": list(self.notes),
            "findings": [finding.to_dict() for finding in self.findings],
            "stages": [
                {
                    **place_of(layer),
                    "circuit": circuit,
                    "head": head,
                    "direction": stage.extra["mode"],
                    "step": stage.time,
                    "singular_value": stage.extra["singular_value"],
                }
                for layer, circuit, head, stage in self.stages
            ],
            "growth": list(_growth(self.trajectory)),
        }


def _growth(found: xarray.Dataset) -> Iterator[dict[str, Any]]:
    """Over all heads that were measured; ranks over those that have moved."""
    for moment, step in enumerate(found["time"].values):
        for number, circuit in enumerate(CIRCUITS):
            change = found["relative_change"].values[moment, :, number]
            moved = change > 0
            row: dict[str, Any] = {"step": int(step), "circuit": circuit, "heads": int(np.isfinite(change).sum())}
            for name, values in (
                ("stable_rank", found["stable_rank"].values[moment, :, number][moved]),
                ("entropy_rank", found["entropy_rank"].values[moment, :, number][moved]),
                ("relative_change", change[np.isfinite(change)]),
            ):
                for word, of in (("median", np.median), ("min", np.min), ("max", np.max)):
                    row[f"{name}_{word}"] = float(of(values)) if len(values) else None
            yield row


def draw_series(series: Series, path: str | Path) -> Path:
    """Stable ranks and singular values of the change over the steps; steps with findings are marked."""
    from saddlescope.show.growth import draw_growth

    if not np.isfinite(series.trajectory["relative_change"]).any():
        why = "; ".join(finding.message for finding in series.findings[:2])
        raise BadArgument(f"cannot draw {path}: no head could be measured: {why}")
    marked = {step for finding in series.findings for step in finding.steps}
    return draw_growth(series.trajectory, Path(path), sorted(marked))


# ---- reading ---------------------------------------------------------------------------------------------


def read_series(
    folders: Sequence[str | Path],
    *,
    steps: Sequence[int] | None = None,
    mapping: Mapping[str, Any] | None = None,
    modes: int = 32,
    tick: Tick = silent,
) -> Series:
    """Check every checkpoint, in the order of its step, and measure each head's change since the first.

    folders: checkpoints, or one folder that holds them.  steps: one for each, instead of those in their names.
    mapping: where attention weights are, for a model whose names are not known here.  modes: singular values kept.
    tick: hears of the progress.
    """
    if not isinstance(modes, int) or modes < 1:
        raise BadArgument(f"`modes` must be the number of singular values to keep, at least 1, got {modes!r}")
    order = find_series(folders, steps)
    findings, scans, records, read = list(order.findings), [], [], []
    heads: _Heads | None = None
    for number, (step, where) in enumerate(order.checkpoints):

        def share(part: float, words: str = "", number: int = number, step: int = step) -> None:
            tick((number + part) / len(order.checkpoints), f"step {step}: {words}")

        try:
            checkpoint = open_checkpoint(where)
        except (BadArgument, OSError) as error:
            findings.append(_unreadable(step, error))
            continue
        heads = heads or _Heads(checkpoint, mapping, modes)
        try:
            names = matched_names(heads.first.tensors, checkpoint.tensors)
            renamed = {other: name for name, other in names.items()}
            scanned = scan(checkpoint, renamed, step, lambda part, words, share=share: share(part / 2, words))
            records.append(heads.measure(checkpoint, names, scanned, share))
        except (BadArgument, OSError) as error:
            findings.append(_unreadable(step, error))
            heads = heads if records else None
        else:
            scans.append(scanned)
            read.append((step, where))
        if heads is None or checkpoint is not heads.first:
            checkpoint.close()
    if heads is None or len(records) < 2:
        reasons = "; ".join(finding.message for finding in findings[:2])
        raise BadArgument(
            f"a series needs two checkpoints of whole models that can be read, got {len(records)}: {reasons} "
            "(an adapter is compared with its base by: saddlescope diff BASE ADAPTER)"
        )
    heads.first.close()
    found, remarks = check(scans)
    notes = [*order.notes, *heads.notes, *remarks]
    dataset = heads.dataset(records, notes)
    return Series(dataset, head_stages(dataset), findings + found, notes, read)


def _unreadable(step: int, error: Exception) -> Finding:
    return Finding("unreadable", (step,), (), f"step {step} is left out: {error}")


class _Heads:
    """Heads of a series, measured against those of its first checkpoint.

    That one stays open and its weights are read again, layer by layer, for every other: no model is held whole.
    """

    def __init__(self, first: Checkpoint, mapping: Mapping[str, Any] | None, modes: int):
        shapes = {name: tensor.shape for name, tensor in first.tensors.items()}
        self.layout = find_layout(shapes, first.config, mapping)
        self.first, self.modes, self.notes = first, modes, list(self.layout.notes)
        self._unusable: set[str] = set()
        self._start: list[list[np.ndarray] | None] = []  # of each layer's own products, before any change

    def measure(self, checkpoint: Checkpoint, names: Mapping[str, str], scanned: Scan, share: Tick) -> Record:
        """Every layer whose tensors are there, in the first one's shapes, and finite; the others are NaN."""
        layers = self.layout.layers
        if not self._start:
            self._begin(scanned)
        unusable = {*self._unusable, *scanned.not_finite}
        spectra: list[list[np.ndarray] | None] = []
        for place, layer in enumerate(layers):
            share((1 + place / len(layers)) / 2, f"heads of layer {layer.layer}")
            there = all(
                key in names
                and key not in unusable
                and checkpoint.tensors[names[key]].shape == self.first.tensors[key].shape
                and "float" in checkpoint.tensors[names[key]].dtype
                for key in layer.keys
            )
            with threads_for(self.first.tensors[layer.keys[0]].shape):
                after = lambda key: checkpoint.read(names[key])  # noqa: E731
                spectra.append(
                    changed(layer, _read(layer, self.first.read), _read(layer, after), wide_numpy) if there else None
                )
        return Record(scanned.step, float("nan"), "", *filled(layers, spectra, self.modes), np.zeros((0, 0)))

    def _begin(self, scanned: Scan) -> None:
        complex_or_whole = {name for name, tensor in self.first.tensors.items() if "float" not in tensor.dtype}
        self._unusable = {*scanned.not_finite, *complex_or_whole}
        for layer in self.layout.layers:
            if self._unusable & set(layer.keys):
                self._start.append(None)
                self.notes.append(f"Layer {layer.layer} is no finite floats in the first step: its change has no size.")
            else:
                with threads_for(self.first.tensors[layer.keys[0]].shape):
                    self._start.append(of_products(spectrum, layer, _read(layer, self.first.read)))

    def dataset(self, records: Sequence[Record], notes: Sequence[str]) -> xarray.Dataset:
        values, energy, _ = filled(self.layout.layers, self._start, self.modes)
        steps = [record.step for record in records]
        meta = {
            "family": self.layout.family,
            "notes": notes,
            "schedule": {"kind": "log" if steps[-1] >= DECADES * max(steps[1], 1) else "every", "every": 0},
            "start": steps[0],
            "method": METHODS["cpu"],
            "saddlescope": saddlescope.__version__,
            "layers": [layer.label for layer in self.layout.layers],
            "start_norms": np.sqrt(energy),
            "lora_modules": [],
        }
        found = trajectory(meta, records)
        padding = ((0, 0),) * 3 + ((0, found.sizes["mode"] - values.shape[-1]),)
        found["start_singular_values"] = (
            ("layer", "circuit", "head", "mode"),
            np.pad(values, padding, constant_values=np.nan),
        )
        return described(found.drop_vars("loss"))


def _read(layer: AttentionLayer, read: Callable[[str], np.ndarray]) -> Weights:
    return Weights({key: read(key) for key in layer.keys})
