"""The tensors of a torch model under names that no wrapper changes, and why some of them cannot be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from saddlescope.core.errors import BadArgument

_WRAPPING = ("DistributedDataParallel", "DataParallel", "DeepSpeedEngine", "_FabricModule")
_WORDS = ("_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module")

GATHER = (
    "Gather first: under ZeRO-3 construct the watch and call `step` inside "
    "deepspeed.zero.GatheredParameters(model.parameters()); under FSDP pass the full tensors by name, as "
    "state=get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True)), to the "
    "constructor and to `step`."
)


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
    return ".".join(word for word in name.split(".") if word not in _WORDS)


def numberless(name: str) -> str:
    """A name that all layers share."""
    return ".".join("*" if word.isdigit() else word for word in name.split("."))


def tensors_of(model: Any, state: Mapping[str, Any] | None = None) -> dict[str, torch.Tensor]:
    """By plain name; `state` instead of the model's own where these are sharded."""
    stored = model.named_parameters(remove_duplicate=False) if state is None else state.items()
    return {plain(name): tensor.detach() for name, tensor in stored if isinstance(tensor, torch.Tensor)}


def trouble(tensor: torch.Tensor) -> str:
    """Why a tensor does not hold a whole weight; "" where it does."""
    if hasattr(tensor, "placements") and hasattr(tensor, "device_mesh"):
        return "is sharded over devices (a DTensor)"
    if hasattr(tensor, "_is_flat_param") or type(tensor).__name__ == "FlatParameter":
        return "is a flat parameter of FSDP"
    if tensor.is_meta:
        return "has no storage (it is on the meta device)"
    if tensor.numel() == 0:
        return "is empty, as ZeRO-3 leaves parameters that are not gathered"
    if not tensor.is_floating_point():
        return f"holds {str(tensor.dtype).removeprefix('torch.')}, as quantised weights do"
    return ""


def refusal(name: str, tensor: torch.Tensor, why: str) -> BadArgument:
    if tensor.is_meta:
        way_out = "Materialise the model (load its weights, or model.to_empty and initialise) before watching it."
    elif not tensor.is_floating_point():
        way_out = "Load the model in floating point to watch its heads."
    else:
        way_out = GATHER
    return BadArgument(f"heads cannot be read: parameter {name!r} of shape {tuple(tensor.shape)} {why}. {way_out}")


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
    counts = {module.num_heads for module in model.modules() if isinstance(module, torch.nn.MultiheadAttention)}
    return counts.pop() if len(counts) == 1 else None


def leads() -> bool:
    """Whether this process is the one that writes."""
    distributed = torch.distributed
    return not (distributed.is_available() and distributed.is_initialized() and distributed.get_rank() != 0)
