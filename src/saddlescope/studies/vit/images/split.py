"""What every format is brought to before an image is decoded: labels, and the images one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from saddlescope.core.errors import BadArgument

CLASSES_MAX = 2**20
"""Far more than any data set has: a larger label is an identifier, and a classifier for it would not fit anywhere."""


class Item(NamedTuple):
    """One image: the bytes of an encoded one, its file, or uint8 pixels [height, width] or [height, width, 3]."""

    name: str  # for errors: the file, and the row in it
    image: bytes | Path | np.ndarray


class Part(NamedTuple):
    """The labels of one file, so that an error can name the file and the row."""

    where: str
    labels: np.ndarray  # int64 [n]


class Split(NamedTuple):
    name: str  # "train", or what was found to test on
    parts: tuple[Part, ...]
    items: Iterator[Item]  # in the order of the labels; nothing is read before it is asked for

    @property
    def labels(self) -> np.ndarray:
        return np.concatenate([part.labels for part in self.parts])


class Found(NamedTuple):
    train: Split
    test: Split
    named: int | None = None  # the number of classes, where the files say it


Reader = Callable[[str | None], Found]
"""Reads labels of the kind asked for (None: the format's own choice) from files that have been found."""


def count_classes(source: str, found: Found) -> int:
    """The number of classes, after a check that every label is one of them."""
    for split in (found.train, found.test):
        if not sum(len(part.labels) for part in split.parts):
            raise BadArgument(f"{source}: the {split.name} split holds no images: a study needs at least one")
        for part in split.parts:
            refuse(part, part.labels < 0, "is negative; -1 stands for a hidden label: test on a split with known ones")
            refuse(part, part.labels >= CLASSES_MAX, "is too large: number the classes from 0")
    classes = found.named or max(int(part.labels.max(initial=0)) for part in found.train.parts) + 1
    if classes > CLASSES_MAX:
        raise BadArgument(f"{source} names {classes} classes: at most {CLASSES_MAX} can be told apart")
    reason = "that the files name" if found.named else "of the training images"
    for part in (*found.train.parts, *found.test.parts):
        refuse(part, part.labels >= classes, f"is not below {classes}, the number of classes {reason}")
    return classes


def refuse(part: Part, bad: np.ndarray, reason: str) -> None:
    if bad.any():
        row = int(bad.argmax())
        raise BadArgument(f"{part.where}: row {row}: label {part.labels[row]} {reason}")
