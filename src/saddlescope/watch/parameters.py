"""The tensors of a torch model under names that no wrapper changes, and why some of them cannot be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from saddlescope.checkpoints.modules import plain
from saddlescope.core.errors import BadArgument

GATHER = (
    "Gather first: under ZeRO-3 construct the watch and call `step` inside "
    "deepspeed.zero.GatheredParameters(model.parameters()); under FSDP pass the full tensors by name, as "
    "state=get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True)), to the "
    "constructor and to `step`."
)


def numberless(name: str) -> str:
    """A name that all layers share."""
    return ".".join("*" if word.isdigit() else word for word in name.split("."))


def tensors_of(model: Any, state: Mapping[str, Any] | None = None) -> dict[str, torch.Tensor]:
    """By plain name; `state` instead of the model's own where these are sharded."""
    stored = model.named_parameters(remove_duplicate=False) if state is None else state.items()
    return {plain(name): tensor.detach() for name, tensor in stored if isinstance(tensor, torch.Tensor)}


def refusal(name: str, tensor: torch.Tensor, why: str) -> BadArgument:
    if tensor.is_meta:
        way_out = "Materialise the model (load its weights, or model.to_empty and initialise) before watching it."
    elif not tensor.is_floating_point():
        way_out = "Load the model in floating point to watch its heads."
    else:
        way_out = GATHER
    return BadArgument(f"heads cannot be read: parameter {name!r} of shape {tuple(tensor.shape)} {why}. {way_out}")


def leads() -> bool:
    """Whether this process is the one that writes."""
    distributed = torch.distributed
    return not (distributed.is_available() and distributed.is_initialized() and distributed.get_rank() != 0)
