"""Images and their classes: scikit-learn's digits, Parquet files as on the Hugging Face hub, or a folder per class."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from saddlescope.core.errors import BadArgument
from saddlescope.core.progress import Tick, silent

from .decode import Part, Picture, decode, naming

SPLITS = (("train",), ("test", "validation", "val"))
"""What the files or the folder of each split may be called; the first that is there counts."""

FORMS = (
    "looked for train*.parquet and test*.parquet as on the Hugging Face hub, or image files in train/CLASS/ and "
    "test/CLASS/ (test may be validation or val too)"
)
IMAGES = ("img", "image")
LABELS = ("label", "labels", "fine_label")
ROWS = 64  # of a Parquet file that are in memory at once
SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm", ".pbm")
DIGITS = 1437  # to train on: four fifths
CLASSES_MAX = 2**20
"""Far more than any data set has: a larger label is an identifier, and a classifier for it would not fit anywhere."""


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
        train, test = ([read(path, labels) for path in paths] for paths in find(source))
    train_labels = labels_of(train, CLASSES_MAX)
    classes = 1 + int(train_labels.max())
    test_labels = labels_of(test, classes)
    train_pixels, test_pixels = decode((train, test), size, tick)
    return Images(train_pixels, train_labels, test_pixels, test_labels, classes, source)


def missing(source: str) -> str:
    """Empty if the data can be found, else the reason and the way out. Nothing is decoded."""
    try:
        if source != "digits":
            find(source)
    except BadArgument as error:
        return str(error)
    return ""


def find(source: str) -> list[list[Path]]:
    """What to train and what to test on in the folder of `source`, or else in the one folder in it that holds any."""
    with naming(f"{source} cannot be read"):
        folder = locate(source)
        for places in ([folder], sorted(path for path in folder.iterdir() if path.is_dir())):
            found = {place.name: splits for place in places if (splits := held(place))}
            if len(found) == 1:
                return found.popitem()[1]
            if found:
                names = ", ".join(found)[:400]
                raise BadArgument(f"{folder} holds several data sets ({names}): give the one that is meant")
    raise BadArgument(
        f"{folder} holds no images: {FORMS}. CIFAR's own pickled batches are not read, since a pickle can run code: "
        "take its Parquet files, or save its images in folders"
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


def held(folder: Path) -> list[list[Path]] | None:
    """Of each split the Parquet files, or else the folder; None where neither split has any."""
    for ending in ("*.parquet", "/"):
        found = [matching(folder, names, ending) for names in SPLITS]
        if all(found):
            return found
        if any(found):
            raise BadArgument(f"{folder} has nothing to {'test' if found[0] else 'train'} on: {FORMS}")
    return None


def matching(folder: Path, names: Sequence[str], ending: str) -> list[Path]:
    """Names like train-00000-of-00005 say how many files there should be."""
    for name in names:
        paths = sorted(path for path in folder.glob(name + ending) if path.is_dir() == (ending == "/"))
        if wrong := {int(said) for path in paths for said in re.findall(r"-of-(\d{1,6})\b", path.name)} - {len(paths)}:
            raise BadArgument(
                f"{folder} holds {len(paths)} files {name}{ending}, and by their names there should be {max(wrong)}: "
                "get those that are missing, or remove those of another version"
            )
        if paths:
            return paths
    return []


def read(path: Path, labels: str | None) -> Part:
    """labels: of the kind asked for; None: the usual one."""
    with naming(f"{path} cannot be read"):
        return read_folder(path, labels) if path.is_dir() else read_parquet(path, labels)


def read_parquet(path: Path, labels: str | None) -> Part:
    from pyarrow import int64
    from pyarrow.parquet import ParquetFile
    from pyarrow.types import is_integer

    with ParquetFile(path, page_checksum_verification=True) as file:
        images = pick(path, file.schema_arrow.names, IMAGES)
        named = pick(path, file.schema_arrow.names, LABELS if labels is None else (labels,))
        column = file.read(columns=[named]).column(0)
        if column.null_count or not is_integer(column.type):
            raise BadArgument(
                f"{path}: column {named} holds {str(column.type)[:200]} and {column.null_count} nulls: labels must be "
                "integers, 0, 1, ... per class, in every row"
            )
        numbers = column.cast(int64()).to_numpy()
    return Part(str(path), numbers, lambda: parquet_pictures(path, images, len(numbers)))


def parquet_pictures(path: Path, column: str, count: int) -> Iterator[Picture]:
    from pyarrow.parquet import ParquetFile

    with naming(f"{path} cannot be read"), ParquetFile(path, page_checksum_verification=True) as file:
        batches = (batch.column(0).to_pylist() for batch in file.iter_batches(ROWS, columns=[column]))
        for row, value in zip(range(count), chain.from_iterable(batches), strict=True):
            encoded = value.get("bytes") if isinstance(value, dict) else None
            if not isinstance(encoded, bytes):
                raise BadArgument(
                    f"{path}: row {row}: column {column} holds no encoded image: it must be struct<bytes: binary, "
                    "path: string> as the `datasets` library writes an Image, the bytes embedded"
                )
            yield f"{path}: row {row}", encoded


def pick(path: Path, columns: Sequence[str], names: Sequence[str]) -> str:
    for name in names:
        if name in columns:
            return name
    raise BadArgument(
        f"{path} has no column {' or '.join(names)}; its columns are {', '.join(columns)[:400] or 'none'}: rename the "
        "one that is meant, or name that of the labels as `labels`"
    )


def read_folder(split: Path, labels: str | None) -> Part:
    """split: holds a folder per class, whose numbers are those of the names in train/, sorted."""
    refuse_kinds(labels)
    classes = class_names(split.parent / "train")
    if strange := set(class_names(split)) - set(classes):
        raise BadArgument(f"{split / min(strange)} is a class that train/ lacks: its images could never be told apart")
    files = [
        (label, path)
        for label, name in enumerate(classes)
        for path in sorted((split / name).glob("[!.]*"))  # macOS leaves ._name.jpg beside name.jpg
        if path.suffix.lower() in SUFFIXES
    ]
    numbers = np.array([label for label, _ in files], np.int64)
    return Part(str(split), numbers, lambda: ((str(path), path) for _, path in files))


def class_names(split: Path) -> list[str]:
    return sorted(path.name for path in split.glob("[!.]*") if path.is_dir())


def read_digits(labels: str | None) -> list[list[Part]]:
    """The 1,797 handwritten digits, 8 x 8, that come with scikit-learn: data for a machine without any."""
    from sklearn.datasets import load_digits

    refuse_kinds(labels)
    digits: Any = load_digits()
    pixels = np.rint(digits.images * 255 / 16).astype(np.uint8)  # stored as 0..16
    encoded = [("digits", b"P5 8 8 255\n" + image.tobytes()) for image in pixels]  # the file format PGM
    # Neighbours are by the same hand: without a permutation the digits to test on would be by other hands.
    order = np.random.default_rng(0).permutation(len(pixels))
    return [
        [Part("digits", digits.target[some].astype(np.int64), lambda some=some: (encoded[row] for row in some))]
        for some in (order[:DIGITS], order[DIGITS:])
    ]


def refuse_kinds(labels: str | None) -> None:
    if labels is not None:
        raise BadArgument(f"`labels` is {labels!r}, but digits and image folders have one kind of label: leave it out")


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
