"""Which run: everything that decides its numbers, in one name."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

from saddlescope.core.errors import BadArgument
from saddlescope.core.subject import Face, Subject

from .closure import sources


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
    def sources(self) -> str:
        """Hash of the code. Like the digest it travels to workers as it was when the run was asked for."""
        return sources(self.system)

    @cached_property
    def digest(self) -> str:
        parts = [self.system.name, self.system.spec.to_json(), self.face, self._solver_settings(), self.sources]
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
