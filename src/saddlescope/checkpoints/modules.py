"""What a torch module holds and says of itself, asked without importing torch: whoever has a module has done that."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

_WRAPPING = ("DistributedDataParallel", "DataParallel", "DeepSpeedEngine", "_FabricModule")
_WORDS = ("_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module")


def is_module(thing: Any) -> bool:
    return callable(getattr(thing, "state_dict", None)) and callable(getattr(thing, "named_parameters", None))


def is_tensor(thing: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(thing, torch.Tensor)


def unwrap(model: Any) -> Any:
    """The user's own module inside of what data parallelism and torch.compile put around it."""
    while True:
        if hasattr(model, "_orig_mod"):
            model = model._orig_mod
        elif type(model).__name__ in _WRAPPING:
            model = model.module
        else:
            return model


def plain(name: str) -> str:
    """A tensor's name without the words that wrappers put into it."""
    return ".".join(word for word in name.split(".") if word not in _WORDS)


def is_sharded(model: Any) -> bool:
    """Whether FSDP holds the parameters, so that even asking for them would wait for other processes."""
    return any(type(module).__name__ == "FullyShardedDataParallel" for module in model.modules())


def unreadable(tensor: Any) -> str:
    """Why a tensor has no numbers, or not all of them; "" where it has."""
    if hasattr(tensor, "placements") and hasattr(tensor, "device_mesh"):
        return "is sharded over devices (a DTensor)"
    if hasattr(tensor, "_is_flat_param") or type(tensor).__name__ == "FlatParameter":
        return "is a flat parameter of FSDP"
    if type(tensor).__name__ in ("UninitializedParameter", "UninitializedBuffer"):
        return "has no shape yet, its lazy module has seen no batch"
    if tensor.is_meta or type(tensor).__name__ == "FakeTensor":
        return "has no storage (it is on the meta device)"
    return ""


EMPTY = "is empty, as ZeRO-3 leaves parameters that are not gathered"


def trouble(tensor: Any) -> str:
    """Why a tensor does not hold a whole weight in floating point; "" where it does."""
    if why := unreadable(tensor):
        return why
    if tensor.numel() == 0:
        return EMPTY
    if not tensor.is_floating_point():
        return f"holds {str(tensor.dtype).removeprefix('torch.')}, as quantised weights do"
    return ""


def config_of(model: Any) -> dict[str, Any]:
    """The outermost configuration that a model or a part of it carries, as config.json would hold it."""
    for module in model.modules():
        config: Any = getattr(module, "config", None)
        if hasattr(config, "to_dict"):
            return dict(config.to_dict())
        if isinstance(config, Mapping):
            return dict(config)
        if hasattr(config, "__dict__") and not isinstance(config, type):
            return dict(vars(config))
    return {}


def heads_of_modules(model: Any) -> int | None:
    """The number of heads that all nn.MultiheadAttention of a model agree on."""
    attention = sys.modules["torch"].nn.MultiheadAttention
    counts = {module.num_heads for module in model.modules() if isinstance(module, attention)}
    return counts.pop() if len(counts) == 1 else None
