"""Which files hold the weights that a path stands for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from saddlescope.checkpoints.documents import read_object
from saddlescope.checkpoints.hub import check_link
from saddlescope.core.errors import BadArgument

SAFETENSORS = (".safetensors",)
PICKLES = (".bin", ".pt", ".pth", ".ckpt")
INDEX = ".index.json"
# The order in which transformers looks for them.
USUAL = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
NOT_WEIGHTS = re.compile(r"(optimizer|scheduler|scaler|rng_state|random_states|training_args|adapter_model)([._-].*)?")
SHARD = re.compile(r"(?P<set>.*)-(?P<number>\d{1,6})-of-(?P<total>\d{1,6})")


class WeightFiles(NamedTuple):
    files: tuple[Path, ...]
    promised: Mapping[str, Path]  # which file holds which tensor, if an index says so


def find_weights(path: Path) -> WeightFiles:
    try:
        if path.is_dir():
            return in_folder(path)
    except OSError as error:
        raise BadArgument(f"{path} cannot be looked into ({error}): check its permissions") from error
    if not path.is_file():
        raise BadArgument(f"{path} is neither a file nor a folder: give the weights or the folder that holds them")
    return from_file(path)


def in_folder(folder: Path) -> WeightFiles:
    for name in USUAL:
        path = folder / name
        if path.is_symlink() and not path.exists():
            raise BadArgument(f"{path} links to a file that is gone: save or download it again")
        if path.is_file():
            return from_file(path)
    entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    files = [entry for entry in entries if entry.is_file()]
    indexes = [file for file in files if file.name.endswith(INDEX) and not file.name.startswith("adapter_")]
    if len(indexes) > 1:
        raise choose(folder, indexes)
    if indexes:
        return from_file(indexes[0])
    for suffixes in (SAFETENSORS, PICKLES):
        weights = [file for file in files if file.suffix in suffixes and not NOT_WEIGHTS.fullmatch(file.stem)]
        sets = {match and match["set"] for match in (SHARD.fullmatch(file.stem) for file in weights)}
        if suffixes == PICKLES and len(weights) > 1 and (len(sets) != 1 or None in sets):
            raise choose(folder, weights)
        if weights:
            check_complete(weights)
            for file in weights:
                check_link(file, folder)
            return WeightFiles(tuple(weights), {})
    raise no_weights(folder, entries)


def from_file(path: Path) -> WeightFiles:
    check_link(path, path.parent)
    return indexed(path) if path.name.endswith(INDEX) else WeightFiles((path,), {})


def indexed(path: Path) -> WeightFiles:
    """The shards that the index at `path` names, each inside the folder of the index."""
    shard_of = read_object(path).get("weight_map")
    if not isinstance(shard_of, dict) or not shard_of or not all(isinstance(name, str) for name in shard_of.values()):
        raise BadArgument(f"{path} must map each tensor to its file under 'weight_map': restore or delete the index")
    shards = {name: shard(path, name) for name in sorted(set(shard_of.values()))}
    return WeightFiles(tuple(shards.values()), {tensor: shards[name] for tensor, name in shard_of.items()})


def shard(index: Path, name: str) -> Path:
    parts = PurePosixPath(name).parts
    if not name.isprintable() or not parts or parts[0] == "/" or ".." in parts or "\\" in name or ":" in name:
        raise BadArgument(f"{index} names the file {name!r}, which is not inside its folder: do not trust these files")
    path = index.parent / name
    try:
        present = path.is_file()
    except OSError:
        present = False
    if not present:
        raise BadArgument(f"{index} names the file {name!r}, which is missing: download or copy it too")
    check_link(path, index.parent)
    return path


def check_complete(files: Iterable[Path]) -> None:
    """Without an index, names such as model-00001-of-00003 are the only word on how many files there are."""
    numbers: dict[tuple[Path, str, int], set[int]] = {}
    for file in files:
        if match := SHARD.fullmatch(file.stem):
            key = (file.parent, match["set"], int(match["total"]))
            numbers.setdefault(key, set()).add(int(match["number"]))
    for (folder, name, total), held in numbers.items():
        missing = [number for number in range(1, total + 1) if number not in held]
        # Megatron and Mistral count from zero.
        if missing and held != set(range(total)):
            raise BadArgument(f"{folder} lacks part {missing[0]} of {total} of {name!r}: download or copy it too")


def choose(folder: Path, files: list[Path]) -> BadArgument:
    names = ", ".join(file.name for file in files[:6])
    return BadArgument(f"{folder} holds several weights ({names}): give the path of one of them")


def no_weights(folder: Path, entries: list[Path]) -> BadArgument:
    names = {entry.name for entry in entries}
    if "adapter_config.json" in names:
        return BadArgument(f"{folder} holds an adapter, not a model: open it as an adapter, or give the merged model")
    gguf = [name for name in sorted(names) if name.endswith(".gguf")]
    if gguf:
        return quantised_gguf(folder / gguf[0])
    found = ", ".join(entry.name + "/" * entry.is_dir() for entry in entries[:6]) or "nothing"
    return BadArgument(
        f"{folder} holds no weights (found: {found}): give a folder with .safetensors or .bin files, or such a file"
    )


def quantised_gguf(path: Path) -> BadArgument:
    return BadArgument(f"{path} is quantised by GGUF: compare the unquantised weights, in safetensors")
