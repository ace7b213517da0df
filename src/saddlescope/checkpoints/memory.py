"""Weights in memory, read as a checkpoint is: a few rows at a time, so that no model is copied whole."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from saddlescope.core.errors import BadArgument

from . import held
from .adapter import listed
from .modules import config_of, heads_of_modules, is_sharded, is_tensor, plain, unwrap
from .quantised import refuse_quantised
from .tensor import Tensor
from .trees import is_array, named_arrays

GIVE = "give a path, a torch module, its state dict, or nested dictionaries of arrays"


class InMemory:
    """Named arrays in memory. Each is read when it is asked for, as it is then.

    config: what the model says of itself.  heads: of its nn.MultiheadAttention, which no config tells.  notes: on what
    was left out.  is_module: whether its names are those of a module's parts, as PEFT knows them.
    """

    where: str
    origin: str | None
    config: dict[str, Any] | None
    tensors: Mapping[str, Tensor]

    def __init__(
        self,
        where: str,
        arrays: Mapping[str, Any],
        config: Mapping[str, Any] | None = None,
        *,
        heads: int | None = None,
        notes: Sequence[str] = (),
        is_module: bool = False,
    ) -> None:
        self.where, self.heads, self.is_module = where, heads, is_module
        self.config = dict(config) if config else None
        self.origin = str((config or {}).get("_name_or_path") or "") or None
        self.notes = list(notes)
        self._arrays: dict[str, Any] = {}
        tensors: dict[str, Tensor] = {}
        odd: list[str] = []
        seen: set[Hashable] = set()
        for name, array in arrays.items():
            why, way_out = held.trouble(array)
            if why:
                raise BadArgument(f"{where}: {name!r} {why}: {way_out}")
            # Without its graph, and without asking for a gradient.
            array = array.detach() if is_tensor(array) else array
            tensor = held.described(array)
            if tensor is None:
                odd.append(name)
            elif (place := held.place(array)) not in seen:  # tied weights count once, by their first name, as in files
                seen.add(place)
                self._arrays[name], tensors[name] = array, tensor
        if odd:
            self.notes.append(f"left out of {where}, no numbers: {listed(odd)}")
        if not tensors:
            raise BadArgument(f"{where} holds no numbers: {GIVE}")
        self.tensors = MappingProxyType(tensors)
        refuse_quantised(where, self.config, tensors)

    def read(self, name: str) -> np.ndarray:
        """The whole array, in its own precision. It may be the very memory of the model."""
        return held.numbers(self._arrays[name])

    def rows(self, name: str, start: int, stop: int) -> np.ndarray:
        """Rows `start`..`stop` of the first axis; `stop` past the end means the end."""
        return held.numbers(self._arrays[name], slice(start, stop))

    def place(self, name: str) -> Hashable:
        """Equal for two arrays that are one memory."""
        return held.place(self._arrays[name])


def of_module(model: Any) -> InMemory:
    """A torch module, wrapped or not: what its own state dict holds."""
    inner = unwrap(model)
    where = f"{type(inner).__name__} in memory"
    return InMemory(
        where, tensors_of(inner, where), module_config(inner), heads=heads_of_modules(inner), is_module=True
    )


def of_tree(tree: Any) -> InMemory:
    """A state dict, or nested dictionaries, lists and the like, of arrays of torch, NumPy or jax."""
    arrays, rest = named_arrays(tree)
    if not arrays:
        raise BadArgument(f"there are no weights in a {type(tree).__name__}: {GIVE}")
    if packed := [name for name in arrays if ".lora_" in name]:
        raise BadArgument(
            f"these weights hold LoRA factors, {listed(packed)}, without the scaling that belongs to them: give the "
            "PEFT model itself, its folder, or merged weights"
        )
    flat = isinstance(tree, Mapping) and all(map(is_array, tree.values()))
    where = "state dict in memory" if flat else "weights in memory"
    return InMemory(where, arrays, notes=[f"left out of {where}, no arrays: {listed(rest)}"] if rest else [])


def tensors_of(inner: Any, where: str) -> dict[str, Any]:
    """What a module without wrappers would save, by plain name."""
    if is_sharded(inner):
        raise BadArgument(f"{where} is sharded by FSDP: {held.GATHER}")
    # Parameters themselves, which say what is the matter with them.
    stored = inner.state_dict(keep_vars=True)
    return {plain(name): tensor for name, tensor in stored.items() if is_tensor(tensor)}


def module_config(inner: Any) -> dict[str, Any]:
    """As its config.json would have it, which names the class too."""
    config = config_of(inner)
    if config and hasattr(getattr(inner, "config", None), "to_dict"):
        config["architectures"] = [type(inner).__name__]
    return config
