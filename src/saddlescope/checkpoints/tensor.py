"""What is known of a stored tensor before it is read, and what every file of tensors can do."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from saddlescope.core.errors import BadArgument

AXES_MAX = 64  # numpy's own limit
BYTES_MAX = 2**62
DAMAGED = "the file is damaged or incomplete, save or download it again"


class Tensor(NamedTuple):
    shape: tuple[int, ...]
    dtype: str  # numpy-style: "float32", "bfloat16", "int64"


class TensorFile(Protocol):
    """One file of tensors. Dropping the last reference to it releases the file."""

    @property
    def tensors(self) -> Mapping[str, Tensor]: ...
    def read(self, name: str) -> np.ndarray: ...
    def rows(self, name: str, start: int, stop: int) -> np.ndarray: ...


class WeightSource(Protocol):
    """The weights of a model, on disk or in memory.

    where: what to call it.  origin: the path or name that it can be loaded from, if known.  config: the content of its
    config.json, where there is one.  heads: of its attention layers, where it says so itself.  notes: on what was left
    out.  is_module: whether its names are those of a module's parts in memory, which files may not have.
    """

    where: str
    origin: str | None
    config: dict[str, Any] | None
    heads: int | None
    notes: list[str]
    is_module: bool

    @property
    def tensors(self) -> Mapping[str, Tensor]: ...
    def read(self, name: str) -> np.ndarray: ...
    def rows(self, name: str, start: int, stop: int) -> np.ndarray: ...


def checked_shape(path: Path, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """`shape`, if numpy can hold it: a tensor of no elements may still claim axes of any length."""
    if len(shape) > AXES_MAX or math.prod(size for size in shape if size) > BYTES_MAX // 16:
        raise BadArgument(f"{path}: tensor {name!r} claims the shape {shape}, which no array can have: {DAMAGED}")
    return shape
