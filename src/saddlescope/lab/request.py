"""Which run: everything that decides its numbers, in one name."""

from __future__ import annotations

import ast
import hashlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from saddlescope.core.errors import BadArgument
from saddlescope.core.study import Study
from saddlescope.core.subject import Face, Subject
from saddlescope.core.system import System

LOOKERS_ON = {"claims", "experiments", "figures", "errata", "measures"}
"""Files of a room that look at runs and do not make them, by the last word of their names; what only they import does
not count either."""

ENGINES = {
    System: {
        "core": ("spec", "stage", "subject", "system", "trajectory", "tree"),
        "numerics": ("*",),
        "dynamics": ("*",),
    },
    Study: {
        "core": ("spec", "study", "subject", "trajectory"),
        "spectra": ("*", "layouts/*"),
        "checkpoints": ("*",),
        "watch": ("measure", "watch", "run", "schedule", "lora", "parameters", "trajectory"),
    },
}
"""Files outside the room that runs depend on."""


@dataclass(frozen=True)
class Request:
    """What to run. seeds: one, unless only stages are kept.  Everything here is part of the run's name."""

    system: Subject
    face: Face
    seeds: tuple[int, ...]
    solver: str = "default"
    stages_only: bool = False

    def __post_init__(self) -> None:
        if not self.system.kept:
            raise BadArgument(f"runs of {self.system.name} cannot be stored: give it a `version`, which names its code")

    @cached_property
    def digest(self) -> str:
        parts = [self.system.name, self.system.spec.to_json(), self.face, self._solver_settings(), sources(self.system)]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]

    def _solver_settings(self) -> str:
        if self.face != "flow":
            return self.face
        from saddlescope.dynamics.solvers import solver

        return f"{'together' if self.stages_only else 'alone'} {solver(self.solver)}"

    @property
    def name(self) -> str:
        first, last = self.seeds[0], self.seeds[-1]
        which = f"seeds{first}-{last}" if self.stages_only else f"seed{first}"
        return f"{self.face}-{self.digest}-{which}"

    @property
    def words(self) -> str:
        return f"{self.face} {self.system.name} seed{'s' * self.stages_only} {self.seeds[0]}" + (
            f"-{self.seeds[-1]}" if self.stages_only else ""
        )


def sources(system: Subject) -> str:
    """Hash of the code that a run depends on: the engines, and its room but for the lookers-on."""
    return _sources(type(system))


@cache
def _sources(kind: type[Subject]) -> str:
    package = Path(__file__).parents[1]
    contract = next(base for base in kind.__mro__ if base in ENGINES)
    engines = ENGINES[contract].items()
    files = [file for room, names in engines for name in names for file in (package / room).glob(f"{name}.py")]
    # A variant may be built on classes of another folder (a user's system that extends one of ours).
    for base in kind.__mro__:
        if issubclass(base, contract) and base is not contract:
            files += _neighbours(Path(inspect.getfile(base)))
    text = b"\0".join(file.read_bytes() for file in sorted(set(files)))
    return hashlib.sha256(text).hexdigest()[:16]


def _neighbours(file: Path) -> set[Path]:
    """A file with all that it imports, directly or not, from its own folder and those below, lookers-on left out."""
    found, queue = set(), [file]
    while queue:
        found.add(here := queue.pop())
        for node in ast.walk(ast.parse(here.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                paths = (path for path in _files(here, node) if path.is_relative_to(file.parent) and path.is_file())
                queue += [path for path in paths if path not in found]
    return found


def _files(here: Path, node: ast.ImportFrom) -> Iterator[Path]:
    """Where the modules of an import may be: files, packages, files of packages."""
    origin = here.parents[node.level - 1] if node.level else _outside(here)
    base = node.module.split(".") if node.module else []
    # A name that is imported may be a module itself; "from . import x" says nothing of the package around x.
    for parts in [*([base] if base else []), *([*base, alias.name] for alias in node.names)]:
        if not LOOKERS_ON & {part.rpartition("_")[2] for part in parts}:
            place = origin.joinpath(*parts)
            yield from (place.with_suffix(".py"), place / "__init__.py")


def _outside(file: Path) -> Path:
    """The folder that a file's outermost package is in."""
    return next(folder for folder in file.parents if not (folder / "__init__.py").is_file())
