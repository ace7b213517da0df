"""Writes the LoRA adapter that an advice describes, in the form that PEFT loads."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from saddlescope.core.errors import BadArgument
from saddlescope.core.files import let_others_read, named, partial_name
from saddlescope.core.progress import Tick, silent
from saddlescope.core.threads import threads_for
from saddlescope.spectra.factored import spectrum
from saddlescope.spectra.matrix import MatrixChange
from saddlescope.spectra.product import ProductChange
from saddlescope.spectra.top import Triplets

from .adapter import PREFIX
from .advice import Advice
from .difference import Difference

SAME = 1e-5
"""Up to which share the energy of a change may differ from what was measured: its sum is taken in another precision."""


def extract(found: Difference, advice: Advice, folder: Path, *, tick: Tick = silent) -> dict[str, Any]:
    """The adapter of these ranks in `folder`, which appears whole; returns the residual that its stored factors leave.

    found, advice: what `diff` and `advise` gave.  tick: hears of the progress.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    check_folder(folder)
    if not advice.ranks:
        why = (
            f"--budget {advice.budget} buys no direction" if advice.budget is not None else "nothing is above the floor"
        )
        raise BadArgument(f"there is nothing to extract: {why}")
    if any(module.remark == "DoRA" for module in found.modules):
        raise BadArgument(
            "a DoRA adapter cannot be shrunk, its magnitudes belong to B A as it is: merge it into the base, and "
            "compare"
        )
    tensors: dict[str, np.ndarray] = {}
    rest = 0.0
    for number, module in enumerate(found.modules):
        tick(number / len(found.modules), module.name)
        rank = advice.ranks.get(module.name, 0)
        change = found.changes[module.name]
        if not rank:
            rest += module.spectrum.energy
            continue
        with threads_for(change.shape):
            triplets = change.triplets(rank)
            root = np.sqrt(triplets.values)
            left, right = ((vectors * root).astype(np.float32) for vectors in (triplets.left, triplets.right))
            stored = Triplets(left.astype(np.float64), np.ones(rank), right.astype(np.float64))
            missed, size = squared_distance(change, stored)
            rest += missed
        if not math.isclose(size, module.spectrum.energy, rel_tol=SAME):
            raise BadArgument(
                f"{module.name} is not what was compared, its models have changed since: compare them again, or a copy "
                "that is not trained on"
            )
        name = PREFIX + advice.names[module.name]
        # The change of an embedding and of GPT-2's Conv1D is (B A) transposed; an adapter's own product is B A.
        if isinstance(change, MatrixChange) and (module.kind == "embedding" or module.name in advice.turned):
            left, right = right, left
        if module.kind == "embedding":
            leaves = "lora_embedding_A", "lora_embedding_B"
        else:
            leaves = "lora_A.weight", "lora_B.weight"
        for leaf, factor in zip(leaves, (right.T, left), strict=True):
            tensors[f"{name}.{leaf}"] = np.ascontiguousarray(factor)
        if isinstance(change, MatrixChange):
            change.release()
    partial = partial_name(folder)
    try:
        with named(folder):
            partial.mkdir(parents=True)
            weights = partial / "adapter_model.safetensors"
            try:
                save_file(tensors, weights, {"format": "pt"})
            except SafetensorError as error:
                raise OSError(str(error)) from error
            let_others_read(weights)
            (partial / "adapter_config.json").write_text(json.dumps(advice.config, indent=1) + "\n")
            if folder.is_dir():
                folder.rmdir()
            partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    total = sum(module.spectrum.energy for module in found.modules)
    return {
        "folder": str(folder),
        "residual": math.sqrt(rest),
        "relative_residual": math.sqrt(rest / total) if total else 0.0,
    }


def check_folder(folder: Path) -> None:
    """Nothing is overwritten: an adapter goes into a folder that is empty or not there."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadArgument(f"cannot write an adapter to {folder}: it exists and is not empty; choose another folder")
    if not folder.absolute().parent.is_dir():
        raise BadArgument(f"cannot write {folder}: the folder {folder.absolute().parent} does not exist")


def squared_distance(change: MatrixChange | ProductChange, triplets: Triplets) -> tuple[float, float]:
    """‖change − left values rightᵀ‖_F², entry by entry: what the stored factors miss, not what they should; and
    ‖change‖_F²."""
    if isinstance(change, ProductChange):
        left = np.concatenate([change.left, -triplets.left * triplets.values], 1)
        right = np.concatenate([change.right, triplets.right], 1)
        return float((spectrum(left, right) ** 2).sum()), change.spectrum.energy
    missed = size = 0.0
    for where, piece, _ in change.pieces():
        miss = piece - (triplets.left[where] * triplets.values) @ triplets.right.T
        missed += float(np.vdot(miss, miss))
        size += float(np.sum(np.square(piece, dtype=np.float64)))
    return missed, size
