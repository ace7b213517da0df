"""Which checkpoints make a series, and in which order: by trainer_state.json, by numbers in their names, or as
given."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from saddlescope.checkpoints.documents import read_object
from saddlescope.checkpoints.hub import locate
from saddlescope.checkpoints.weight_files import NOT_WEIGHTS, PICKLES, SAFETENSORS, SHARD
from saddlescope.core.errors import BadArgument

from .integrity import Finding

_END = r"[-_=]?(\d+)(k|m)?(?![a-z\d]|\.\d)"
STEP = re.compile(rf"(?:^|[^a-z])(?:step|globalstep|checkpoint|ckpt|iter|iteration)s?{_END}", re.I)
EPOCH = re.compile(rf"(?:^|[^a-z])epochs?{_END}", re.I)
NUMBER = re.compile(r"(.*?)(\d+)(\D*)")


class Order(NamedTuple):
    checkpoints: list[tuple[int, str]]  # step and place, ascending
    notes: list[str]
    findings: list[Finding]


def find_series(folders: Sequence[str | Path], steps: Sequence[int] | None = None) -> Order:
    """Steps from names, else from trainer_state.json; without either, the order given."""
    if isinstance(folders, str | Path):
        folders = [folders]
    notes: list[str] = []
    places = [place for folder in folders for place in _expanded(str(folder), len(folders) == 1, notes)]
    if len(places) < 2:
        for place in places:
            locate(place)
        raise BadArgument(
            f"a series needs at least two checkpoints, got {len(places)} ({', '.join(places) or 'none'}): name them, "
            "or give one folder that holds checkpoint-100, checkpoint-200, ..."
        )
    findings: list[Finding] = []
    numbers = _given(steps, places) if steps is not None else _named(places, notes, findings)
    held: dict[int, str] = {}
    for step, place in zip(numbers, places, strict=True):
        if step in held:
            raise BadArgument(
                f"{held[step]} and {place} both have step {step}: leave one out, or give --steps, one for each"
            )
        held[step] = place
    return Order(sorted(held.items()), notes, findings)


def _expanded(folder: str, alone: bool, notes: list[str]) -> list[str]:
    """The checkpoints in a folder that holds several; any other place by itself."""
    path = Path(folder).expanduser()
    if not alone or not path.is_dir():
        return [folder]
    entries = [entry for entry in sorted(path.iterdir()) if not entry.name.startswith(".") and _may_hold(entry)]
    stepped = [entry for entry in entries if STEP.search(_stem(entry)) or EPOCH.search(_stem(entry))]
    if len(stepped) < 2:
        groups: dict[tuple[str, str], list[Path]] = {}
        for entry in entries:
            if match := NUMBER.fullmatch(_stem(entry)):
                groups.setdefault((match[1], match[3]), []).append(entry)
        stepped = max(groups.values(), key=len, default=[])
    if len(stepped) < 2:
        return [folder]
    files = [entry.name for entry in entries if entry.is_file() and entry not in stepped]
    if files:
        notes.append(f"left out, without a step in their names: {', '.join(files[:3])} in {folder}")
    return [str(entry) for entry in stepped]


def _may_hold(entry: Path) -> bool:
    if entry.is_dir():
        return True
    shard_or_state = SHARD.fullmatch(entry.stem) or NOT_WEIGHTS.fullmatch(entry.stem)
    return entry.suffix in SAFETENSORS + PICKLES and not shard_or_state


def _stem(place: Path) -> str:
    return place.stem if place.suffix in SAFETENSORS + PICKLES else place.name


def _given(steps: Sequence[int], places: Sequence[str]) -> list[int]:
    if len(steps) != len(places):
        raise BadArgument(f"`steps` must have one for each of {len(places)} checkpoints, got {len(steps)}")
    if not all(isinstance(step, int | np.integer) and not isinstance(step, bool) for step in steps):
        raise BadArgument(f"`steps` must be whole numbers, got {list(steps)!r}")
    return [int(step) for step in steps]


class _Number(NamedTuple):
    unit: str
    value: int


def _named(places: Sequence[str], notes: list[str], findings: list[Finding]) -> list[int]:
    numbers = [_number(Path(place), findings) for place in places]
    if not any(numbers):
        matches = [NUMBER.fullmatch(_stem(Path(place))) for place in places]
        if all(matches) and len({(match[1], match[3]) for match in matches if match}) == 1:
            return [int(match[2]) for match in matches if match]
        notes.append("the names have no steps: the order given is taken, as 0, 1, 2, ...")
        return list(range(len(places)))
    if numbers[0] is None and all(numbers[1:]):
        # A base model that training began from is named after the model, not after a step.
        notes.append(f"{places[0]} has no step in its name and was given first: it is taken as step 0")
        numbers[0] = next(number for number in numbers if number)._replace(value=0)
    units = {number.unit: place for number, place in zip(numbers, places, strict=True) if number}
    if None in numbers:
        nameless = places[numbers.index(None)]
        raise BadArgument(f"{nameless} has no step in its name: give `steps`, one for each checkpoint")
    if len(units) > 1:
        told = " and ".join(f"{place} counts {unit}s" for unit, place in units.items())
        raise BadArgument(f"{told}: give `steps`, one for each checkpoint")
    return [number.value for number in numbers if number]


def _number(path: Path, findings: list[Finding]) -> _Number | None:
    """A file is asked before its folder, which may be that of all."""
    file = path.suffix in SAFETENSORS + PICKLES or path.is_file()
    own = _read_number(_stem(path))
    if file and own:
        return own
    folder = path.parent if file else path
    named, state = own or _read_number(folder.name), folder / "trainer_state.json"
    if not state.is_file():
        return named
    try:
        step = read_object(state).get("global_step")
    except BadArgument:
        return named
    if not isinstance(step, int):
        return named
    if named and named.unit == "step":
        if named.value != step:
            # The name is taken: a copy under another step is then seen to have the content of the first.
            message = f"{path} is named {named.value}, its trainer_state.json says {step}"
            findings.append(Finding("misnamed", (named.value,), (), message))
        return named
    return _Number("step", step)


def _read_number(name: str) -> _Number | None:
    for unit, pattern in (("step", STEP), ("epoch", EPOCH)):
        if match := pattern.search(name):
            return _Number(unit, int(match[1]) * {"": 1, "k": 1000, "m": 10**6}[(match[2] or "").lower()])
    return None
