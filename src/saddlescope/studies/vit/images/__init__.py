"""Images and their classes, from the forms in which data sets are found."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from saddlescope.core.errors import BadArgument
from saddlescope.core.progress import Tick, silent
from saddlescope.studies.vit.images.cifar import read_cifar
from saddlescope.studies.vit.images.decode import Part, decode_splits, naming
from saddlescope.studies.vit.images.forms import read_digits, read_folder, read_parquet

__all__ = ["Images", "load_images", "missing"]

CLASSES_MAX = 2**20
"""Far more than any data set has: a larger label is an identifier, and a classifier for it would not fit anywhere."""


Reader = Callable[[Path, str | None], Part]
"""Labels of the kind asked for (None: the usual one) and images of one file."""

Found = tuple[Reader, list[Path], list[Path]]
"""The files to train and to test on, and what reads them."""


class Form(NamedTuple):
    read: Reader
    train: tuple[str, ...]  # patterns, of which the first that is there counts; those of folders end in a slash
    test: tuple[str, ...]

    def __str__(self) -> str:
        return f"{' or '.join(self.train)}, with {' or '.join(self.test)}"


FORMS = (
    Form(read_parquet, ("train*.parquet",), ("test*.parquet", "validation*.parquet", "val*.parquet")),
    Form(read_cifar, ("data_batch_[1-5]", "train"), ("test_batch", "test")),
    Form(read_folder, ("train/",), ("test/", "val/", "validation/")),
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
    if source == "digits":
        train, test = read_digits(labels)
    else:
        read, *splits = find(source)
        train, test = ([read(path, labels) for path in paths] for paths in splits)
    train_labels = labels_of(train, CLASSES_MAX)
    classes = 1 + int(train_labels.max())
    test_labels = labels_of(test, classes)
    train_pixels, test_pixels = decode_splits((train, test), size, tick)
    return Images(train_pixels, train_labels, test_pixels, test_labels, classes, source)


def missing(source: str) -> str:
    """Empty if the data can be found, else the reason and the way out. Nothing is decoded."""
    try:
        if source != "digits":
            find(source)
    except BadArgument as error:
        return str(error)
    return ""


def find(source: str) -> Found:
    """What the folder of `source` holds, or else the one folder in it that holds any."""
    with naming(source, "check the path and its permissions"):
        folder = locate(source)
        if here := held(folder):
            return here
        inside = {path: found for path in sorted(folder.iterdir()) if path.is_dir() and (found := held(path))}
    if len(inside) == 1:
        return inside.popitem()[1]
    if inside:
        names = ", ".join(map(str, inside))
        raise BadArgument(f"{folder} holds several data sets ({names}): give the one that is meant")
    raise BadArgument(
        f"{folder} holds no images as Parquet, as CIFAR's Python files or in a folder for each class: looked for "
        + "; ".join(map(str, FORMS))
    )


def locate(source: str) -> Path:
    """The folder meant by `source`. A bare name is looked up in the data folder before the current one."""
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


def held(folder: Path) -> Found | None:
    for form in FORMS:
        train, test = (matching(folder, patterns) for patterns in (form.train, form.test))
        if train and test:
            return form.read, train, test
        if train or test:
            raise BadArgument(f"{folder} has nothing to {'test' if train else 'train'} on: looked for {form}")
    return None


def matching(folder: Path, patterns: tuple[str, ...]) -> list[Path]:
    """Names like train-00000-of-00005 say how many files there should be; CIFAR-10 has five batches."""
    for pattern in patterns:
        paths = sorted(path for path in folder.glob(pattern) if path.is_dir() == pattern.endswith("/"))
        for path in paths:
            said = re.search(r"-of-(\d{1,6})\b", path.stem)
            count = int(said[1]) if said else 5 if path.name.startswith("data_batch_") else len(paths)
            if len(paths) != count:
                raise BadArgument(
                    f"{folder} holds {len(paths)} files {pattern}, but {path.name} is one of {count}: get those that "
                    "are missing, or remove those of another version"
                )
        if paths:
            return paths
    return []


def labels_of(parts: list[Part], classes: int) -> np.ndarray:
    """Of all files of a split, after a check that each is below `classes`."""
    for part in parts:
        bad = (part.labels < 0) | (part.labels >= classes)
        if bad.any():
            row = int(bad.argmax())
            raise BadArgument(
                f"{part.where}: row {row}: label {part.labels[row]} is none of 0 to {classes - 1}: number classes from "
                "0, and test on those that are trained (-1 is a hidden label: take another split)"
            )
    labels = np.concatenate([part.labels for part in parts])
    if not len(labels):
        raise BadArgument(f"{parts[0].where} holds no images: a study needs at least one to train and one to test on")
    return labels
