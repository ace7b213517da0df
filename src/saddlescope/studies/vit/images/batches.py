"""The original CIFAR-10 and CIFAR-100 files for Python, as unpacked from their archives."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from saddlescope.core.errors import BadArgument, unknown
from saddlescope.studies.vit.images.split import Found, Item, Part, Reader, Split
from saddlescope.studies.vit.images.unpickle import Array, unpickle

SHAPE = (3, 32, 32)


def find(folder: Path) -> Reader | None:
    inside = [folder / "cifar-10-batches-py", folder / "cifar-100-python"]
    found = [reader for path in inside if (reader := find_in(path))]
    if reader := find_in(folder):
        return reader
    if len(found) > 1:
        raise BadArgument(f"{folder} holds both {inside[0].name} and {inside[1].name}: give the one that is meant")
    return found[0] if found else None


def find_in(folder: Path) -> Reader | None:
    if (folder / "train").is_file() and (folder / "test").is_file():
        kinds = {"fine_labels": "fine_label_names", "coarse_labels": "coarse_label_names"}
        return partial(read, [folder / "train"], folder / "test", folder / "meta", kinds)
    train = [folder / f"data_batch_{number}" for number in range(1, 6)]
    files = [*train, folder / "test_batch"]
    absent = [path.name for path in files if not path.is_file()]
    if len(absent) == len(files):
        return None
    if absent:
        raise BadArgument(f"{folder} lacks {', '.join(absent)} of CIFAR-10: unpack the archive again")
    return partial(read, train, folder / "test_batch", folder / "batches.meta", {"labels": "label_names"})


def read(train: list[Path], test: Path, meta: Path, kinds: dict[str, str], labels: str | None) -> Found:
    """kinds: the label kinds of the files, the usual one first, each with the key of its class names in `meta`."""
    kind = next(iter(kinds)) if labels is None else labels
    if kind not in kinds:
        raise unknown(f"labels of {train[0].parent}", kind, kinds)
    names = load(meta).get(kinds[kind]) if meta.is_file() else None
    named = len(names) if isinstance(names, list) and names else None
    return Found(read_split("train", train, kind), read_split("test", [test], kind), named)


def read_split(name: str, paths: list[Path], kind: str) -> Split:
    pixels, parts = [], []
    for path in paths:
        batch = load(path)
        pixels.append(read_pixels(path, batch))
        parts.append(Part(str(path), read_labels(path, batch, kind)))
        if len(pixels[-1]) != len(parts[-1].labels):
            raise BadArgument(
                f"{path} holds {len(pixels[-1])} images and {len(parts[-1].labels)} labels: unpack the archive again"
            )
    return Split(name, tuple(parts), items(paths, pixels))


def items(paths: list[Path], pixels: list[np.ndarray]) -> Iterator[Item]:
    for path, images in zip(paths, pixels, strict=True):
        for row, image in enumerate(images):
            yield Item(f"{path}: row {row}", np.ascontiguousarray(image.transpose(1, 2, 0)))


def load(path: Path) -> dict[str, Any]:
    """Keys are bytes in the original files, written by Python 2, and str in those written again since."""
    found = unpickle(path)
    if not isinstance(found, dict):
        raise BadArgument(f"{path} holds a {type(found).__name__}, not the dict of a CIFAR file: unpack it again")
    return {key.decode("latin1") if isinstance(key, bytes) else str(key): found[key] for key in found if is_text(key)}


def is_text(key: object) -> bool:
    return isinstance(key, str | bytes)


def read_pixels(path: Path, batch: dict[str, Any]) -> np.ndarray:
    data = entry(path, batch, "data")
    if not isinstance(data, Array):
        raise BadArgument(f"{path}: data is a {type(data).__name__}, not an array: unpack the archive again")
    pixels = data.read(path, "data")
    if pixels.dtype != np.uint8 or pixels.ndim != 2 or pixels.shape[1] != np.prod(SHAPE):
        raise BadArgument(
            f"{path}: data is {pixels.dtype} of shape {pixels.shape}, CIFAR's is uint8 of shape (n, {np.prod(SHAPE)}): "
            "unpack the archive again"
        )
    return pixels.reshape(-1, *SHAPE)


def read_labels(path: Path, batch: dict[str, Any], kind: str) -> np.ndarray:
    labels = entry(path, batch, kind)
    if isinstance(labels, Array):
        array = labels.read(path, kind)
        if array.ndim != 1:
            raise BadArgument(f"{path}: {kind} has the shape {array.shape}, not one label per row")
        return array.astype(np.int64)
    if not isinstance(labels, list):
        raise BadArgument(f"{path}: {kind} is a {type(labels).__name__}, not a list: unpack the archive again")
    for row, label in enumerate(labels):
        if type(label) is not int or label.bit_length() > 62:
            raise BadArgument(f"{path}: row {row}: the label is a {type(label).__name__} that no class can have")
    return np.array(labels, np.int64)


def entry(path: Path, batch: dict[str, Any], key: str) -> Any:
    if key not in batch:
        keys = ", ".join(map(ascii, sorted(batch)[:20]))[:400]
        raise BadArgument(f"{path} has no {key}; its keys are {keys or 'none'}: unpack the archive again")
    return batch[key]
