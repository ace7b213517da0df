"""Arrays of any library into NumPy, with the precision that they are stored in."""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

_EXPONENT = {  # bits of the exponent, as an integer of the same size
    BFLOAT16: np.uint16(0x7F80),
    np.dtype(np.float16): np.uint16(0x7C00),
    np.dtype(np.float32): np.uint32(0x7F800000),
    np.dtype(np.float64): np.uint64(0x7FF0000000000000),
}


def numpy_of(array: Any) -> np.ndarray:
    """The same numbers in the same precision. torch and jax are not imported: what is theirs has imported them."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        array = array.detach().cpu()
        if array.dtype == torch.bfloat16:
            return array.contiguous().view(torch.int16).numpy().view(BFLOAT16)
        return array.numpy()
    return np.asarray(array)


def stored_precision(dtype: np.dtype) -> bool:
    """Whether this is a float format whose rounding is known here."""
    return np.dtype(dtype) in _EXPONENT


def ulp(values: np.ndarray) -> np.ndarray:
    """Distance of neighbouring floats at each value, as float64: what storing it rounded to."""
    if values.dtype not in _EXPONENT:
        raise TypeError(f"rounding of {values.dtype} is not known; known are {', '.join(map(str, _EXPONENT))}")
    mask = _EXPONENT[values.dtype]
    about = ml_dtypes.finfo(values.dtype)
    # A float with its sign and mantissa cleared is the power of two at or below it.
    power = (np.ascontiguousarray(values).view(mask.dtype) & mask).view(values.dtype).astype(np.float64)
    return np.maximum(power, float(about.smallest_normal)) * float(about.eps)


LARGEST_WEIGHT = np.float64(np.finfo(np.float32).max)
"""Beyond it a number in 64 bits counts as not finite: no weight is as large, and squares of products would not fit."""


def grid_of(values: np.ndarray) -> np.dtype:
    """The coarsest format that holds all values: weights widened after training still lie on their old grid."""
    with np.errstate(over="ignore"):
        if values.dtype == np.float64 and np.array_equal(values.astype(np.float32), values):
            values = values.astype(np.float32)
        if values.dtype == np.float32:
            if not (np.ascontiguousarray(values).view(np.uint32) & np.uint32(0xFFFF)).any():
                return BFLOAT16
            if np.array_equal(values.astype(np.float16).astype(np.float32), values):
                return np.dtype(np.float16)
    return values.dtype


def on_grid(values: np.ndarray) -> np.ndarray:
    """The same numbers in the coarsest format that holds them all."""
    return values.astype(grid_of(values), copy=False)
