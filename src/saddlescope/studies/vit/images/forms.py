"""Parquet files as on the Hugging Face hub, image files in folders, and scikit-learn's digits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from saddlescope.core.errors import BadArgument
from saddlescope.studies.vit.images.decode import Part, Picture, naming, part_of_arrays

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

IMAGES = ("img", "image")
LABELS = ("label", "labels", "fine_label")
ROWS = 64  # of a Parquet file that are in memory at once
SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm", ".pbm")
DIGITS = 1437  # to train on: four fifths


def read_parquet(path: Path, labels: str | None) -> Part:
    from pyarrow import int64
    from pyarrow.types import is_integer

    with opened(path) as file:
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


def pick(path: Path, columns: Sequence[str], names: Sequence[str]) -> str:
    for name in names:
        if name in columns:
            return name
    raise BadArgument(
        f"{path} has no column {' or '.join(names)}; its columns are {', '.join(columns)[:400] or 'none'}: rename the "
        "one that is meant, or name that of the labels as `labels`"
    )


def parquet_pictures(path: Path, column: str, count: int) -> Iterator[Picture]:
    with opened(path) as file:
        batches = (batch.column(0).to_pylist() for batch in file.iter_batches(ROWS, columns=[column]))
        for row, value in zip(range(count), chain.from_iterable(batches), strict=True):
            encoded = value.get("bytes") if isinstance(value, dict) else None
            if not isinstance(encoded, bytes):
                raise BadArgument(
                    f"{path}: row {row}: column {column} holds no encoded image: it must be struct<bytes: binary, "
                    "path: string> as the `datasets` library writes an Image, the bytes embedded"
                )
            yield f"{path}: row {row}", encoded


@contextmanager
def opened(path: Path) -> Iterator[ParquetFile]:
    from pyarrow.parquet import ParquetFile

    way_out = "check its permissions, or download it again"
    with naming(str(path), way_out), ParquetFile(path, page_checksum_verification=True) as file:
        yield file


def read_folder(split: Path, labels: str | None) -> Part:
    """split: holds a folder per class, whose numbers are those of the names in train/, sorted."""
    refuse_kinds("image folders", labels)
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


def read_digits(labels: str | None) -> tuple[list[Part], list[Part]]:
    """The 1,797 handwritten digits, 8 x 8, that come with scikit-learn: data for a machine without any."""
    from sklearn.datasets import load_digits

    refuse_kinds("digits", labels)
    digits: Any = load_digits()
    pixels = np.rint(digits.images * 255 / 16).astype(np.uint8)  # stored as 0..16
    # Neighbours are by the same hand: without a permutation the digits to test on would be by other hands.
    order = np.random.default_rng(0).permutation(len(pixels))
    parts = [part_of_arrays("digits", digits.target[some], pixels[some]) for some in (order[:DIGITS], order[DIGITS:])]
    return parts[:1], parts[1:]


def refuse_kinds(where: str, labels: str | None) -> None:
    if labels is not None:
        raise BadArgument(f"`labels` is {labels!r}, but {where} have one kind of label: leave it out")
