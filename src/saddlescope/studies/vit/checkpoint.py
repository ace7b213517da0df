"""A training that can be taken up again: weights, Adam's moments and the curves so far, in one file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

from saddlescope.core.errors import CannotGoOn
from saddlescope.core.files import may_be_sound, write_whole

CHECKSUM = "checksum"


class Saved(NamedTuple):
    """run: its identity.  seconds: what it took so far, by kind."""

    path: Path
    run: str
    epoch: int
    seconds: Mapping[str, float]
    weights: Mapping[str, torch.Tensor]
    moments: Mapping[str, torch.Tensor]
    curves: Mapping[str, list[float]]


def save(
    path: Path,
    identity: str,
    epoch: int,
    seconds: Mapping[str, float],
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    curves: Mapping[str, list[float]],
) -> None:
    """identity: names the run, so that another one's file is not taken for it."""
    from safetensors.torch import save_file

    tensors = {f"weights.{name}": tensor for name, tensor in model.state_dict().items()}
    for place, state in optimizer.state_dict()["state"].items():
        tensors |= {f"moments.{place}.{name}": tensor for name, tensor in state.items()}
    metadata = {"run": identity, "epoch": str(epoch), "seconds": json.dumps(seconds), "curves": json.dumps(curves)}
    on_host = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    sealed = {**metadata, CHECKSUM: checksum_of(metadata, on_host)}
    write_whole(path, lambda partial: save_file(on_host, partial, sealed))


def load(path: Path, identity: str) -> Saved | None:
    """The checkpoint of this run; None where there is none yet."""
    if not path.is_file():
        return None
    found = read(path)
    if found.run != identity:
        raise CannotGoOn(f"{path} belongs to another run ({found.run}, not {identity}): give this one its own folder")
    return found


def read(path: Path) -> Saved:
    """The checkpoint of any run."""
    from safetensors import safe_open

    try:
        path.open("rb").close()  # says why it cannot be opened; to safetensors it would be missing
        # By way of NumPy: for torch the file is opened a second time, when it may have been replaced by a later one.
        with safe_open(path, "np") as file:
            metadata = file.metadata()
            tensors = {name: torch.from_numpy(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
        if metadata.pop(CHECKSUM) != checksum_of(metadata, tensors):
            raise ValueError("it is not as it was written")
        epoch, seconds = int(metadata["epoch"]), json.loads(metadata["seconds"])
        curves, run = json.loads(metadata["curves"]), metadata["run"]
    except Exception as error:  # a damaged file may raise anything
        if may_be_sound(error):
            raise
        raise CannotGoOn(f"{path} cannot be read ({error}): delete it to begin this run again") from error
    return Saved(path, run, epoch, seconds, _below(tensors, "weights."), _below(tensors, "moments."), curves)


def restore(saved: Saved, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    _check_fit(saved, model, optimizer)
    model.load_state_dict(dict(saved.weights))
    state: dict[int, dict[str, Any]] = {}
    for name, tensor in saved.moments.items():
        place, _, entry = name.partition(".")
        state.setdefault(int(place), {})[entry] = tensor
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def _check_fit(saved: Saved, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """A file may be whole, of this run by its name, and yet of a network that was built otherwise."""
    weights = {name: tensor.shape for name, tensor in model.state_dict().items()}
    trained = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    moments = {
        f"{place}.{name}": shape
        for place, parameter in enumerate(trained)
        for name, shape in (("step", torch.Size()), ("exp_avg", parameter.shape), ("exp_avg_sq", parameter.shape))
    }
    for wanted, found in ((weights, saved.weights), (moments, saved.moments)):
        for name in sorted(wanted.keys() | found.keys()):
            if name not in wanted or name not in found or wanted[name] != found[name].shape:
                raise CannotGoOn(
                    f"{saved.path} is not of this network ({name} differs): delete it to begin this run again"
                )


def checksum_of(metadata: Mapping[str, str], tensors: Mapping[str, torch.Tensor]) -> str:
    found = hashlib.blake2b(json.dumps(metadata, sort_keys=True).encode(), digest_size=16)
    for name in sorted(tensors):
        tensor = tensors[name]
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        found.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def _below(tensors: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
