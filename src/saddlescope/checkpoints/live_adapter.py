"""A model that PEFT has put a LoRA into: its own weights without it, and the adapter, each as if from a folder."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any

from saddlescope.core.errors import BadArgument

from .adapter import PREFIX, Adapter, adapter_of
from .lora_config import lora_settings
from .memory import InMemory, module_config, tensors_of
from .modules import heads_of_modules, is_module, unwrap

OF_ADAPTER = re.compile(r"\.(?:lora_\w+|modules_to_save)\.(?P<adapter>[^.]+)")
MERGE = "copy.deepcopy(model).merge_and_unload()"


def carries_adapter(thing: Any) -> bool:
    """Whether layers of a module are PEFT's, around those that it had; unloading may leave the configuration behind."""
    if not is_module(thing) or not getattr(inner := unwrap(thing), "peft_config", None):
        return False
    return any(hasattr(part, "base_layer") for part in inner.modules())


def own_weights(model: Any) -> InMemory:
    """The weights under the adapter, by the names that they had before PEFT came."""
    inner = unwrap(model)
    base = inner.get_base_model() if hasattr(inner, "get_base_model") else inner
    where = f"{type(base).__name__} in memory"
    tensors = {
        re.sub(r"(\.base_layer)+\.|\.original_module\.", ".", name.removeprefix(PREFIX)): tensor
        for name, tensor in tensors_of(inner, where).items()
        if not OF_ADAPTER.search(name)
    }
    return InMemory(where, tensors, module_config(base), heads=heads_of_modules(base), is_module=True)


def adapter_in(model: Any) -> Adapter:
    """The active adapter of a model; refused if it is more than one, or already part of the weights."""
    inner = unwrap(model)
    layers = [part for part in inner.modules() if hasattr(part, "lora_A") and hasattr(part, "active_adapters")]
    name = type(inner).__name__
    if merged := sorted({one for layer in layers for one in layer.merged_adapters}):
        raise BadArgument(
            f"{name}: the adapter {merged[0]!r} is merged into the weights: call unmerge_adapter() before, or give "
            f"{MERGE} and the base"
        )
    active = sorted({one for layer in layers for one in layer.active_adapters if one in inner.peft_config})
    if len(active) > 1:
        raise BadArgument(
            f"{name} has several active adapters ({', '.join(active)}): choose one by set_adapter(), or give {MERGE} "
            "and the base"
        )
    chosen = active[0] if active else next(iter(inner.peft_config))
    where = f"adapter {chosen!r} of {name}"
    config = {key: _plain(value) for key, value in inner.peft_config[chosen].to_dict().items()}
    settings = lora_settings(where, config)
    tensors = {
        key: tensor
        for key, tensor in tensors_of(inner, where).items()
        if (found := OF_ADAPTER.search(key)) and found["adapter"] == chosen
    }
    return adapter_of(InMemory(where, tensors, is_module=True), config, settings, where)


def _plain(value: Any) -> Any:
    """As adapter_config.json has it."""
    if isinstance(value, Enum):
        return value.value
    return sorted(value) if isinstance(value, set | frozenset) else value
