"""Which run: everything that decides its numbers, in one name."""

from __future__ import annotations

import ast
import hashlib
import inspect
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from saddlescope.core.errors import BadArgument
from saddlescope.core.system import Face, System

LOOKERS_ON = {"claims", "experiments", "figures", "errata"}
"""Files of a room that look at runs and do not make them; what only they import does not count either."""

ENGINES = {
    "core": ("spec", "stage", "system", "trajectory", "tree"),
    "numerics": ("*",),
    "dynamics": ("*",),
}
"""Files outside the room that runs depend on."""


@dataclass(frozen=True)
class Request:
    """What to run. seeds: one, unless only stages are kept.  Everything here is part of the run's name."""

    system: System
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
        if self.face == "predict":
            return "predict"
        from saddlescope.dynamics.solvers import solver

        kind = "together" if self.stages_only else "alone"
        return f"{kind} {solver(self.solver)}" if self.face == "flow" else "train"

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


def sources(system: System) -> str:
    """Hash of the code that a run of this system depends on: the engines, and its room but for the lookers-on."""
    return _sources(type(system))


@cache
def _sources(kind: type[System]) -> str:
    package = Path(__file__).parents[1]
    files = [file for room, names in ENGINES.items() for name in names for file in (package / room).glob(f"{name}.py")]
    # A variant may be built on classes of another folder (a user's system that extends one of ours).
    for base in kind.__mro__:
        if issubclass(base, System) and base is not System:
            files += _neighbours(Path(inspect.getfile(base)))
    text = b"\0".join(file.read_bytes() for file in sorted(set(files)))
    return hashlib.sha256(text).hexdigest()[:16]


def _neighbours(file: Path) -> set[Path]:
    """A file with all that it imports, directly or not, from its own folder, lookers-on left out."""
    found, queue = set(), [file]
    while queue:
        found.add(here := queue.pop())
        for node in ast.walk(ast.parse(here.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level == 1:
                names = [node.module] if node.module else [alias.name for alias in node.names]
                paths = [here.with_name(f"{name}.py") for name in names if name not in LOOKERS_ON]
                queue += [path for path in paths if path.is_file() and path not in found]
    return found
