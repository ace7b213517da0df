"""A .safetensors file: memory-mapped, so that only what is asked for is copied."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from saddlescope.checkpoints.tensor import DAMAGED, Tensor, checked_shape
from saddlescope.core.errors import BadArgument

KINDS = {"U": "uint", "I": "int", "F": "float", "BF": "bfloat", "C": "complex"}


class SafetensorsFile:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.tensors: dict[str, Tensor] = {}
        with self._named_errors():
            self._file = safe_open(str(path), framework="np")
            for name in self._file.offset_keys():
                stored = self._file.get_slice(name)
                shape = checked_shape(path, name, tuple(stored.get_shape()))
                self.tensors[name] = Tensor(shape, numpy_name(stored.get_dtype()))

    def read(self, name: str) -> np.ndarray:
        with self._named_errors():
            return self._file.get_tensor(name)

    def rows(self, name: str, start: int, stop: int) -> np.ndarray:
        with self._named_errors():
            return self._file.get_slice(name)[start:stop]

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except (SafetensorError, OSError) as error:
            raise BadArgument(f"{self.path} cannot be read as safetensors ({error}): {DAMAGED}") from error


def numpy_name(code: str) -> str:
    """The dtype `code` of the file as numpy would write it; F8_E4M3, which numpy lacks, becomes float8_e4m3."""
    return re.sub(r"^(BF|[UIFC])(?=\d)", lambda kind: KINDS[kind[0]], code).lower()
