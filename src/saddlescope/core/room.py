"""Room: everything that the folder of a paper or a study holds, found by the names of its files."""

from __future__ import annotations

import ast
import csv
import importlib
import importlib.util
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from .claim import Claim
from .errors import unknown
from .experiment import Erratum, Experiment, Figure
from .paper import Paper
from .registry import somebodys_code, subject_type, subject_types
from .subject import Subject

POINTERS = ("claim", "function", "figure", "erratum", "reason")

LISTS: Mapping[str, tuple[str, type]] = {
    "experiments": ("EXPERIMENTS", Experiment),
    "claims": ("CLAIMS", Claim),
    "figures": ("FIGURES", Figure),
    "errata": ("ERRATA", Erratum),
}
"""Files of `evidence`, and what each lists."""


@dataclass(frozen=True)
class Line:
    """One line of the inventory: something that the paper states or does, and where it is treated here.

    points_to: (kind, target). A target in another room has that room's name and a slash before it: "vit/low_rank".
    """

    id: str
    kind: str
    where: str
    what: str
    points_to: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Room:
    """name: of its folder, and of its main system or study, which is the first of `subjects`."""

    name: str
    package: str
    subjects: tuple[type[Subject], ...]

    def _load(self, module: str) -> tuple[Any, ...]:
        """What a file of `evidence` lists; nothing where there is no such file."""
        file = self.part(f"evidence.{module}")
        if file is None:
            return ()
        name, kind = LISTS[module]
        found = tuple(getattr(file, name))
        if wrong := [one for one in found if not isinstance(one, kind)]:
            raise TypeError(f"{name} holds {wrong[0]!r}, which is no {kind.__name__}")
        return found

    def _listed(self, module: str) -> tuple[Any, ...]:
        """The same, and nothing where it cannot be loaded, which `broken` tells."""
        with somebodys_code():
            return self._load(module)
        return ()

    @cached_property
    def broken(self) -> list[str]:
        """Files of the room that cannot be loaded, and why; and names that are given twice in one of them."""
        wrong = []
        for module in LISTS:
            with somebodys_code() as failed:
                counts = Counter(one.name for one in self._load(module))
                failed += [f"{count} are called {name!r}" for name, count in counts.items() if count > 1]
            wrong += [f"{self.package}.evidence.{module}: {why}" for why in failed]
        with somebodys_code() as failed:
            self._lines()
        return [*wrong, *(f"{self.package}/inventory.tsv: {why}" for why in failed)]

    def part(self, name: str) -> Any:
        """A file of the room; None where it has none, or is no package."""
        address = f"{self.package}.{name}"
        try:
            found = importlib.util.find_spec(address)
        except ModuleNotFoundError:
            return None
        return None if found is None else importlib.import_module(address)

    @property
    def address(self) -> str:
        """By which another process, which may not know its name, finds it."""
        return f"{self.subjects[0].__module__}:{self.subjects[0].__qualname__}"

    @property
    def paper(self) -> str:
        return self.subjects[0].paper

    @property
    def cited(self) -> Paper:
        """Its paper, as far as the room says what it is."""
        given = getattr(importlib.import_module(self.package), "CITATION", self.paper)
        return given if isinstance(given, Paper) else Paper.read(str(given))

    @property
    def citation(self) -> str:
        """The same in one line."""
        return str(getattr(importlib.import_module(self.package), "CITATION", self.paper))

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        return self._listed("claims")

    @cached_property
    def experiments(self) -> dict[str, Experiment]:
        return {found.name: found for found in self._listed("experiments")}

    @cached_property
    def figures(self) -> dict[str, Figure]:
        return {found.name: found for found in self._listed("figures")}

    @cached_property
    def errata(self) -> tuple[Erratum, ...]:
        return self._listed("errata")

    @property
    def version(self) -> str:
        """Of the paper: the one in which errata were found."""
        with somebodys_code():
            return getattr(self.part("evidence.errata"), "VERSION", "")
        return ""

    @property
    def folder(self) -> Path | None:
        file = getattr(importlib.import_module(self.package), "__file__", None)
        return Path(file).parent if file else None

    @cached_property
    def inventory(self) -> tuple[Line, ...]:
        with somebodys_code():
            return self._lines()
        return ()

    def _lines(self) -> tuple[Line, ...]:
        file = self.folder / "inventory.tsv" if self.folder else None
        if file is None or not file.is_file():
            return ()
        with file.open(newline="", encoding="utf-8") as lines:
            table = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
            return tuple(
                Line(row["id"], row["kind"], row["where"], row["what"], _pointers(row["points_to"] or ""))
                for row in table
            )

    def adrift(self) -> list[str]:
        """Files that cannot be loaded; claims, figures and experiments that draw on what does not exist."""
        known = {**subject_types(), **{kind.name: kind for kind in self.subjects}}
        astray = [
            f"experiment {one.name}: {unknown('system', one.system, known)}"
            for one in self.experiments.values()
            if one.system not in known
        ]
        return [*self.broken, *self.lost(self.claims, self.figures.values()), *astray, *self._unbuilt()]

    def _unbuilt(self) -> list[str]:
        """Presets, and variants of experiments, whose Spec cannot be."""
        known, wrong = subject_types(), []
        asked = [
            (f"preset {preset} of {kind.name}", kind, preset, {}) for kind in self.subjects for preset in kind.presets
        ]
        asked += [
            (f"experiment {one.name}", known[one.system], size.preset, {**one.fields, **variant})
            for one in self.experiments.values()
            for size in (one.short, one.full)
            if size is not None and one.system in known
            for variant in size.variants
        ]
        for words, kind, preset, fields in asked:
            with somebodys_code() as failed:
                kind.preset(preset).replace(**fields)
            wrong += [f"{words}: {why}" for why in failed]
        return wrong

    def lost(self, claims: Iterable[Claim], figures: Iterable[Figure]) -> list[str]:
        """Those of them that draw on experiments which do not exist."""
        drawn = [(f"claim {claim.name}", (claim.experiment,)) for claim in claims if claim.experiment]
        drawn += [(f"figure {figure.name}", figure.experiments) for figure in figures]
        return [
            f"{user} draws on {self.no_experiment(name)}"
            for user, names in drawn
            for name in names
            if name not in self.experiments
        ]

    def no_experiment(self, name: str) -> str:
        return str(unknown("experiment", name, self.experiments))

    def astray(self) -> list[str]:
        """Lines of the inventory that point nowhere, or to something that does not exist.

        A room may be absent: what points into it is passed over.
        """
        places = {**rooms(), self.name: self}
        wrong = [f"{line.id} points nowhere" for line in self.inventory if not line.points_to]
        for line in self.inventory:
            for kind, target in line.points_to:
                name, inside = self.place_of(target)
                if kind == "reason":
                    if len(target) <= 20:
                        wrong.append(f"{line.id} has a reason of {len(target)} letters, too short to be one: {target}")
                elif name in places and not places[name].holds(kind, inside):
                    wrong.append(f"{line.id} points to {kind}:{target}, which does not exist")
        return wrong

    def left_out(self) -> list[str]:
        """Claims, figures and errata to which no line of an inventory points: this room's, or of another one."""
        treated = [found for found in {**rooms(), self.name: self}.values() if found.inventory]
        if not any(found.paper == self.paper for found in treated):
            return []  # the room of the paper that a study treats is absent
        pointed = {
            (kind, *found.place_of(target))
            for found in treated
            for line in found.inventory
            for kind, target in line.points_to
        }
        made = [("claim", one.name) for one in self.claims] + [("figure", name) for name in self.figures]
        made += [("erratum", one.name) for one in self.errata]
        return [
            f"no line of inventory.tsv points to {kind}:{name}"
            for kind, name in made
            if (kind, self.name, name) not in pointed
        ]

    def place_of(self, target: str) -> tuple[str, str]:
        """The room that a pointer of this one leads to, and what it means there."""
        room, slash, inside = target.partition("/")
        return (room, inside) if slash else (self.name, target)

    def holds(self, kind: str, name: str) -> bool:
        """Whether there is a claim, function, figure or erratum of this name."""
        if kind == "function":
            return self._has_function(name)
        return name in {
            "claim": {claim.name for claim in self.claims},
            "figure": set(self.figures),
            "erratum": {erratum.name for erratum in self.errata},
        }.get(kind, ())

    def _has_function(self, target: str) -> bool:
        address, _, name = target.rpartition(".")
        try:
            return hasattr(self.part(address), name)
        except Exception:  # a library that not every machine has, such as PyTorch, or a mistake: the file is there
            found = importlib.util.find_spec(f"{self.package}.{address}")
            assert found is not None and found.origin is not None
            body = ast.parse(Path(found.origin).read_text(encoding="utf-8")).body
            return name in {getattr(node, "name", None) for node in body}

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
    kinds: dict[str, list[type[Subject]]] = {}
    for name, kind in subject_types().items():
        kinds.setdefault(name.partition("/")[0], []).append(kind)
    return {name: _room(name, found) for name, found in kinds.items()}


def room(name: str) -> Room:
    """The room of this name, or of the class at "package.module:Class"."""
    if ":" in name:
        return room_of(subject_type(name))
    found = rooms()
    if name not in found:
        subject_type(name)  # says why, if its package cannot be loaded
        raise unknown("system", name, found)
    return found[name]


def room_of(kind: type[Subject]) -> Room:
    """The room of a system or study, or of the class that it extends; one of its own for one that is in none."""
    known = {member: found for found in rooms().values() for member in found.subjects}
    return next((known[base] for base in kind.__mro__ if base in known), _room(kind.name, [kind]))


def _room(name: str, kinds: list[type[Subject]]) -> Room:
    return Room(name, kinds[0].__module__.rpartition(".")[0] or kinds[0].__module__, tuple(kinds))
