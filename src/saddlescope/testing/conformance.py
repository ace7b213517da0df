"""Runs every check on every tiny preset of a system: checks are discovered, systems are never listed by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from saddlescope.core.errors import BadArgument, Undeclared
from saddlescope.core.progress import Tick, silent
from saddlescope.core.subject import Face, Subject
from saddlescope.core.system import System


class NotApplicable(Exception):
    """Raised by a check that a system gives no occasion for, with the reason."""


@dataclass(frozen=True)
class Check:
    """faces, declares: what the check needs; a system without them is not applicable."""

    name: str
    run: Callable[[System], None]
    faces: tuple[Face, ...]
    declares: tuple[str, ...]

    def missing(self, system: System) -> str | None:
        for face in self.faces:
            if face not in system.faces:
                return f"has no face {face!r}"
        for part in self.declares:
            if not system.declares(part):
                return f"does not declare `{part}`"
        return None


@dataclass(frozen=True)
class Report:
    system: str
    preset: str
    check: str
    outcome: Literal["passed", "failed", "not applicable"]
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


_checks: dict[str, Check] = {}


def check(*, faces: tuple[Face, ...] = (), declares: tuple[str, ...] = ()) -> Callable:
    """Register a function that raises AssertionError for a system that breaks the rule named by the function."""

    def register(function: Callable[[System], None]) -> Callable[[System], None]:
        name = function.__name__.replace("_", " ")
        _checks[name] = Check(name, function, faces, declares)
        return function

    return register


def all_checks() -> list[Check]:
    from . import checks  # noqa: F401  (registers them)

    return list(_checks.values())


def tiny_presets(kind: type[System]) -> list[str]:
    return [name for name in kind.presets if name.startswith("tiny")]


def run_check(one: Check, system: System, preset: str = "") -> Report:
    missing = one.missing(system)
    if missing:
        return Report(system.name, preset, one.name, "not applicable", missing)
    try:
        one.run(system)
    except (NotApplicable, Undeclared) as reason:
        return Report(system.name, preset, one.name, "not applicable", str(reason))
    except AssertionError as failure:
        return Report(system.name, preset, one.name, "failed", str(failure))
    return Report(system.name, preset, one.name, "passed")


def check_system(kind: type[Subject], tick: Tick = silent) -> list[Report]:
    """Every check on every tiny preset of a system."""
    if not issubclass(kind, System):
        raise BadArgument(f"{kind.name} is a study and has no conformance suite: it has one face and no theory")
    jobs = [(preset, one) for preset in tiny_presets(kind) for one in all_checks()]
    reports = []
    for number, (preset, one) in enumerate(jobs):
        tick(number / len(jobs), f"{preset}: {one.name}")
        reports.append(run_check(one, kind(kind.preset(preset)), preset))
    return reports
