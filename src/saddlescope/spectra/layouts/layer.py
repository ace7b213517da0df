"""What a layout is made of: layers that know which tensors they need and how to cut them into heads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from saddlescope.spectra.layouts.rules import RULES, HeadWeights, rows_first


@dataclass(frozen=True)
class AttentionLayer:
    """One attention module: query head h reads key and value head h // (heads / key_value_heads)."""

    layer: int  # 0-based, within its stack
    stack: str  # "" where the model has one stack; else "encoder", "decoder", "cross", "vision_tower", ...
    heads: int
    key_value_heads: int
    keys: tuple[str, ...]  # names as stored
    rule: str  # a name in RULES
    axes: tuple[tuple[str, ...], ...]  # what the axes of each of `keys` are
    slot: int | None = None  # where all layers lie in one tensor: this one's place on its "layer" axis

    @property
    def label(self) -> str:
        """As people and files name it: "3", or "decoder.3" where there are several stacks."""
        return f"{self.stack}.{self.layer}" if self.stack else str(self.layer)

    def split(self, tensors: Mapping[str, Any]) -> HeadWeights:
        """Per-head weights out of `tensors`, which holds at least `keys`; numpy, torch and jax arrays alike."""
        stored = [
            rows_first(tensors[key], axes, self.rule, self.slot) for key, axes in zip(self.keys, self.axes, strict=True)
        ]
        return RULES[self.rule](stored, self.heads, self.key_value_heads)


@dataclass(frozen=True)
class HeadLayout:
    """All attention layers of a model, and what their products leave out."""

    family: str  # the config's model_type; without one, the family whose names these are
    layers: tuple[AttentionLayer, ...]
    notes: tuple[str, ...]
