"""The LoRA that a change needs: ranks, the PEFT configuration that says so, and what it leaves out."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from saddlescope.core.errors import BadArgument

from .difference import Difference, Module
from .lora import allocate, ranks_for_energy

CONV1D = re.compile(r"(^|\.)(c_attn|c_proj|c_fc|q_attn)\.weight$")
"""GPT-2 stores these as [in, out]; every other linear layer is [out, in]."""

BODIES = {
    "gpt2": "transformer",
    "gptj": "transformer",
    "gpt_neo": "transformer",
    "codegen": "transformer",
    "falcon": "transformer",
    "gpt_neox": "gpt_neox",
    "bert": "bert",
    "roberta": "roberta",
    "vit": "vit",
    "deit": "deit",
    "opt": "model",
}
"""Where a model with a head keeps its body; files of the body alone leave it out of their names."""


@dataclass(frozen=True)
class Advice:
    """ranks: by module of the difference.  names: what PEFT calls each module.  left_out: matrices that changed, and
    why.

    residual: norm of all that the ranks leave out of the matrices' change.
    """

    ranks: dict[str, int]
    names: dict[str, str]
    turned: frozenset[str]
    parameters: int
    residual: float
    relative_residual: float
    left_out: list[dict[str, str]]
    config: dict[str, Any]
    energy: float | None
    budget: int | None

    def to_dict(self) -> dict[str, Any]:
        return {
            **{
                name: self.config[name]
                for name in ("r", "lora_alpha", "target_modules", "rank_pattern", "alpha_pattern")
            },
            "fan_in_fan_out": self.config["fan_in_fan_out"],
            "parameters": self.parameters,
            "residual": self.residual,
            "relative_residual": self.relative_residual,
            "energy": self.energy,
            "budget": self.budget,
            "left_out": self.left_out,
        }


def advise(found: Difference, *, energy: float = 1.0, budget: int | None = None) -> Advice:
    """Ranks of the directions above the floor: all, those that hold a share of the energy, or the best for a budget.

    budget: trainable parameters, r (m + n) for each matrix; the ranks are those of least summed squared error.
    """
    if budget is not None and energy != 1.0:
        raise BadArgument(
            f"--budget {budget} and --energy {energy} exclude each other: a budget takes the best it can buy"
        )
    chosen, left_out = _candidates(found.modules)
    above = [module.spectrum.singular_values[: module.rank_above_floor] for module in chosen]
    if budget is None:
        ranks = ranks_for_energy(above, energy)
    else:
        ranks = allocate(above, [module.parameters_per_rank for module in chosen], budget)
    wanted = {module.name: rank for module, rank in zip(chosen, ranks, strict=True) if rank}
    names = _peft_names(found, wanted)
    turned = _turned(found.modules)
    total = sum(module.spectrum.energy for module in found.modules)
    rest = sum(module.spectrum.residual(wanted.get(module.name, 0)) ** 2 for module in found.modules)
    parameters = sum(module.parameters_per_rank * wanted.get(module.name, 0) for module in chosen)
    return Advice(
        ranks=wanted,
        names=names,
        turned=turned,
        parameters=parameters,
        residual=math.sqrt(rest),
        relative_residual=math.sqrt(rest / total) if total else 0.0,
        left_out=left_out,
        config=_config(found, {names[name]: rank for name, rank in wanted.items()}, bool(turned & set(wanted))),
        energy=None if budget is not None else energy,
        budget=budget,
    )


def _candidates(modules: Iterable[Module]) -> tuple[list[Module], list[dict[str, str]]]:
    chosen, left_out = [], []
    for module in modules:
        if not module.spectrum.energy:
            continue
        if module.kind in ("linear", "embedding"):
            chosen.append(module)
            if not module.rank_above_floor:
                left_out.append({"name": module.name, "reason": "its change is not above the rounding floor"})
        else:
            left_out.append(
                {"name": module.name, "reason": f"a LoRA changes linear layers and embeddings, no {module.kind}"}
            )
    return chosen, left_out


def _turned(modules: Iterable[Module]) -> frozenset[str]:
    modules = list(modules)
    conv1d = any(m.name.endswith("c_attn.weight") and m.shape[1] == 3 * m.shape[0] for m in modules)
    return frozenset(m.name for m in modules if conv1d and CONV1D.search(m.name))


def _peft_names(found: Difference, wanted: Mapping[str, int]) -> dict[str, str]:
    """Module paths as the model with its head has them."""
    config = found.config or {}
    body = BODIES.get(str(config.get("model_type")), "")
    architectures = config.get("architectures") or [""]
    headed = isinstance(architectures, list) and not str(architectures[0]).endswith("Model")
    bare = not any(module.name.startswith(f"{body}.") for module in found.modules)
    prefix = f"{body}." if body and bare and headed and str(architectures[0]) else ""
    return {
        name: name if found.adapter is not None and found.tuned is None else prefix + name.removesuffix(".weight")
        for name in wanted
    }


def _config(found: Difference, ranks: Mapping[str, int], turned: bool) -> dict[str, Any]:
    # Longer names first: PEFT takes the first pattern that a name ends with.
    ordered = dict(sorted(ranks.items(), key=lambda pair: (-len(pair[0]), pair[0])))
    common = Counter(ranks.values()).most_common(1)[0][0] if ranks else 1
    given = found.adapter.config if found.adapter is not None else {}
    architectures = (found.config or {}).get("architectures") or [""]
    causal = re.search(r"(CausalLM|LMHeadModel)$", str(architectures[0])) is not None
    return {
        "peft_type": "LORA",
        "task_type": given.get("task_type", "CAUSAL_LM" if causal else None),
        "base_model_name_or_path": given.get("base_model_name_or_path", None if found.adapter else found.base),
        "inference_mode": True,
        "r": common,
        # Alpha equal to the rank: the factors act as they are.
        "lora_alpha": common,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": list(ordered),
        "rank_pattern": ordered,
        "alpha_pattern": ordered,
        "fan_in_fan_out": bool(given.get("fan_in_fan_out", turned)),
        "use_rslora": False,
        "use_dora": False,
    }
