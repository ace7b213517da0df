"""One measurement: the singular values of every head's change since the start."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from saddlescope.core.threads import one_thread
from saddlescope.spectra.arrays import numpy_of
from saddlescope.spectra.factored import norm, spectrum
from saddlescope.spectra.heads import CIRCUITS, changed_spectra, circuits, few_heads, widened
from saddlescope.spectra.layouts import AttentionLayer, HeadWeights
from saddlescope.spectra.ranks import entropy_rank, stable_rank

from .lora import AddedProducts

DIVERGED = "diverged"

METHODS = {"cpu": "QR, float64", "model": "Gram matrices, float64: values to 1e-6 of a head's largest"}
"""What each device computes by, with its accuracy."""

Wide = Callable[[Any], Any]
"""A stored array -> the same in 64 bits, as an array of the library and on the device that will compute."""


class Weights(NamedTuple):
    """tensors: by name, in the precision they have.  adapters: what LoRA adds to them."""

    tensors: Mapping[str, Any]
    adapters: Sequence[AddedProducts] = ()


class Measurement(NamedTuple):
    """Arrays over [layer, circuit, head]; what a layer does not have is NaN.

    energy: sum of all squares, entropy_rank: of all values, where `singular_values` [..., mode] keeps the largest.
    lora_singular_values: [module, mode].
    """

    singular_values: np.ndarray
    energy: np.ndarray
    entropy_rank: np.ndarray
    lora_singular_values: np.ndarray
    note: str = ""

    def scalars(self, start_norms: np.ndarray) -> dict[str, float]:
        """Means over all heads, for a curve in a logger; empty where nothing could be measured."""
        there = np.isfinite(self.energy) & np.isfinite(start_norms)
        if not there.any():
            return {}
        ranks = stable_rank(np.nan_to_num(self.singular_values), np.nan_to_num(self.energy))
        moved = there & (start_norms > 0)
        relative = np.sqrt(self.energy[moved]) / start_norms[moved]
        found = {f"stable_rank_{name.lower()}": ranks[:, i][there[:, i]] for i, name in enumerate(CIRCUITS)}
        return {
            name: float(values.mean()) for name, values in {**found, "relative_change": relative}.items() if len(values)
        }


def wide_numpy(array: Any) -> np.ndarray:
    return numpy_of(array).astype(np.float64)


def head_weights(layer: AttentionLayer, weights: Weights, wide: Wide) -> HeadWeights:
    """One layer's heads, adapters included; in 64 bits where there are any, else as stored."""
    adapters = {adapter.key: adapter for adapter in weights.adapters}
    stored = {
        key: adapters[key].applied(weights.tensors, wide) if key in adapters else weights.tensors[key]
        for key in layer.keys
    }
    return layer.split(stored)


def changed(layer: AttentionLayer, start: Weights, now: Weights, wide: Wide) -> list[np.ndarray] | None:
    """Singular values [head, mode] of each circuit's change; None where weights are not finite."""
    parts: list[list[np.ndarray]] = [[] for _ in CIRCUITS]
    for few in few_heads(head_weights(layer, start, wide), head_weights(layer, now, wide)):
        before, after = (HeadWeights(*map(wide, weights)) for weights in few)
        if not all(math.isfinite(float(abs(array).max())) for array in after):
            return None
        for part, values in zip(parts, changed_spectra(before, after).values(), strict=True):
            part.append(np.asarray(numpy_of(values), np.float64))
    return [np.concatenate(part) for part in parts]


@one_thread()
def measure(
    layers: Sequence[AttentionLayer], start: Weights, now: Weights, modes: int, wide: Wide = wide_numpy
) -> Measurement:
    """Layer by layer: NumPy arrays by QR, to the last digits; others by Gram matrices, on their device."""
    spectra = [changed(layer, start, now, wide) for layer in layers]
    factored = lora_spectra(now)
    diverged = any(both is None for both in spectra)
    diverged |= bool(now.adapters) and not np.isfinite(factored[:, 0]).all()
    return Measurement(*filled(layers, spectra, modes), factored, DIVERGED if diverged else "")


def filled(
    layers: Sequence[AttentionLayer], spectra: Sequence[list[np.ndarray] | None], modes: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The largest singular values [layer, circuit, head, mode], the sums of all squares, and the entropy ranks.

    spectra: for each layer, [head, mode] of each circuit; None where it has none.
    """
    shape = (len(layers), len(CIRCUITS), max(layer.heads for layer in layers))
    kept = min(modes, max((array.shape[-1] for both in spectra for array in both or ()), default=1))
    values, energy, entropy = np.full((*shape, kept), np.nan), np.full(shape, np.nan), np.full(shape, np.nan)
    for place, both in enumerate(spectra):
        for number, full in enumerate(both or ()):
            top = full[:, :kept]
            values[place, number, : len(top), : top.shape[1]] = top
            energy[place, number, : len(top)] = (full**2).sum(-1)
            entropy[place, number, : len(top)] = entropy_rank(full)
    return values, energy, entropy


def of_products(find: Callable[[Any, Any], np.ndarray], layer: AttentionLayer, weights: Weights) -> list[np.ndarray]:
    """What `find` says of every head's product, circuit by circuit."""
    parts = [circuits(widened(few)) for (few,) in few_heads(head_weights(layer, weights, wide_numpy))]
    return [np.concatenate([find(*part[name]) for part in parts]) for name in CIRCUITS]


@one_thread()
def start_norms(layers: Sequence[AttentionLayer], start: Weights) -> np.ndarray:
    """Frobenius norms of the products that the run began with, [layer, circuit, head]."""
    norms = np.full((len(layers), len(CIRCUITS), max(layer.heads for layer in layers)), np.nan)
    for place, layer in enumerate(layers):
        norms[place, :, : layer.heads] = of_products(norm, layer, start)
    return norms


def lora_spectra(weights: Weights) -> np.ndarray:
    """Singular values of what each adapter adds to its module, [module, mode]."""
    spectra = []
    for adapter in weights.adapters:
        left, right = adapter.product(weights.tensors)
        finite = np.isfinite(left).all() and np.isfinite(right).all()
        spectra.append(spectrum(left, right) if finite else np.full(left.shape[1], np.nan))
    values = np.full((len(spectra), max(map(len, spectra), default=0)), np.nan)
    for row, found in zip(values, spectra, strict=True):
        row[: len(found)] = found
    return values
