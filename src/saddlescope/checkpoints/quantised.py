"""Quantised weights are refused by the name of the method: their differences are mostly rounding."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from saddlescope.checkpoints.tensor import Tensor
from saddlescope.core.errors import BadArgument

METHODS = {"gptq": "GPTQ", "awq": "AWQ", "hqq": "HQQ", "fp8": "FP8", "mxfp4": "MXFP4"}
MARKS = {
    "absmax": "bitsandbytes (4 bit)",
    "quant_map": "bitsandbytes (4 bit)",
    "SCB": "bitsandbytes (8 bit)",
    "g_idx": "GPTQ",
    "qweight": "GPTQ or AWQ",
    "qzeros": "GPTQ or AWQ",
    "weight_packed": "compressed-tensors",
    "W_q": "HQQ",
}
NARROW_FLOAT = re.compile(r"float[1-8](\D.*)?")
# GPT-2 kept its causal mask as uint8 `attn.bias`.
BUFFER = re.compile(r".*(bias|mask|ids|index|indices)", re.IGNORECASE)


def refuse_quantised(where: str, config: dict[str, Any] | None, tensors: Mapping[str, Tensor]) -> None:
    method = declared(where, config) or marked(tensors)
    if method:
        raise BadArgument(f"{where} is quantised by {method}: compare the unquantised weights")
    for name, tensor in tensors.items():
        if NARROW_FLOAT.fullmatch(tensor.dtype) or is_narrow_weight(name, tensor):
            raise BadArgument(
                f"{where} is quantised: tensor {name!r} is stored as {tensor.dtype}; compare the unquantised weights"
            )


def declared(where: str, config: dict[str, Any] | None) -> str | None:
    """The method that config.json declares, with its bits."""
    settings = (config or {}).get("quantization_config")
    if not settings:
        return None
    if not isinstance(settings, dict):
        raise BadArgument(
            f"{where}: `quantization_config` in config.json must be an object, got {str(settings)[:80]!r}"
        )
    bits = settings.get("bits", settings.get("w_bit"))
    if settings.get("load_in_4bit") or settings.get("_load_in_4bit"):
        bits = 4
    elif settings.get("load_in_8bit") or settings.get("_load_in_8bit"):
        bits = 8
    loads_narrow = any(str(key).endswith(("load_in_4bit", "load_in_8bit")) for key in settings)
    method = str(settings.get("quant_method") or ("bitsandbytes" if loads_narrow else "an unnamed method"))[:80]
    return METHODS.get(method, method) + (f" ({bits} bit)" if isinstance(bits, int) else "")


def marked(tensors: Mapping[str, Tensor]) -> str | None:
    """The method that the tensors' names give away."""
    endings = {name.rpartition(".")[2] for name in tensors}
    return next((method for ending, method in MARKS.items() if ending in endings), None)


def is_narrow_weight(name: str, tensor: Tensor) -> bool:
    buffer = BUFFER.fullmatch(name.rpartition(".")[2])
    return tensor.dtype in {"int8", "uint8"} and len(tensor.shape) > 1 and not buffer
