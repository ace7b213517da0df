"""What a comparison says beside its numbers: whether the two belong together, and what limits the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from saddlescope.core.errors import BadArgument
from saddlescope.spectra.arrays import LARGEST_WEIGHT

from .adapter import listed
from .difference import Module
from .match import by_number
from .memory import InMemory
from .tensor import WeightSource


def notes_on_ends(base: WeightSource, tuned: WeightSource, names: Mapping[str, str]) -> list[str]:
    """names: of tensors in the base, and what they are called in the other."""
    notes = _notes_on_kinds(base, tuned, names)
    if isinstance(base, InMemory) and isinstance(tuned, InMemory):
        notes += _notes_on_sharing(base, tuned, names)
    return notes + _notes_on_names(base, tuned, names)


def _notes_on_kinds(base: WeightSource, tuned: WeightSource, names: Mapping[str, str]) -> list[str]:
    """Whether the two are one model at all."""
    if base.where == tuned.where:
        return ["BASE and TUNED are the same place"]
    kinds = [(checkpoint.config or {}).get("model_type") for checkpoint in (base, tuned)]
    if None in kinds or kinds[0] == kinds[1]:
        return []
    if any(name != partner for name, partner in names.items()):
        raise BadArgument(
            f"{base.where} is a {kinds[0]} and {tuned.where} a {kinds[1]}, with other names: they are different models"
        )
    return [f"{base.where} is a {kinds[0]} and {tuned.where} a {kinds[1]}: is one the fine-tune of the other?"]


def _notes_on_sharing(base: InMemory, tuned: InMemory, names: Mapping[str, str]) -> list[str]:
    """Whether the two are one memory: training changes a model in place."""
    floats = [name for name in names if "float" in base.tensors[name].dtype]
    shared = [name for name in floats if base.place(name) == tuned.place(names[name])]
    if shared and len(shared) == len(floats):
        raise BadArgument(
            "both ends are the same weights in memory, since training changes a model in place: keep a copy before it, "
            "base = copy.deepcopy(model), or give the folder that the model was loaded from"
        )
    if not shared:
        return []
    return [
        f"{len(shared)} of {len(floats)} tensors are one memory at both ends, which cannot differ: {listed(shared)}"
    ]


def _notes_on_names(base: WeightSource, tuned: WeightSource, names: Mapping[str, str]) -> list[str]:
    notes = []
    partners = set(names.values())
    for checkpoint, missing in (
        (base, [name for name in base.tensors if name not in names]),
        (tuned, [name for name in tuned.tensors if name not in partners]),
    ):
        missing.sort(key=by_number)
        if missing:
            note = f"only in {checkpoint.where}: {listed(missing)}"
            if missing == ["lm_head.weight"]:  # its absence from one end says nothing
                note += " (an output matrix that is tied to the embedding is stored once)"
            notes.append(note)
    renamed = next(((a, b) for a, b in names.items() if a != b), None)
    if renamed:
        notes.append(f"names differ: {renamed[0]} is {renamed[1]} in {tuned.where}")
    return notes


def notes_on_rounding(modules: Sequence[Module], exact_base: bool) -> list[str]:
    notes = []
    stored = [module for module in modules if module.dtype != module.grids[0] == module.grids[1]]
    if stored:
        notes.append(
            f"{len(stored)} matrices are stored wider than they are: their numbers lie on the {stored[0].grids[0]} "
            "grid, whose rounding is taken"
        )
    finer = [m for m in modules if m.grids[0] != m.grids[1] and "32" in m.grids[1]]
    if finer and not exact_base:
        notes.append(
            f"the base is stored in {finer[0].grids[0]}, the tuned in {finer[0].grids[1]}: if training started from "
            "the stored base, --exact-base (exact_base=True) lowers the floor to the tuned end's rounding"
        )
    still = [module for module in modules if module.unchanged_inside > 0.5]
    if still:
        notes.append(
            f"{listed(module.name for module in still)}: in rows and columns that did change most entries did not, as "
            "where changes below one unit in the last place are rounded away; what is left underestimates the rank"
        )
    frozen = sum(module.unchanged == 1 for module in modules)
    if frozen:
        notes.append(f"{frozen} of {len(modules)} matrices did not change")
    return notes


def notes_on_vectors(base: WeightSource, tuned: WeightSource, names: Mapping[str, str]) -> list[str]:
    changed, most = 0, 0.0
    for key, partner in names.items():
        shape, dtype = base.tensors[key]
        if len(shape) != 1 or "float" not in dtype or tuned.tensors[partner].shape != shape:
            continue
        before, after = base.read(key).astype(np.float64), tuned.read(partner).astype(np.float64)
        for where, values in ((base, before), (tuned, after)):
            if not (np.abs(values) <= LARGEST_WEIGHT).all():
                raise BadArgument(f"{key} of {where.where} holds numbers that are not finite")
        size, move = float(np.linalg.norm(before)), float(np.linalg.norm(after - before))
        changed += move > 0
        most = max(most, move / size if size else 0.0)
    if not changed:
        return []
    by = f"by {most:.2g} of their norm at most"
    return [f"{changed} vectors (biases, gains of norms) changed too, {by}; a LoRA holds none"]
