"""Images to batches: drawn by NumPy, so that every device and every resumed run sees the same; cut on the device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch

RESIDENT_SHARE = 0.5
"""Of a GPU's free memory that images may take; more of them stay in the computer's memory and travel batch by batch."""


class Batch(NamedTuple):
    """Where to read: `pixels` [n, C, H, W] at `index` [B], from rows `top` and columns `left` on, mirrored or not."""

    pixels: torch.Tensor
    index: torch.Tensor
    top: torch.Tensor
    left: torch.Tensor
    mirrored: torch.Tensor
    labels: torch.Tensor


class Feed:
    """The images of one split, for one of `world` processes that share each batch."""

    def __init__(
        self, pixels: np.ndarray, labels: np.ndarray, device: torch.device, augment: bool, rank: int = 0, world: int = 1
    ):
        self.pixels, self.labels, self.device = pixels, labels, device
        self.padding = max(1, pixels.shape[-1] // 8) if augment else 0
        self.augment, self.rank, self.world = augment, rank, world
        self._resident = _fits(pixels, device)
        if self._resident:
            self._pixels = torch.from_numpy(np.ascontiguousarray(pixels)).to(device)

    def epoch(self, number: int, seed: int, size: int) -> Iterator[Batch]:
        """Batches of `size` images in the order of this epoch; what is left over is left out."""
        rng = np.random.default_rng((seed, number))
        count = len(self.labels) // size * size
        order = rng.permutation(len(self.labels))[:count]
        shifts = rng.integers(-self.padding, self.padding + 1, (2, count))
        mirrored = rng.random(count) < (0.5 if self.augment else 0.0)
        for first in range(0, count, size):
            own = slice(first + self.rank, first + size, self.world)
            yield self._batch(order[own], shifts[0, own], shifts[1, own], mirrored[own])

    def plain(self, size: int, most: int) -> Iterator[Batch]:
        """The first `most` images as they are; the last batch may be smaller."""
        count = min(most, len(self.labels))
        for first in range(0, count, size):
            order = np.arange(first, min(first + size, count))
            still = np.zeros(len(order), np.int64)
            yield self._batch(order, still, still, still.astype(bool))

    def _batch(self, order: np.ndarray, top: np.ndarray, left: np.ndarray, mirrored: np.ndarray) -> Batch:
        labels = self.labels[order]
        if self._resident:
            pixels, index = self._pixels, order
        else:
            pixels, index = self._sent(self.pixels[order]), np.arange(len(order))
        return Batch(pixels, *map(self._sent, (index, top, left, mirrored, labels)))

    def _sent(self, array: np.ndarray) -> torch.Tensor:
        tensor = torch.from_numpy(np.ascontiguousarray(array))
        if self.device.type == "cuda":  # from pinned memory the copy goes on beside the training
            return tensor.pin_memory().to(self.device, non_blocking=True)
        return tensor.to(self.device)


def images_of(batch: Batch) -> torch.Tensor:
    """[B, C, H, W] as stored bytes: shifted, black where a shift uncovers nothing, mirrored."""
    pixels, index, top, left, mirrored, _ = batch
    channels, height, width = pixels.shape[1:]
    down, right = (torch.arange(side, device=pixels.device) for side in (height, width))
    rows = top[:, None] + down
    columns = left[:, None] + torch.where(mirrored[:, None], width - 1 - right, right)
    inside = ((rows >= 0) & (rows < height))[:, :, None] & ((columns >= 0) & (columns < width))[:, None, :]
    picked = pixels[
        index[:, None, None, None],
        torch.arange(channels, device=pixels.device)[None, :, None, None],
        rows.clamp(0, height - 1)[:, None, :, None],
        columns.clamp(0, width - 1)[:, None, None, :],
    ]
    return picked * inside[:, None]


def _fits(pixels: np.ndarray, device: torch.device) -> bool:
    if device.type != "cuda":
        return not isinstance(pixels, np.memmap)
    return pixels.nbytes < RESIDENT_SHARE * torch.cuda.mem_get_info(device)[0]
