"""Parquet files in the layout of the Hugging Face hub: train*.parquet and test*.parquet, images as encoded bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from saddlescope.core.errors import BadArgument, unknown
from saddlescope.studies.vit.images.decode import CHUNK, short_reason
from saddlescope.studies.vit.images.libraries import need
from saddlescope.studies.vit.images.split import Found, Item, Part, Reader, Split

if TYPE_CHECKING:
    from pyarrow import ChunkedArray, Schema
    from pyarrow.parquet import ParquetFile

TEST = ("test", "validation", "val")
IMAGES = ("img", "image")
LABELS = ("label", "labels", "fine_label")


def find(folder: Path) -> Reader | None:
    holding = holders(folder)
    if not holding:
        return None
    if len(holding) > 1:
        names = ", ".join(str(path) for path in holding)
        raise BadArgument(f"{folder} holds several data sets ({names}): give the one that is meant")
    train = shards(holding[0], "train")
    if not train:
        raise BadArgument(f"{holding[0]} has no train*.parquet: download the training split too")
    for name in TEST:
        if test := shards(holding[0], name):
            need("pyarrow", train[0])
            return partial(read, train, name, test)
    looked = ", ".join(f"{name}*.parquet" for name in TEST)
    raise BadArgument(f"{holding[0]} has train*.parquet but nothing to test on: looked for {looked}")


def holders(folder: Path) -> list[Path]:
    """The folder itself if it holds a split, else its data/, else those of its other folders that do."""
    if holds_split(folder):
        return [folder]
    if holds_split(folder / "data"):
        return [folder / "data"]
    return [path for path in sorted(folder.iterdir()) if path.is_dir() and holds_split(path)]


def holds_split(folder: Path) -> bool:
    return any(path.is_file() for name in ("train", *TEST) for path in folder.glob(f"{name}*.parquet"))


def shards(folder: Path, name: str) -> list[Path]:
    """The files of a split by name. Names like train-00000-of-00005 say how many there should be."""
    paths = sorted(path for path in folder.glob(f"{name}*.parquet") if path.is_file())
    for path in paths:
        promised = re.search(r"-of-(\d{1,6})\b", path.stem)
        if promised and len(paths) != int(promised[1]):
            raise BadArgument(
                f"{folder} holds {len(paths)} files {name}*.parquet, but {path.name} is one of {int(promised[1])}: "
                "download those that are missing, or remove those of another version"
            )
    return paths


def read(train: list[Path], name: str, test: list[Path], labels: str | None) -> Found:
    with opened(train[0]) as file:
        schema = file.schema_arrow
        column = label_column(train[0], schema, labels)
        named = named_classes(schema, column)
    train_parts, test_parts = (
        tuple(Part(str(path), read_labels(path, column)) for path in paths) for paths in (train, test)
    )
    return Found(
        Split("train", train_parts, read_images(train, train_parts)),
        Split(name, test_parts, read_images(test, test_parts)),
        named,
    )


@contextmanager
def opened(path: Path) -> Iterator[ParquetFile]:
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path, page_checksum_verification=True) as file:
            yield file
    except BadArgument:
        raise
    except Exception as error:  # a damaged file can fail in any way its encodings can
        raise BadArgument(
            f"{path} cannot be read as Parquet ({short_reason(error)}): the file is damaged or incomplete, download "
            "it again"
        ) from error


def label_column(path: Path, schema: Schema, labels: str | None) -> str:
    if labels is None:
        return pick(path, schema, "labels", LABELS)
    if labels not in schema.names:
        raise unknown(f"column of {path}", labels, schema.names)
    return labels


def pick(path: Path, schema: Schema, kind: str, names: Sequence[str]) -> str:
    for name in names:
        if name in schema.names:
            return name
    raise BadArgument(
        f"{path} has no column of {kind}, {' or '.join(names)}; its columns are {', '.join(schema.names) or 'none'}: "
        "rename the one that is meant" + (", or name it as `labels`" if kind == "labels" else "")
    )


def named_classes(schema: Schema, column: str) -> int | None:
    """How many classes the hub's own description of the column names, if it is there and makes sense."""
    try:
        feature: Any = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"][column]
        count = len(feature["names"]) if isinstance(feature.get("names"), list) else feature["num_classes"]
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return None
    return count if type(count) is int and count > 0 else None


def read_labels(path: Path, column: str) -> np.ndarray:
    from pyarrow import int64
    from pyarrow.types import is_integer

    with opened(path) as file:
        schema = file.schema_arrow
        image_column(path, schema)  # a file of another kind is told as such before its labels are complained about
        if column not in schema.names:
            raise BadArgument(
                f"{path} has no column {column}, unlike the first file; its columns are {', '.join(schema.names)}"
            )
        if not is_integer(kind := schema.field(column).type):
            raise BadArgument(f"{path}: column {column} holds {kind}, labels must be integers: 0, 1, ... per class")
        labels: ChunkedArray = file.read(columns=[column]).column(column)
        if labels.null_count:
            row = int(labels.is_null().to_numpy().argmax())
            raise BadArgument(f"{path}: row {row}: the label is null: give it one or leave the row out")
        return labels.cast(int64()).to_numpy()


def read_images(paths: list[Path], parts: tuple[Part, ...]) -> Iterator[Item]:
    for path, part in zip(paths, parts, strict=True):
        with opened(path) as file:
            column, data, origin = image_column(path, file.schema_arrow)
            row = 0
            for batch in file.iter_batches(CHUNK, columns=[column]):
                fields = batch.column(column).flatten()  # unlike .field(), it knows of rows that are null as a whole
                for index, encoded in enumerate(fields[data].to_pylist()):
                    if encoded is None:
                        raise no_bytes(f"{path}: row {row}", fields[origin][index].as_py() if origin >= 0 else None)
                    yield Item(f"{path}: row {row}", encoded)
                    row += 1
            if row != len(part.labels):
                raise BadArgument(f"{path} has {len(part.labels)} labels, but {row} images: download it again")


def image_column(path: Path, schema: Schema) -> tuple[str, int, int]:
    """The column's name, and the places of `bytes` and `path` in it; -1 for a `path` that is not there."""
    from pyarrow.types import is_binary, is_large_binary, is_struct

    column = pick(path, schema, "images", IMAGES)
    kind = schema.field(column).type
    place = kind.get_field_index("bytes") if is_struct(kind) else -1
    if place < 0 or not (is_binary(kind.field(place).type) or is_large_binary(kind.field(place).type)):
        raise BadArgument(
            f"{path}: column {column} holds {str(kind)[:200]}, images must be struct<bytes: binary, path: string> "
            "with encoded bytes, as the `datasets` library writes an Image"
        )
    return column, place, kind.get_field_index("path")


def no_bytes(where: str, origin: object) -> BadArgument:
    if isinstance(origin, str) and origin:
        return BadArgument(
            f"{where}: the image has no bytes, only the path {origin[:200]!r}: only embedded bytes are read, save the "
            "data set with its images embedded"
        )
    return BadArgument(f"{where}: the image is null, without bytes or path: leave the row out")
