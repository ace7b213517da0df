"""Room: everything that one paper's folder holds, found by the names of its files."""

from __future__ import annotations

import csv
import importlib
import importlib.util
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from .claim import Claim
from .errors import unknown
from .experiment import Erratum, Experiment, Figure
from .registry import system_types
from .system import System

POINTERS = ("claim", "function", "figure", "erratum", "reason")


@dataclass(frozen=True)
class Line:
    """One line of the inventory: something that the paper states or does, and where it is treated here."""

    id: str
    kind: str
    where: str
    what: str
    points_to: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Room:
    """name: of its folder, and of its main system."""

    name: str
    package: str
    systems: tuple[type[System], ...]

    def _part(self, module: str, name: str) -> tuple[Any, ...]:
        return tuple(getattr(self._module(module), name, ()))

    def _module(self, name: str) -> Any:
        """A file of the room; None where it has none, or is no package."""
        address = f"{self.package}.{name}"
        try:
            found = importlib.util.find_spec(address)
        except ModuleNotFoundError:
            return None
        return None if found is None else importlib.import_module(address)

    @property
    def paper(self) -> str:
        return self.systems[0].paper

    @property
    def citation(self) -> str:
        return getattr(importlib.import_module(self.package), "CITATION", self.paper)

    @property
    def claims(self) -> tuple[Claim, ...]:
        return tuple(claim for kind in self.systems for claim in kind.__dict__.get("claims", ()))

    @cached_property
    def experiments(self) -> dict[str, Experiment]:
        return {found.name: found for found in self._part("experiments", "EXPERIMENTS")}

    @cached_property
    def figures(self) -> dict[str, Figure]:
        return {found.name: found for found in self._part("figures", "FIGURES")}

    @cached_property
    def errata(self) -> tuple[Erratum, ...]:
        return self._part("errata", "ERRATA")

    @property
    def folder(self) -> Path | None:
        file = getattr(importlib.import_module(self.package), "__file__", None)
        return Path(file).parent if file else None

    @cached_property
    def inventory(self) -> tuple[Line, ...]:
        file = self.folder / "inventory.tsv" if self.folder else None
        if file is None or not file.is_file():
            return ()
        with file.open(newline="", encoding="utf-8") as lines:
            return tuple(
                Line(row["id"], row["kind"], row["where"], row["what"], _pointers(row["points_to"] or ""))
                for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
            )

    def astray(self) -> list[str]:
        """Lines of the inventory that point nowhere, or to something that does not exist."""
        known = {
            "claim": {claim.name for claim in self.claims},
            "figure": set(self.figures),
            "erratum": {erratum.name for erratum in self.errata},
        }
        wrong = [f"{line.id} points nowhere" for line in self.inventory if not line.points_to]
        for line in self.inventory:
            for kind, target in line.points_to:
                if kind == "function":
                    found = self._has_function(target)
                elif kind == "reason":
                    found = len(target) > 20
                else:
                    found = target in known.get(kind, ())
                if not found:
                    wrong.append(f"{line.id} points to {kind}:{target}, which does not exist")
        return wrong

    def _has_function(self, target: str) -> bool:
        module, _, name = target.rpartition(".")
        return hasattr(self._module(module), name)

    def coverage(self) -> dict[str, int]:
        """How many lines the inventory has, and how many point to each kind of thing."""
        kinds = {kind: sum(any(k == kind for k, _ in line.points_to) for line in self.inventory) for kind in POINTERS}
        return {"lines": len(self.inventory), "covered": sum(bool(line.points_to) for line in self.inventory), **kinds}


def _pointers(text: str) -> tuple[tuple[str, str], ...]:
    """ "claim:a; function:m.f" -> (("claim", "a"), ("function", "m.f"))."""
    parts = [part.strip().partition(":") for part in text.split(";") if part.strip()]
    return tuple((kind, target.strip()) for kind, _, target in parts)


def rooms() -> dict[str, Room]:
    """All rooms by name, in the order of their names."""
    kinds: dict[str, list[type[System]]] = {}
    for name, kind in system_types().items():
        kinds.setdefault(name.partition("/")[0], []).append(kind)
    return {name: _room(name, found) for name, found in kinds.items()}


def room(name: str) -> Room:
    found = rooms()
    if name not in found:
        raise unknown("system", name, found)
    return found[name]


def room_of(kind: type[System]) -> Room:
    """The room of a system, or of the class that it extends; one of its own for a system that is in none."""
    known = {member: found for found in rooms().values() for member in found.systems}
    return next((known[base] for base in kind.__mro__ if base in known), _room(kind.name, [kind]))


def _room(name: str, kinds: list[type[System]]) -> Room:
    return Room(name, kinds[0].__module__.rpartition(".")[0] or kinds[0].__module__, tuple(kinds))
