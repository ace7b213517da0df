"""The 1,797 handwritten digits, 8 x 8, that come with scikit-learn: data for a machine without any."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from saddlescope.core.errors import BadArgument
from saddlescope.studies.vit.images.libraries import need
from saddlescope.studies.vit.images.split import Found, Item, Part, Reader, Split

TRAIN = 1437  # four fifths


def find() -> Reader:
    need("sklearn", "digits")
    return read


def read(labels: str | None) -> Found:
    if labels is not None:
        raise BadArgument(f"`labels` is {labels!r}, but digits have one kind of label: leave it out")
    from sklearn.datasets import load_digits

    digits: Any = load_digits()
    pixels = np.rint(digits.images * 255 / 16).astype(np.uint8)  # stored as 0..16
    # Neighbours are by the same hand: without a permutation the digits to test on would be by other hands.
    order = np.random.default_rng(0).permutation(len(pixels))
    train, test = (
        Split(name, (Part("digits", digits.target[rows].astype(np.int64)),), items(pixels[rows]))
        for name, rows in (("train", order[:TRAIN]), ("test", order[TRAIN:]))
    )
    return Found(train, test, named=10)


def items(pixels: np.ndarray) -> Iterator[Item]:
    return (Item(f"digits: image {row}", image) for row, image in enumerate(pixels))
