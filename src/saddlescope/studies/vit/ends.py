"""What a training began with and what it made of it: the spectra of both ends, in full."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch

from saddlescope.spectra.factored import change_factors, gram_spectrum, spectrum
from saddlescope.spectra.heads import CIRCUITS, circuits, random_change, widened
from saddlescope.spectra.layouts import HeadWeights, find_layout
from saddlescope.spectra.ranks import stable_rank

DRAWS = 4
"""Random changes that are averaged: with each head's own norms their stable ranks differ by a few percent."""


class Ends(NamedTuple):
    """Singular values [layer, circuit, head, mode] of the products at the start and at the end, and of the change.

    random_stable_rank: of the change that random changes of the weights, of the same norms, would make.
    """

    start: np.ndarray
    end: np.ndarray
    change: np.ndarray
    random_stable_rank: np.ndarray


def heads_of(weights: Mapping[str, torch.Tensor], heads: int) -> list[HeadWeights]:
    """Every layer's heads, on the CPU and in 64 bits."""
    shapes = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    layout = find_layout(shapes, mapping={"heads": heads})
    tensors = {key: weights[key].detach().cpu() for layer in layout.layers for key in layer.keys}
    return [widened(layer.split(tensors)) for layer in layout.layers]


def compare_ends(start: list[HeadWeights], end: list[HeadWeights]) -> Ends:
    rng = np.random.default_rng(0)
    found: dict[str, list[list[np.ndarray]]] = {name: [] for name in Ends._fields}
    for before, after in zip(start, end, strict=True):
        old, young = circuits(before), circuits(after)
        found["start"].append([spectrum(*old[name]) for name in CIRCUITS])
        found["end"].append([spectrum(*young[name]) for name in CIRCUITS])
        found["change"].append([spectrum(*change_factors(*old[name], *young[name])) for name in CIRCUITS])
        chance = []
        for _ in range(DRAWS):
            drawn = circuits(HeadWeights(*(random_change(a, b, rng) for a, b in zip(before, after, strict=True))))
            chance.append([stable_rank(gram_spectrum(*change_factors(*old[name], *drawn[name]))) for name in CIRCUITS])
        found["random_stable_rank"].append(list(np.mean(chance, 0)))
    return Ends(*(np.array(found[name]) for name in Ends._fields))
