"""Where decoded pixels are kept: in memory, or in a file where they would not fit."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np

from saddlescope.core.errors import BadArgument

MEMORY_MAX = 8 * 2**30
"""Bytes of pixels that are held in memory; more are mapped from a file."""


def empty_pixels(shape: tuple[int, ...]) -> np.ndarray:
    """An array uint8 of `shape`, mapped from a file under SADDLESCOPE_CACHE if it is larger than MEMORY_MAX.

    Without SADDLESCOPE_CACHE the file is in the folder for temporary files, which on some systems is memory itself.
    """
    size = math.prod(shape)
    if size <= MEMORY_MAX:
        return np.empty(shape, np.uint8)
    cache = Path(os.environ.get("SADDLESCOPE_CACHE") or tempfile.gettempdir()).expanduser()
    cache.mkdir(parents=True, exist_ok=True)
    # A mapped file on a full disk ends the process without a word: ask before.
    free = shutil.disk_usage(cache).free
    if size > free:
        raise BadArgument(
            f"{cache} has {free / 2**30:.1f} GiB free and the pixels need {size / 2**30:.1f}: set SADDLESCOPE_CACHE "
            "to a folder on a larger disk, or give a smaller `image_size`"
        )
    folder = tempfile.mkdtemp(prefix="saddlescope-", dir=cache)
    try:
        mapped = np.lib.format.open_memmap(Path(folder, "pixels.npy"), "w+", np.uint8, shape)
        if hasattr(os, "posix_fallocate"):  # else another file may take the space that was free
            with Path(folder, "pixels.npy").open("r+b") as file:
                os.posix_fallocate(file.fileno(), 0, Path(folder, "pixels.npy").stat().st_size)
        return mapped
    finally:
        # The mapping outlives the name: nothing is left on the disk, however the process ends. Windows keeps the file.
        shutil.rmtree(folder, ignore_errors=True)
