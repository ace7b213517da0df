"""A checkpoint: named tensors in one file or many, read piece by piece."""

from __future__ import annotations

import difflib
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import Any, Self

import ml_dtypes  # noqa: F401  (gives numpy the name "bfloat16")
import numpy as np

from saddlescope.checkpoints.documents import read_object
from saddlescope.checkpoints.hub import check_link, locate
from saddlescope.checkpoints.pickled import PickledFile
from saddlescope.checkpoints.quantised import refuse_quantised
from saddlescope.checkpoints.safe import SafetensorsFile
from saddlescope.checkpoints.tensor import Tensor, TensorFile
from saddlescope.checkpoints.weight_files import PICKLES, SAFETENSORS, WeightFiles, find_weights, quantised_gguf
from saddlescope.core.errors import BadArgument, unknown

OPEN_FILES_MAX = 4


def open_checkpoint(where: str | Path) -> Checkpoint:
    """The weights at `where`: a file, a folder, or a hub name that the local Hugging Face cache holds."""
    path = locate(where)
    files = find_weights(path)
    beside = (path if path.is_dir() else path.parent) / "config.json"
    check_link(beside, beside.parent)
    config = read_object(beside) if beside.is_file() else None
    refuse_quantised(str(where), config, {})
    checkpoint = open_files(str(where), files, config)
    if all(".lora_" in name for name in checkpoint.tensors):
        raise BadArgument(f"{where} holds an adapter, not a model: open it as an adapter, or give the merged model")
    return checkpoint


def open_files(where: str, files: WeightFiles, config: dict[str, Any] | None) -> Checkpoint:
    """The checkpoint of these files, after the checks that need their headers."""
    checkpoint = Checkpoint(where, files, config)
    if not checkpoint.tensors:
        raise BadArgument(f"{where} holds no tensors: save or download it again")
    refuse_quantised(where, config, checkpoint.tensors)
    return checkpoint


class Checkpoint:
    """Named tensors on disk. `with` closes it; arrays already read stay valid."""

    where: str  # as the user gave it
    origin: str | None
    config: dict[str, Any] | None
    heads: int | None
    notes: list[str]
    is_module: bool
    tensors: Mapping[str, Tensor]  # names as stored, in stored order

    def __init__(self, where: str, files: WeightFiles, config: dict[str, Any] | None) -> None:
        self.where, self.origin, self.config = where, where, config
        self.heads, self.notes, self.is_module = None, [], False
        self._open: OrderedDict[Path, TensorFile] = OrderedDict()
        self._lock = Lock()
        self._closed = False
        self._file_of: dict[str, Path] = {}
        tensors: dict[str, Tensor] = {}
        for path in files.files:
            for name, tensor in self._opened(path).tensors.items():
                if name in tensors:
                    raise BadArgument(
                        f"tensor {name!r} is both in {self._file_of[name]} and in {path}: give the file that is meant"
                    )
                tensors[name] = tensor
                self._file_of[name] = path
        for name, path in files.promised.items():
            if self._file_of.get(name) != path:
                raise BadArgument(
                    f"{path} lacks the tensor {name!r} that the index beside it promises: the files do not belong "
                    "together, save or download them again"
                )
        self.tensors = MappingProxyType(tensors)

    def read(self, name: str) -> np.ndarray:
        """The whole tensor, dtype as stored."""
        return self._holding(name).read(name)

    def rows(self, name: str, start: int, stop: int) -> np.ndarray:
        """Rows `start`..`stop` of the first axis, a copy of only those; `stop` past the end means the end."""
        file = self._holding(name)
        shape, dtype = self.tensors[name]
        if not shape:
            raise BadArgument(f"tensor {name!r} is a single number and has no rows: use read()")
        if start < 0 or stop < start:
            raise BadArgument(f"rows of {name!r} must satisfy 0 <= start <= stop, got {start} and {stop}")
        stop = min(stop, shape[0])
        if start >= stop:
            return np.empty((0, *shape[1:]), dtype)
        return file.rows(name, start, stop)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._open.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _holding(self, name: str) -> TensorFile:
        if name not in self.tensors:
            near = difflib.get_close_matches(name, self.tensors, n=5, cutoff=0.3) or list(self.tensors)[:5]
            raise unknown(f"tensor of {self.where}", name, near)
        file = self._opened(self._file_of[name])
        if file.tensors.get(name) != self.tensors[name]:
            raise BadArgument(f"{self._file_of[name]} has changed since {self.where} was opened: open it again")
        return file

    def _opened(self, path: Path) -> TensorFile:
        """The file, open; the longest unused one is let go. Another thread may still be reading that one."""
        with self._lock:
            if self._closed:
                raise BadArgument(f"{self.where} is closed: read it inside its `with` block")
            if path not in self._open:
                self._open[path] = open_file(path)
            self._open.move_to_end(path)
            while len(self._open) > OPEN_FILES_MAX:
                self._open.popitem(last=False)
            return self._open[path]


def open_file(path: Path) -> TensorFile:
    if path.suffix in SAFETENSORS:
        return SafetensorsFile(path)
    if path.suffix in PICKLES:
        return PickledFile(path)
    if path.suffix == ".gguf":
        raise quantised_gguf(path)
    raise BadArgument(f"{path} must end in one of {', '.join(SAFETENSORS + PICKLES)}: other formats are not read")
