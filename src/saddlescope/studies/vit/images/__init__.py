"""Images and their classes, from the formats in which data sets are found."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from saddlescope.core.errors import BadArgument
from saddlescope.core.progress import Tick, silent
from saddlescope.studies.vit.images import batches, digits, folder, parquet
from saddlescope.studies.vit.images.decode import decode_splits
from saddlescope.studies.vit.images.libraries import need
from saddlescope.studies.vit.images.split import Reader, count_classes

__all__ = ["Images", "load_images", "missing"]

FORMATS = (parquet, batches, folder)
KNOWN = (
    "train*.parquet and test*.parquet as on the Hugging Face hub, the Python files of CIFAR-10 or CIFAR-100, or "
    "image files in train/<class>/ and test/<class>/"
)


class Images(NamedTuple):
    """Pixels uint8 [n, channels, height, width]; labels int64 [n] in 0..classes-1."""

    train_pixels: np.ndarray
    train_labels: np.ndarray
    test_pixels: np.ndarray
    test_labels: np.ndarray
    classes: int
    source: str


def load_images(source: str, size: int | None = None, labels: str | None = None, tick: Tick = silent) -> Images:
    """The images of `source`, decoded: "digits", a folder, or the name of a folder under SADDLESCOPE_DATA.

    size: the centre square of each image is brought to `size` x `size`; None asks that all have one size.
    labels: which labels, where there are several kinds ("coarse_label"); None takes the usual one.
    """
    try:
        found = find(source)(labels)
        classes = count_classes(source, found)
        train, test = decode_splits(found.train, found.test, size, tick)
    except OSError as error:
        raise unreadable(source, error) from error
    return Images(train, found.train.labels, test, found.test.labels, classes, source)


def missing(source: str) -> str:
    """Empty if the data can be found, else the reason and the way out. Nothing is decoded."""
    try:
        find(source)
    except BadArgument as error:
        return str(error)
    except OSError as error:
        return str(unreadable(source, error))
    return ""


def find(source: str) -> Reader:
    need("PIL", source)
    if source == "digits":
        return digits.find()
    where = locate(source)
    for one in FORMATS:
        if reader := one.find(where):
            return reader
    raise BadArgument(f"{where} holds no images in a known format: {KNOWN}")


def locate(source: str) -> Path:
    """The folder meant by `source`. A bare name is looked up in the data folder before the current one."""
    if not source or "\0" in source:
        raise BadArgument(f'`source` must be "digits", a folder or a name under SADDLESCOPE_DATA, got {source!r}')
    path = Path(source).expanduser()
    data = Path(os.environ.get("SADDLESCOPE_DATA") or "data").expanduser()
    bare = path.name == source != ".."
    places = [data / source, path] if bare else [path]
    for place in places:
        if place.is_dir():
            return place
        if place.is_file():
            raise BadArgument(f"{place} is a file: give the folder that holds it, archives unpacked")
    looked = " and ".join(str(place.absolute()) for place in places)
    raise BadArgument(
        f"there is no data set {source!r}: looked for {looked}. Give the path of its folder, or set SADDLESCOPE_DATA "
        'to the folder that holds it; "digits" needs no files'
    )


def unreadable(source: str, error: OSError) -> BadArgument:
    return BadArgument(f"{source} cannot be read ({error}): check the path and its permissions")
