"""Image files in one folder per class: train/<class>/*.jpg, and the same under test, val or validation."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from saddlescope.core.errors import BadArgument
from saddlescope.studies.vit.images.split import Found, Item, Part, Reader, Split

SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm", ".pbm"}
TEST = ("test", "val", "validation")


def find(folder: Path) -> Reader | None:
    there = [name for name in ("train", *TEST) if (folder / name).is_dir()]
    if not there:
        return None
    if there[0] != "train":
        raise BadArgument(f"{folder} has {there[0]}/ but no train/: put the training images in train/<class>/")
    if len(there) < 2:
        raise BadArgument(f"{folder} has train/ but none of {', '.join(TEST)}: put images to test on in test/<class>/")
    return partial(read, folder / "train", folder / there[1])


def read(train: Path, test: Path, labels: str | None) -> Found:
    if labels is not None:
        raise BadArgument(f"`labels` is {labels!r}, but image folders have one kind of label: leave it out")
    classes = class_names(train)
    for name in class_names(test):
        if name not in classes:
            raise BadArgument(f"{test / name} is a class that {train} lacks: its images could never be told apart")
    return Found(read_split(train, classes), read_split(test, classes), named=len(classes))


def class_names(split: Path) -> list[str]:
    names = sorted(path.name for path in split.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not names:
        raise BadArgument(f"{split} has no folders: put the images of each class in {split}/<class>/")
    return names


def read_split(split: Path, classes: list[str]) -> Split:
    files = [(path, label) for label, name in enumerate(classes) for path in image_files(split / name)]
    if not files:
        raise BadArgument(
            f"{split} holds no images: looked for {split}/<class>/* ending in {', '.join(sorted(SUFFIXES))}"
        )
    numbers = np.array([label for _, label in files], np.int64)
    return Split(split.name, (Part(str(split), numbers),), (Item(str(path), path) for path, _ in files))


def image_files(folder: Path) -> list[Path]:
    """Hidden files are none: macOS leaves ._name.jpg beside name.jpg."""
    if not folder.is_dir():  # a class of which there is nothing to test on
        return []
    return sorted(
        path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and not path.name.startswith(".")
    )
