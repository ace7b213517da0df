"""One array in memory, of torch, NumPy or jax: what it is, where it lies, and its numbers, a few rows at a time."""

from __future__ import annotations

import re
import sys
from collections.abc import Hashable
from typing import Any

import numpy as np

from saddlescope.spectra.arrays import numpy_of

from .modules import EMPTY, is_tensor, unreadable
from .tensor import Tensor

GATHER = (
    "gather it first. Under ZeRO-3 compare inside deepspeed.zero.GatheredParameters(model.parameters()); under FSDP "
    "give, instead of the model, get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, "
    "cpu_offload=True))"
)
LOAD = "load its weights, without offloading them, or give the folder that holds them"

NUMBERS = re.compile(r"(b?float|u?int|complex|bool).*")


def trouble(array: Any) -> tuple[str, str]:
    """Why an array cannot be read, and the way out; two empty words where it can."""
    return _trouble_of_tensor(array) if is_tensor(array) else _trouble_of_array(array)


def _trouble_of_tensor(tensor: Any) -> tuple[str, str]:
    if why := unreadable(tensor):
        return why, GATHER if "FSDP" in why or "DTensor" in why else LOAD
    if tensor.is_floating_point() and tuple(tensor.shape) == (0,):
        return EMPTY, GATHER
    if hasattr(tensor, "__tensor_flatten__"):
        return f"is a {type(tensor).__name__}, whose numbers are packed", "compare the plain, unquantised weights"
    if tensor.is_quantized:
        return f"is quantised ({tensor.dtype})", "compare the unquantised weights"
    if str(tensor.layout) != "torch.strided":
        return f"is {str(tensor.layout).removeprefix('torch.')}", "give it as .to_dense()"
    return "", ""


def _trouble_of_array(array: Any) -> tuple[str, str]:
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(array, jax.Array):
        if isinstance(array, jax.core.Tracer):
            return "is being traced", "compare outside of jit, grad and vmap"
        if array.is_deleted():
            return (
                "is gone, it was donated to a later computation",
                "keep a copy before that, jax.tree.map(jax.numpy.copy, params)",
            )
        if not array.is_fully_addressable:
            return (
                "is sharded over several processes",
                "gather it, for example by jax.experimental.multihost_utils.process_allgather",
            )
    elif not hasattr(array, "__array__"):
        return f"is a {type(array).__name__}, a shape without numbers", LOAD
    return "", ""


def described(array: Any) -> Tensor | None:
    """Shape and dtype as numpy would name it; None of what holds no numbers."""
    name = getattr(array.dtype, "name", str(array.dtype).removeprefix("torch."))
    return Tensor(tuple(map(int, array.shape)), name) if NUMBERS.fullmatch(name) else None


def place(array: Any) -> Hashable:
    """Equal for two arrays that are one memory."""
    if 0 in array.shape:
        return object()
    if is_tensor(array):
        strides = tuple(array.element_size() * step for step in array.stride())
        return array.device.type, array.device.index, array.data_ptr(), tuple(array.shape), strides
    if isinstance(array, np.ndarray):
        return "cpu", None, array.__array_interface__["data"][0], array.shape, array.strides
    return id(array)


def numbers(array: Any, rows: slice = slice(None)) -> np.ndarray:
    """In the array's own precision. Nothing is copied on the CPU; of another device's memory, the rows alone are."""
    if is_tensor(array):
        return numpy_of((array[rows] if array.ndim else array).resolve_neg())
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(array, jax.Array) and any(device.platform != "cpu" for device in array.devices()):
        # jax would keep, beside an array, what it once gave as a whole to NumPy.
        return np.asarray(array[rows] if rows.stop is not None else jax.numpy.copy(array))
    found = np.asarray(array)
    found = found[rows] if found.ndim else found
    return found.astype(found.dtype.newbyteorder("="), copy=False)
