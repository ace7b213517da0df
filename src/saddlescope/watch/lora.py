"""LoRA as PEFT puts it into a model: which weights it changes, and the two factors of each change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from saddlescope.checkpoints.adapter import PREFIX
from saddlescope.spectra.arrays import numpy_of

MARK = ".lora_"
"""In the name of every tensor that LoRA adds."""


class Factor(NamedTuple):
    """scaling * B A, with A [rank, in] and B [out, rank] by name."""

    a: str
    b: str
    scaling: float


class AddedProducts(NamedTuple):
    """The products that are added to the weight `key`; transposed where that is stored [in, out]."""

    key: str
    factors: tuple[Factor, ...]
    transposed: bool

    @classmethod
    def read(cls, fields: Any) -> AddedProducts:
        """From the lists that JSON makes of it."""
        key, factors, transposed = fields
        return cls(key, tuple(Factor(*factor) for factor in factors), transposed)

    @property
    def module(self) -> str:
        return self.key.removeprefix(PREFIX).rpartition(".")[0].removesuffix(".base_layer")

    @property
    def names(self) -> list[str]:
        return [name for factor in self.factors for name in (factor.a, factor.b)]

    def applied(self, tensors: Mapping[str, Any], wide: Callable[[Any], Any]) -> Any:
        """The weight that the model computes with, in 64 bits."""
        weight = wide(tensors[self.key])
        for factor in self.factors:
            change = factor.scaling * (wide(tensors[factor.b]) @ wide(tensors[factor.a]))
            weight = weight + (change.swapaxes(0, 1) if self.transposed else change)
        return weight

    def product(self, tensors: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        """L [out, rank], R [in, rank] with L Rᵀ the sum of all its products."""
        left = [factor.scaling * numpy_of(tensors[factor.b]).astype(np.float64) for factor in self.factors]
        right = [numpy_of(tensors[factor.a]).astype(np.float64).T for factor in self.factors]
        return np.concatenate(left, 1), np.concatenate(right, 1)


def find_adapters(model: Any, names: Collection[str], plain: Callable[[str], str]) -> list[AddedProducts]:
    """Every linear module with active, unmerged factors, by what PEFT's modules are made of: PEFT is not imported.

    names: of all tensors.  plain: a module's name -> the same without wrappers.
    """
    found = []
    for stored, module in model.named_modules():
        name = plain(stored)
        weights = [f"{name}.base_layer.{leaf}" for leaf in ("weight", "in_proj_weight")]
        key = next((weight for weight in weights if weight in names), None)
        if key is None or not hasattr(module, "lora_A") or not hasattr(module, "scaling"):
            continue
        active = [a for a in module.active_adapters if a in module.lora_A and a not in module.merged_adapters]
        factors = tuple(
            Factor(f"{name}.lora_A.{a}.weight", f"{name}.lora_B.{a}.weight", float(module.scaling[a]))
            for a in active
            if getattr(getattr(module.lora_A[a], "weight", None), "ndim", 0) == 2
        )
        if factors:
            found.append(AddedProducts(key, factors, bool(getattr(module, "fan_in_fan_out", False))))
    return found


def adapter_notes(model: Any, adapters: Collection[AddedProducts]) -> list[str]:
    """What the factors leave out."""
    notes = []
    if adapters:
        notes.append("LoRA: heads are those of the base weights plus scaling * B A.")
    if any(len(getattr(module, "lora_magnitude_vector", ())) for module in model.modules()):
        notes.append("DoRA: its magnitudes are left out; spectra are those of W + scaling * B A before normalisation.")
    kinds = {str(getattr(config.peft_type, "value", config.peft_type)) for config in _peft_configs(model)}
    if others := sorted(kinds - {"LORA"}):
        notes.append(f"PEFT {', '.join(others)}: only LoRA is understood; what these add to the weights is left out.")
    return notes


def _peft_configs(model: Any) -> list[Any]:
    configs = getattr(model, "peft_config", None)
    return [config for config in configs.values() if hasattr(config, "peft_type")] if isinstance(configs, dict) else []
