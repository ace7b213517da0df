"""Encoded images to pixels of one shape, on all cores where that is faster."""

from __future__ import annotations

import os
import warnings
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from io import BytesIO
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from saddlescope.core.errors import BadArgument
from saddlescope.core.progress import Tick
from saddlescope.studies.vit.images.split import Item, Split
from saddlescope.studies.vit.images.storage import empty_pixels

if TYPE_CHECKING:
    from PIL.Image import Image

CHUNK = 64  # images per task: enough that handing them out costs nothing, few enough to wait in memory
THREADED = 96 * 96  # pixels, from which on threads pay: below, they mostly wait for each other at Python's lock
SIZE_MAX = 4096
# Pillow knows many more, and hands some of them to other programs (EPS to Ghostscript): not for bytes of strangers.
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
GRAY = {"1", "L", "LA", "La", "I", "F"}
DAMAGED = f"replace it or leave it out; {', '.join(FORMATS)} are read, whole"


class Form(NamedTuple):
    """What every image becomes: the first training image decides what is not asked for."""

    channels: int
    height: int
    width: int
    resized: bool


def decode_splits(train: Split, test: Split, size: int | None, tick: Tick) -> tuple[np.ndarray, np.ndarray]:
    """The pixels uint8 [n, channels, height, width] of both splits.

    size: the centre square of each image is brought to `size` x `size`; None asks that all have one size.
    Pixels are taken as stored: a rotation noted in a photograph's EXIF data is not applied.
    """
    from PIL.Image import DecompressionBombWarning

    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= SIZE_MAX):
        raise BadArgument(f"`image_size` must be an integer from 1 to {SIZE_MAX}, or None, got {size!r}")
    counts = [sum(len(part.labels) for part in split.parts) for split in (train, test)]
    total, done, decoded = sum(counts), 0, []
    with warnings.catch_warnings():
        warnings.simplefilter("error", DecompressionBombWarning)  # Pillow only warns at first, and then decodes
        first = list(islice(train.items, 1))
        form, threads = (form_of(first[0], size), threads_for(first[0])) if first else (Form(1, 1, 1, False), 1)
        for items, count in zip((chain(first, train.items), test.items), counts, strict=True):
            pixels = empty_pixels((count, form.channels, form.height, form.width))
            for step in fill(pixels, items, form, threads):
                done += step
                tick(done / total, f"{done:,} of {total:,} images decoded")
            decoded.append(pixels)
    return decoded[0], decoded[1]


def fill(pixels: np.ndarray, items: Iterator[Item], form: Form, threads: int) -> Iterator[int]:
    """Decode `items` into `pixels`, a chunk at a time, and yield how many images each chunk had."""
    waiting: deque[Future[int]] = deque()
    pool = ThreadPoolExecutor(threads, "decode")
    try:
        start = 0
        while chunk := list(islice(items, CHUNK)):
            if start + len(chunk) <= len(pixels):
                waiting.append(pool.submit(fill_chunk, pixels[start : start + len(chunk)], chunk, form))
            start += len(chunk)
            if len(waiting) > 2 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
        if start != len(pixels):
            raise BadArgument(f"there are {len(pixels)} labels, but {start} images: the files do not belong together")
    finally:
        pool.shutdown(cancel_futures=True)


def fill_chunk(pixels: np.ndarray, items: list[Item], form: Form) -> int:
    for target, item in zip(pixels, items, strict=True):
        with opened(item) as image:
            # (height, width) or (height, width, 3) -> (channels, height, width)
            target[:] = np.atleast_3d(np.asarray(brought_to(form, image, item.name))).transpose(2, 0, 1)
    return len(items)


def form_of(first: Item, size: int | None) -> Form:
    """From the header alone: a bad image is found when its turn comes."""
    with opened(first) as image:
        channels = 1 if image.mode in GRAY or image.mode.startswith("I;16") else 3
        return Form(channels, size or image.height, size or image.width, size is not None)


def threads_for(first: Item) -> int:
    with opened(first) as image:
        return min(32, os.cpu_count() or 1) if image.width * image.height >= THREADED else 1


def brought_to(form: Form, image: Image, name: str) -> Image:
    from PIL.Image import Resampling

    if not form.resized and (image.width, image.height) != (form.width, form.height):
        raise BadArgument(
            f"{name}: the image is {image.width} x {image.height} (width x height), the first one is {form.width} x "
            f"{form.height}: give `image_size`, to which all are brought"
        )
    image = eight_bit(image, name).convert("L" if form.channels == 1 else "RGB")
    if not form.resized:
        return image
    # Cropped before it is resized: a long thin image, its short side enlarged, would fill the memory.
    short = min(image.size)
    left, top = (image.width - short) // 2, (image.height - short) // 2
    square = image.crop((left, top, left + short, top + short))
    return square.resize((form.width, form.height), Resampling.BILINEAR, reducing_gap=3.0)


def eight_bit(image: Image, name: str) -> Image:
    """The modes that Pillow's own conversion clips at 255, or warns about, brought to modes that convert well."""
    from PIL.Image import fromarray

    if image.mode == "F":
        raise BadArgument(f"{name}: the image holds floating point numbers, of unknown range: save it with 8 bits")
    if image.mode == "I" or image.mode.startswith("I;16"):
        values = np.asarray(image)
        if values.min() < 0 or values.max() >= 2**16:
            raise BadArgument(f"{name}: the image has values outside 0..65535: save it with 8 bits")
        return fromarray((values >> 8).astype(np.uint8))
    return image.convert("RGBA") if image.mode == "P" and "transparency" in image.info else image


@contextmanager
def opened(item: Item) -> Iterator[Image]:
    """The image, not yet decoded. Whatever goes wrong with it is told with its name."""
    from PIL import UnidentifiedImageError
    from PIL.Image import DecompressionBombError, DecompressionBombWarning, fromarray
    from PIL.Image import open as open_image

    try:
        if isinstance(item.image, np.ndarray):
            yield fromarray(item.image)
            return
        with open_image(BytesIO(item.image) if isinstance(item.image, bytes) else item.image, formats=FORMATS) as image:
            yield image
    except BadArgument:
        raise
    except (DecompressionBombError, DecompressionBombWarning) as error:
        raise BadArgument(
            f"{item.name}: the image claims more pixels than Pillow takes for honest ({short_reason(error)}): shrink "
            "it or leave it out"
        ) from error
    except UnidentifiedImageError as error:
        raise BadArgument(f"{item.name}: is not an image: {DAMAGED}") from error
    except Exception as error:  # a damaged image can fail in any way its decoder can
        raise BadArgument(f"{item.name}: cannot be decoded ({short_reason(error)}): {DAMAGED}") from error


def short_reason(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
