"""How much of what was learned lies in the first directions of each matrix's change: what a LoRA could hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch

ATTENTION = (".attn.qkv.weight", ".attn.proj.weight")
"""The matrices of a block's attention; the fused one is one matrix, as it is to a LoRA."""

Weights = Mapping[str, torch.Tensor]


class Judgement(NamedTuple):
    loss: float
    test_loss: float
    test_accuracy: float


class Kept(NamedTuple):
    """What the network does when each matrix's change is cut down to `ranks` directions; the last rank is all."""

    ranks: np.ndarray
    loss: np.ndarray
    test_loss: np.ndarray
    test_accuracy: np.ndarray


def ranks_up_to(full: int) -> list[int]:
    """0, 1, 2, 4, ..., and `full`."""
    return [0, *(1 << power for power in range(full.bit_length()) if 1 << power < full), full]


def keep_directions(start: Weights, end: Weights, names: Sequence[str], judge: Callable[[Weights], Judgement]) -> Kept:
    """What is not among `names` has its trained value throughout."""
    ranks = ranks_up_to(max(min(end[name].shape) for name in names))
    directions = directions_of(start, end, names)
    found = [judge({**end, **cut(start, end, directions, dict.fromkeys(names, rank))}) for rank in ranks]
    return Kept(np.array(ranks), *(np.array(values) for values in zip(*found, strict=True)))


def directions_of(start: Weights, end: Weights, names: Sequence[str]) -> dict[str, torch.Tensor]:
    """Right singular vectors of each matrix's change."""
    return {name: _directions(end[name] - start[name]) for name in names}


def cut(start: Weights, end: Weights, directions: Weights, ranks: Mapping[str, int]) -> dict[str, torch.Tensor]:
    """The matrices of `ranks`, each with so many directions of its change."""
    found = {}
    for name, rank in ranks.items():
        kept = directions[name][:, :rank]
        # All directions are the weights themselves, to the last digit.
        whole = rank >= min(end[name].shape)
        found[name] = end[name] if whole else start[name] + (end[name] - start[name]) @ kept @ kept.mT
    return found


def _directions(change: torch.Tensor) -> torch.Tensor:
    """Right singular vectors, that of the largest value first.

    From the Gram matrix in 64 bits: an SVD takes seconds on a GPU, and vectors that this way mix have values within
    1e-8 of the largest of each other.
    """
    wide = change.double()
    return torch.linalg.eigh(wide.mT @ wide)[1].flip(-1).to(change.dtype)


def named(weights: Weights, endings: Sequence[str]) -> list[str]:
    return [name for name in weights if name.endswith(tuple(endings))]
