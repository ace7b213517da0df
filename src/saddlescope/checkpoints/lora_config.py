"""What adapter_config.json says of the size of a LoRA update, checked."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saddlescope.checkpoints.patterns import pattern_value
from saddlescope.core.errors import BadArgument

DEFAULT = 8  # PEFT's, of both r and lora_alpha
# These start from the base's own singular vectors (or its rounding error) and change the base in exchange.
INTO_BASE = ("pissa", "olora", "corda", "loftq", "lora_ga")
VARIANTS = ("use_qalora", "use_bdlora", "kasa_config", "monteclora_config", "arrow_config", "layer_replication")


@dataclass(frozen=True)
class LoraSettings:
    r: int
    lora_alpha: float
    rank_pattern: Mapping[str, float]
    alpha_pattern: Mapping[str, float]
    rank_stabilised: bool
    transposed: bool
    dora: bool
    parameters: tuple[str, ...]
    notes: tuple[str, ...]

    def rank(self, name: str) -> float:
        return pattern_value(self.rank_pattern, name, self.r)

    def alpha(self, name: str) -> float:
        return pattern_value(self.alpha_pattern, name, self.lora_alpha)

    def targets_parameter(self, name: str) -> bool:
        """Whether the factors at `name` change a bare parameter, such as stacked experts, that lives there."""
        module = re.sub(r"(\.base_layer)+$", "", name)  # PEFT wraps a module once per parameter
        owners = (parameter.rpartition(".")[0] for parameter in self.parameters)
        return module != name or any(module == owner or module.endswith(f".{owner}") for owner in owners)


def lora_settings(path: Path | str, config: dict[str, Any]) -> LoraSettings:
    kind = config.get("peft_type")
    if kind != "LORA":
        raise BadArgument(f"{path}: `peft_type` must be 'LORA', got {str(kind)[:80]!r}: only LoRA adapters are read")
    r = number(path, "r", config.get("r", DEFAULT))
    if r < 1 or r != int(r):
        raise BadArgument(f"{path}: `r` must be a positive whole number, got {r:g}: such an adapter changes nothing")
    parameters = config.get("target_parameters") or []
    if not isinstance(parameters, list) or not all(isinstance(name, str) for name in parameters):
        raise BadArgument(f"{path}: `target_parameters` must be a list of names, got {str(parameters)[:80]!r}")
    return LoraSettings(
        r=int(r),
        lora_alpha=number(path, "lora_alpha", config.get("lora_alpha", DEFAULT)),
        rank_pattern=pattern(path, "rank_pattern", config),
        alpha_pattern=pattern(path, "alpha_pattern", config),
        rank_stabilised=flag(path, "use_rslora", config),
        transposed=flag(path, "fan_in_fan_out", config),
        dora=flag(path, "use_dora", config),
        parameters=tuple(parameters),
        notes=tuple(notes(config)),
    )


def notes(config: dict[str, Any]) -> list[str]:
    said = []
    start = str(config.get("init_lora_weights")).lower()
    if start.startswith(INTO_BASE):
        said.append(
            f"initialised by {start[:40]}: training changed the base too, so scaling*B A is not the whole change "
            "unless PEFT converted the adapter when it was saved"
        )
    said += [f"{key} is set: scaling*B A is not its whole effect" for key in VARIANTS if config.get(key)]
    return said


def number(path: Path | str, key: str, value: Any) -> float:
    try:
        if not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    except (TypeError, OverflowError):
        pass
    raise BadArgument(f"{path}: `{key}` must be a finite number, got {str(value)[:80]!r}: correct it")


def flag(path: Path | str, key: str, config: dict[str, Any]) -> bool:
    value = config.get(key)
    if value is not None and not isinstance(value, bool):
        raise BadArgument(f"{path}: `{key}` must be true or false, got {str(value)[:80]!r}: correct it")
    return bool(value)


def pattern(path: Path | str, key: str, config: dict[str, Any]) -> dict[str, float]:
    value = config.get(key) or {}
    if not isinstance(value, dict):
        raise BadArgument(f"{path}: `{key}` must map names to numbers, got {str(value)[:80]!r}: correct it")
    return {name: number(path, f"{key}[{name[:80]!r}]", entry) for name, entry in value.items()}
