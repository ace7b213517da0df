"""A .bin, .pt, .pth or .ckpt file: a pickle, of which nothing but tensors is let through."""

from __future__ import annotations

import pickle
import warnings
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ml_dtypes  # noqa: F401  (gives numpy the name "bfloat16")
import numpy as np

from saddlescope.checkpoints.tensor import DAMAGED, Tensor, checked_shape
from saddlescope.core.errors import BadArgument
from saddlescope.core.extras import needed_by

if TYPE_CHECKING:
    import torch

NESTED = ("state_dict", "model_state_dict", "model", "module")  # Lightning, plain scripts, fairseq, DeepSpeed
RESAVE = "save the weights alone, safetensors.torch.save_file(model.state_dict(), 'model.safetensors'), and give that"


class PickledFile:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._size = path.stat().st_size
        self._held = state_dict(path, load(path))
        self.tensors = {name: self._described(name, tensor) for name, tensor in self._held.items()}

    def read(self, name: str) -> np.ndarray:
        import torch

        tensor = self._held[name].detach().resolve_conj().resolve_neg()
        dtype = np.dtype(self.tensors[name].dtype)
        if dtype.isbuiltin == 1:
            return tensor.numpy()
        # bfloat16 and its kin are strangers to both sides: pass the bits as integers.
        return tensor.view({1: torch.uint8, 2: torch.int16, 4: torch.int32}[dtype.itemsize]).numpy().view(dtype)

    def rows(self, name: str, start: int, stop: int) -> np.ndarray:
        return self.read(name)[start:stop].copy()

    def _described(self, name: str, tensor: torch.Tensor) -> Tensor:
        if tensor.is_quantized:
            raise BadArgument(
                f"{self.path}: tensor {name!r} is quantised ({tensor.dtype}): compare the unquantised weights"
            )
        if str(tensor.layout) != "torch.strided" or tensor.device.type != "cpu":
            raise BadArgument(
                f"{self.path}: tensor {name!r} is {tensor.layout} on {tensor.device}, not dense numbers: {RESAVE}"
            )
        # Strides of zero let a few bytes claim to be terabytes.
        size = tensor.numel() * tensor.element_size()
        if size > max(tensor.untyped_storage().nbytes(), self._size):
            raise BadArgument(
                f"{self.path}: tensor {name!r} claims {size} bytes, more than the file holds: call .contiguous() on it "
                "before saving"
            )
        return Tensor(checked_shape(self.path, name, tuple(tensor.shape)), self._numpy_name(name, tensor))

    def _numpy_name(self, name: str, tensor: torch.Tensor) -> str:
        dtype = str(tensor.dtype).removeprefix("torch.")
        try:
            return np.dtype(dtype).name
        except TypeError as error:
            raise BadArgument(f"{self.path}: tensor {name!r} of {dtype} has no numpy form: {RESAVE}") from error


def load(path: Path) -> Any:
    """The object pickled in `path`, refused if building it would call anything but PyTorch's tensor makers."""
    with needed_by(f"reading {path}"):
        import torch
    try:
        with path.open("rb") as file:
            mapped = file.read(4) == b"PK\x03\x04"
        if mapped:
            with zipfile.ZipFile(path) as archive:
                if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                    raise BadArgument(f"{path} is a compressed archive, perhaps TorchScript: {RESAVE}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about storage classes and TorchScript, neither is the reader's concern
            # PyTorch maps only its zip format; the format before version 1.6 is read into memory.
            return torch.load(path, weights_only=True, mmap=mapped, map_location="cpu")
    except BadArgument:
        raise
    except pickle.UnpicklingError as error:
        raise BadArgument(
            f"{path} is not a plain file of tensors ({refusal(error)}). Loading the rest could run code, so nothing "
            f"was loaded: {RESAVE}"
        ) from error
    except Exception as error:  # a damaged pickle can fail in any way its opcodes can
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise BadArgument(f"{path} cannot be read as a PyTorch file ({reason}): {DAMAGED}") from error


def refusal(error: Exception) -> str:
    """The line that says what was refused, without PyTorch's advice to load it unsafely."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and "weights_only" not in line]
    telling = [line for line in lines if "GLOBAL" in line or "Unsupported" in line] or lines or ["no plain pickle"]
    return telling[0].split(". ")[0].removeprefix("WeightsUnpickler error: ").rstrip(".")[:200]


def state_dict(path: Path, found: Any, depth: int = 0) -> dict[str, torch.Tensor]:
    """The tensors by name: `found` itself, or what it holds under one of `NESTED`."""
    import torch

    if not isinstance(found, dict):
        raise BadArgument(f"{path} holds a {type(found).__name__}, not a dict of tensors: {RESAVE}")
    for key in NESTED:
        if depth < 3 and isinstance(found.get(key), dict):  # a pickle can hold itself
            return state_dict(path, found[key], depth + 1)
    for key, value in found.items():
        if isinstance(value, dict) and any(isinstance(part, torch.Tensor) for part in value.values()):
            raise BadArgument(f"{path} holds tensors under {key!r}, beside other things: {RESAVE}")
    return {name: value for name, value in found.items() if isinstance(name, str) and isinstance(value, torch.Tensor)}
