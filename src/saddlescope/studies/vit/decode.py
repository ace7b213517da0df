"""Encoded images to pixels of one shape."""

from __future__ import annotations

import math
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from saddlescope.core.errors import BadArgument
from saddlescope.core.progress import Tick

if TYPE_CHECKING:
    from PIL.Image import Image

CHUNK = 256  # images that wait in memory, encoded: many for each thread
THREADED = 96 * 96  # pixels, from which on threads pay: below, they mostly wait for each other at Python's lock
# Pillow knows many more, and hands some of them to other programs (EPS to Ghostscript): not for bytes of strangers.
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
MEMORY_MAX = 8 * 2**30
"""Bytes of pixels that are held in memory; more are mapped from a file."""

Picture = tuple[str, bytes | Path]
"""A name for errors (the file, and the row in it), and the encoded bytes or their file."""


class Part(NamedTuple):
    """What one file holds, or one folder of files."""

    where: str
    labels: np.ndarray  # int64 [n]
    pictures: Callable[[], Iterator[Picture]]  # in the order of the labels; nothing is read before it is asked for


def decode(splits: Sequence[list[Part]], size: int | None, tick: Tick) -> list[np.ndarray]:
    """The pixels uint8 [n, channels, height, width] of each split; the first image decides what is not asked for.

    Pixels are taken as stored: a rotation noted in a photograph's EXIF data is not applied.
    """
    from PIL.Image import DecompressionBombWarning

    counts = [sum(len(part.labels) for part in parts) for parts in splits]
    done, decoded = 0, []
    with warnings.catch_warnings():
        warnings.simplefilter("error", DecompressionBombWarning)  # Pillow only warns at first, and then decodes
        warnings.filterwarnings("ignore", "Palette images with Transparency")  # which is left out, as that of others
        with opened(next(pictures_of(splits[0]))) as first:  # its header alone: it is decoded when its turn comes
            channels = 1 if first.mode in ("1", "L", "LA", "La") else 3
            width, height = (size, size) if size else first.size
            threads = min(32, os.cpu_count() or 1) if first.width * first.height >= THREADED else 1
        with ThreadPoolExecutor(threads, "decode") as pool:
            for parts, count in zip(splits, counts, strict=True):
                decoded.append(pixels := empty_pixels((count, channels, height, width)))
                places, pictures = iter(pixels), pictures_of(parts)
                while chunk := list(islice(pictures, CHUNK)):
                    list((pool.map if threads > 1 else map)(partial(fill, size is not None), chunk, places))
                    done += len(chunk)
                    tick(done / sum(counts), f"{done:,} of {sum(counts):,} images decoded")
    return decoded


def pictures_of(parts: list[Part]) -> Iterator[Picture]:
    return chain.from_iterable(part.pictures() for part in parts)


def empty_pixels(shape: tuple[int, ...]) -> np.ndarray:
    """An array uint8 of `shape`, mapped from a file if it is larger than MEMORY_MAX.

    The file is in SADDLESCOPE_CACHE, or else in the folder for temporary files, which may be memory itself.
    """
    size = math.prod(shape)
    if size <= MEMORY_MAX:
        return np.empty(shape, np.uint8)
    cache = Path(os.environ.get("SADDLESCOPE_CACHE") or tempfile.gettempdir()).expanduser()
    way_out = "set SADDLESCOPE_CACHE to a folder on a larger disk, or give a smaller `image_size`"
    with naming(f"{cache} has no room for {size / 2**30:.1f} GiB of pixels", way_out):
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=cache) as file:  # without a name: it vanishes however the process ends
            if hasattr(os, "posix_fallocate"):  # a mapped file on a full disk would end the process without a word
                os.posix_fallocate(file.fileno(), 0, size)
            return np.memmap(file, np.uint8, "w+", shape=shape)


def fill(resized: bool, picture: Picture, target: np.ndarray) -> None:
    """target: [channels, height, width]."""
    from PIL.Image import Resampling

    channels, height, width = target.shape
    with opened(picture) as image:
        if image.mode.startswith(("I", "F")):  # Pillow would clip them at 255
            raise BadArgument(f"{picture[0]}: the image has values of more than 8 bits: save it with 8")
        if not resized and image.size != (width, height):
            raise BadArgument(
                f"{picture[0]}: the image is {image.width} x {image.height} (width x height), the first one is "
                f"{width} x {height}: give `image_size`, to which all are brought"
            )
        image = image.convert("L" if channels == 1 else "RGB")
        if resized:
            # Cropped before it is resized: a long thin image, its short side enlarged, would fill the memory.
            short = min(image.size)
            left, top = (image.width - short) // 2, (image.height - short) // 2
            square = image.crop((left, top, left + short, top + short))
            image = square.resize((width, height), Resampling.BILINEAR, reducing_gap=3.0)
        target[:] = np.atleast_3d(np.asarray(image)).transpose(2, 0, 1)  # from [height, width (, 3)]


@contextmanager
def opened(picture: Picture) -> Iterator[Image]:
    """The image, not yet decoded."""
    from PIL.Image import open as open_image

    name, source = picture
    file = BytesIO(source) if isinstance(source, bytes) else source
    way_out = f"replace the image or leave it out; {', '.join(FORMATS)} are read, whole"
    with naming(f"{name} cannot be read", way_out), open_image(file, formats=FORMATS) as image:
        yield image


@contextmanager
def naming(trouble: str, way_out: str = "check the path and its permissions, or get it anew") -> Iterator[None]:
    """Whatever goes wrong is told with its place: a damaged file can fail in any way that its decoder can."""
    try:
        yield
    except BadArgument:
        raise
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise BadArgument(f"{trouble} ({reason}): {way_out}") from error
