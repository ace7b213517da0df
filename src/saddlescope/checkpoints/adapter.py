"""A LoRA adapter as PEFT stores it: which modules it changes, and the two factors of each change."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from saddlescope.checkpoints.documents import read_object
from saddlescope.checkpoints.hub import check_link, locate
from saddlescope.checkpoints.lora_config import LoraSettings, lora_settings
from saddlescope.checkpoints.match import by_number
from saddlescope.checkpoints.read import open_files
from saddlescope.checkpoints.tensor import WeightSource
from saddlescope.checkpoints.weight_files import WeightFiles
from saddlescope.core.errors import BadArgument

CONFIG = "adapter_config.json"
WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
PREFIX = "base_model.model."
# The name of the adapter ("default") is there only if the state dict was saved without PEFT.
FACTOR = re.compile(r"(?P<module>.+?)\.lora_(?P<side>[AB])(\.[^.]+)?\.weight")
EMBEDDING_FACTOR = re.compile(r"(?P<module>.+?)\.lora_embedding_(?P<side>[AB])(\.[^.]+)?")
MAGNITUDE = re.compile(r"(?P<module>.+?)\.lora_magnitude_vector(\..*)?")


@dataclass(frozen=True)
class AdapterModule:
    """One changed module: its weight moves by `scaling` * B A, transposed if `transposed`.

    `transposed` is what the config says, for embeddings always true. PEFT keeps one such flag for a whole model, so
    where a model mixes GPT-2's Conv1D with linear layers only the shape of the base's weight can tell.
    """

    name: str  # in the base model: "model.layers.0.self_attn.q_proj"
    a_key: str
    b_key: str
    rank: int
    scaling: float
    embedding: bool
    transposed: bool
    dora: bool


@dataclass
class Adapter:
    where: str
    config: dict[str, Any]
    modules: tuple[AdapterModule, ...]
    notes: tuple[str, ...]
    weights: WeightSource = field(repr=False)

    def factors(self, module: AdapterModule) -> tuple[np.ndarray, np.ndarray]:
        """A (rank, in) and B (out, rank), as stored."""
        return self.weights.read(module.a_key), self.weights.read(module.b_key)


def is_adapter(where: str | Path) -> bool:
    """Whether `where` is a folder (or a cached hub name) with an adapter_config.json, or weights beside one."""
    try:
        return (adapter_folder(where) / CONFIG).is_file()
    except (BadArgument, OSError):
        return False


def open_adapter(where: str | Path) -> Adapter:
    folder = adapter_folder(where)
    described = folder / CONFIG
    if not described.is_file():
        raise BadArgument(f"{where} has no {CONFIG}: give the folder that PEFT's save_pretrained wrote")
    check_link(described, folder)
    config = read_object(described)
    settings = lora_settings(described, config)
    file = next((folder / name for name in WEIGHTS if (folder / name).is_file()), None)
    if file is None:
        raise BadArgument(f"{folder} has an {CONFIG} but neither {' nor '.join(WEIGHTS)}: save or download it again")
    check_link(file, folder)
    weights = open_files(str(where), WeightFiles((file,), {}), None)
    return adapter_of(weights, config, settings, str(file))


def adapter_of(weights: WeightSource, config: dict[str, Any], settings: LoraSettings, holder: str) -> Adapter:
    """The adapter whose factors `weights` has, in a file or in memory.  holder: what an error blames."""
    pairs, magnitudes, rest = sorted_keys(weights)
    modules, notes = [], list(settings.notes)
    apart: list[str] = []
    for (name, embedding), sides in pairs.items():
        if settings.targets_parameter(name) or any(len(weights.tensors[key].shape) > 2 for key in sides.values()):
            apart.append(name)
            continue
        modules.append(adapter_module(weights, settings, name, embedding, sides, name in magnitudes))
    if not pairs:
        raise BadArgument(f"{holder} holds no LoRA factors (its first tensor is {next(iter(weights.tensors))!r})")
    if apart:
        notes.append(f"left out, their change is not one product of two matrices: {listed(apart)}")
    if any(module.dora for module in modules):
        notes.append("DoRA: the spectrum is that of scaling*B A, before DoRA's normalisation")
    wrong = [module for module in modules if module.rank != settings.rank(module.name)]
    if wrong:
        said = ", ".join(f"{module.name} has rank {module.rank}" for module in wrong[:3])
        notes.append(f"{CONFIG} gives another rank than the tensors of {len(wrong)} modules, which were used: {said}")
    biases = [key for key in rest if re.search(r"\.lora_B(\..*)?\.bias$", key)]
    if biases:
        notes.append(f"lora_bias: left out, a bias has no spectrum: {listed(biases)}")
    known = set(biases)
    others = [key for key in rest if key not in known]
    if others:
        notes.append(f"left out, saved whole beside the factors (modules_to_save and the like): {listed(others)}")
    modules.sort(key=lambda module: by_number(module.name))
    return Adapter(weights.where, config, tuple(modules), tuple(notes), weights)


def adapter_folder(where: str | Path) -> Path:
    path = locate(where)
    return path.parent if path.name in WEIGHTS and path.is_file() else path


def sorted_keys(weights: WeightSource) -> tuple[dict[tuple[str, bool], dict[str, str]], set[str], list[str]]:
    """The keys of each module's A and B, the modules with a DoRA magnitude, and the keys of everything else."""
    pairs: dict[tuple[str, bool], dict[str, str]] = {}
    magnitudes, rest = set(), []
    for key in weights.tensors:
        if match := FACTOR.fullmatch(key) or EMBEDDING_FACTOR.fullmatch(key):
            name = match["module"].removeprefix(PREFIX)
            sides = pairs.setdefault((name, match.re is EMBEDDING_FACTOR), {})
            if match["side"] in sides:
                raise BadArgument(
                    f"{weights.where}: module {name!r} has two factors {match['side']}, {sides[match['side']]!r} and "
                    f"{key!r}: save one adapter at a time"
                )
            sides[match["side"]] = key
        elif match := MAGNITUDE.fullmatch(key):
            magnitudes.add(match["module"].removeprefix(PREFIX))
        else:
            rest.append(key)
    return pairs, magnitudes, rest


def adapter_module(
    weights: WeightSource, settings: LoraSettings, name: str, embedding: bool, sides: Mapping[str, str], dora: bool
) -> AdapterModule:
    where = f"{weights.where}: module {name!r}"
    if len(sides) < 2:
        missing = "B" if "A" in sides else "A"
        raise BadArgument(f"{where} has no factor {missing}: the adapter is incomplete, save or download it again")
    a, b = weights.tensors[sides["A"]], weights.tensors[sides["B"]]
    for side, tensor in (("A", a), ("B", b)):
        if "float" not in tensor.dtype:
            raise BadArgument(f"{where}: factor {side} must hold real numbers, got {tensor.dtype}")
    if len(a.shape) != 2 or len(b.shape) != 2 or a.shape[0] != b.shape[1]:
        raise BadArgument(
            f"{where}: A must be (rank, in) and B (out, rank), got {a.shape} and {b.shape}: gather sharded weights "
            "before saving the adapter"
        )
    rank = a.shape[0]
    if 0 in (*a.shape, *b.shape):
        raise BadArgument(f"{where} has factors without elements, {a.shape} and {b.shape}: it changes nothing")
    scaling = settings.alpha(name) / (math.sqrt(rank) if settings.rank_stabilised else rank)
    transposed = embedding or settings.transposed
    return AdapterModule(name, sides["A"], sides["B"], rank, scaling, embedding, transposed, dora=dora or settings.dora)


def listed(names: Iterable[str]) -> str:
    names = list(names)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
