"""The LoRA that a change needs: ranks, the PEFT configuration that says so, and what it leaves out."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from saddlescope.core.errors import BadArgument
from saddlescope.core.shown import Shown

from .difference import Difference, Module
from .lora import allocate, ranks_for_energy
from .peft_names import architecture, peft_names, tied

CONV1D = re.compile(r"(^|\.)(c_attn|c_proj|c_fc|q_attn)\.weight$")
"""GPT-2 stores these as [in, out]; every other linear layer is [out, in]."""


SETTINGS = ("r", "lora_alpha", "target_modules", "rank_pattern", "alpha_pattern", "fan_in_fan_out")
"""Of the configuration, what `to_dict` repeats."""


@dataclass(frozen=True, repr=False)
class Advice(Shown):
    """The LoRA that a change needs. Prints itself in a few lines, in a notebook as a table with a picture.

    ranks: by matrix of the difference.  names: what PEFT calls each.  turned: those that GPT-2 stores as [in, out].
    parameters: of the LoRA.  residual, relative_residual: norm of all that the ranks leave out of the change, and over
    the norm of the change.  left_out: matrices that changed and get no LoRA, and why.  remarks: what the numbers do
    not show.  config: what adapter_config.json holds.  energy, budget: what was asked.
    """

    shown_by: ClassVar[str] = "saddlescope.show.of_advice"

    ranks: dict[str, int]
    names: dict[str, str]
    turned: frozenset[str]
    parameters: int
    residual: float
    relative_residual: float
    left_out: list[dict[str, str]]
    remarks: list[str]
    config: dict[str, Any]
    energy: float | None
    budget: int | None

    def to_dict(self) -> dict[str, Any]:
        return {
            **{name: self.config[name] for name in SETTINGS},
            "parameters": self.parameters,
            "residual": self.residual,
            "relative_residual": self.relative_residual,
            "energy": self.energy,
            "budget": self.budget,
            "left_out": self.left_out,
            "remarks": self.remarks,
        }


def check_wish(energy: float, budget: float | None) -> None:
    """What can be refused is refused before anything is measured."""
    if not 0 < energy <= 1:
        raise BadArgument(f"--energy must be above 0 and at most 1, got {energy}")
    if budget is not None and not 0 <= budget < 1e18:
        raise BadArgument(f"--budget must be a number of parameters, zero or more, got {budget}")
    if budget is not None and energy < 1:
        raise BadArgument(
            f"--budget {budget:g} and --energy {energy:g} exclude each other: a budget takes all it can buy"
        )


def advise(found: Difference, *, energy: float = 1.0, budget: int | None = None) -> Advice:
    """Ranks of the directions above the floor: all, those that hold a share of the energy, or the best for a budget.

    found: what `diff` gave.  budget: trainable parameters, r (m + n) for each matrix; the ranks are those of least
    summed squared error.
    """
    check_wish(energy, budget)
    chosen, left_out = _candidates(found.modules)
    above = [module.spectrum.singular_values[: module.rank_above_floor] for module in chosen]
    if budget is None:
        ranks = ranks_for_energy(above, energy)
    else:
        ranks = allocate(above, [module.parameters_per_rank for module in chosen], budget)
    wanted = {module.name: rank for module, rank in zip(chosen, ranks, strict=True) if rank}
    left_out += [
        {"name": module.name, "reason": "not within the budget"}
        for module in chosen
        if module.rank_above_floor and module.name not in wanted
    ]
    names = _names(found, wanted)
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
        remarks=_remarks(found, wanted),
        config=_config(found, {names[name]: rank for name, rank in wanted.items()}, bool(turned & set(wanted))),
        energy=None if budget is not None else energy,
        budget=budget,
    )


def _remarks(found: Difference, wanted: Mapping[str, int]) -> list[str]:
    """What the advice does not show by itself."""
    remarks = []
    config = found.config or {}
    if tied([module.name for module in found.modules], config) and any(
        module.kind == "embedding" and module.name in wanted for module in found.modules
    ):
        remarks.append(
            "the output matrix is tied to the embedding, which PEFT adapts on the way in only: the residual holds "
            "after merge_and_unload()"
        )
    coarse = [module.name for module in found.modules if module.name in wanted and module.outliers]
    if coarse:
        remarks.append(
            f"{coarse[0]} and {len(coarse) - 1} more: rows or columns of huge weights are rounded so coarsely that "
            "their errors are among the strongest directions; a LoRA of the advised rank keeps those first, and needs "
            "a higher one"
        )
    if found.adapter is None and not config:
        remarks.append("there is no config.json: names of modules are those of the file, which PEFT may know by others")
    return remarks


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


def _names(found: Difference, wanted: Mapping[str, int]) -> dict[str, str]:
    if found.adapter is not None and found.tuned is None:
        return {name: name for name in wanted}
    every = found.paths or peft_names([module.name for module in found.modules], found.config or {})
    return {name: every[name] for name in wanted}


def _config(found: Difference, ranks: Mapping[str, int], turned: bool) -> dict[str, Any]:
    # Longer names first: PEFT takes the first pattern that a name ends with.
    ordered = dict(sorted(ranks.items(), key=lambda pair: (-len(pair[0]), pair[0])))
    common = Counter(ranks.values()).most_common(1)[0][0] if ranks else 1
    given = found.adapter.config if found.adapter is not None else {}
    causal = re.search(r"(CausalLM|LMHeadModel)$", architecture(found.config or {})) is not None
    return {
        "peft_type": "LORA",
        "task_type": given.get("task_type", "CAUSAL_LM" if causal else None),
        "base_model_name_or_path": given.get("base_model_name_or_path", None if found.adapter else found.origin),
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
