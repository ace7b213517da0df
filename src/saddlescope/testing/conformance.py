"""Runs every check on every tiny preset of a system: checks are discovered, systems are never listed by hand."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from saddlescope.core.errors import BadArgument, told_with_place
from saddlescope.core.extras import needed_by
from saddlescope.core.progress import Tick, silent
from saddlescope.core.registry import subject_type
from saddlescope.core.subject import Subject


class NotApplicable(Exception):
    """Raised by a check that a system gives no occasion for, with the reason."""


Need = type | tuple[type, ...]


@dataclass(frozen=True)
class Check:
    """needs: parts, and abilities of parts (a tuple: any of them); to a system without them it is not applicable.

    long: it integrates or trains, which tells nothing of a system whose identities do not hold.
    """

    name: str
    run: Callable[[Any], None]
    needs: tuple[Need, ...]
    long: bool = False

    def missing(self, system: Subject) -> str | None:
        lacking = (need for need in self.needs if not any(isinstance(part, need) for part in system.parts))
        return next((f"it has no part of type {_named(need)}" for need in lacking), None)


def _named(need: Need) -> str:
    return " or ".join(kind.__name__ for kind in (need if isinstance(need, tuple) else (need,)))


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


def check(*needs: Need, long: bool = False) -> Callable:
    """Register a function that raises AssertionError for a system that breaks the rule named by the function."""

    def register(function: Callable[[Any], None]) -> Callable[[Any], None]:
        name = function.__name__.replace("_", " ")
        _checks[name] = Check(name, function, needs, long)
        return function

    return register


def all_checks() -> list[Check]:
    with needed_by("check"):
        from . import checks  # noqa: F401  (registers them)

    return list(_checks.values())


def tiny_presets(kind: type[Subject]) -> list[str]:
    return [name for name in kind.presets if name.startswith("tiny")]


def run_check(one: Check, system: Subject, preset: str = "") -> Report:
    try:
        if missing := one.missing(system):
            raise NotApplicable(missing)
        one.run(system)
    except NotApplicable as reason:
        return Report(system.name, preset, one.name, "not applicable", str(reason))
    except AssertionError as failure:
        return Report(system.name, preset, one.name, "failed", str(failure) or told_with_place(failure))
    except (Exception, SystemExit) as error:  # the code of a system, which may be anybody's
        return Report(system.name, preset, one.name, "failed", told_with_place(error))
    return Report(system.name, preset, one.name, "passed")


def check_system(kind: type[Subject] | str, tick: Tick = silent) -> list[Report]:
    """Every check on every tiny preset of `kind` (a class, or its name): a report for each, which has an outcome.

    Checks that integrate or train come last, and wait until the identities hold.  tick: hears of the progress.
    """
    kind = subject_type(kind) if isinstance(kind, str) else kind
    presets = tiny_presets(kind)
    if not presets:
        raise BadArgument(f"{kind.name} has no preset whose name begins with 'tiny', on which checks run: add one")
    checks = sorted(all_checks(), key=lambda one: one.long)
    reports: list[Report] = []
    for number, (preset, one) in enumerate(itertools.product(presets, checks)):
        tick(number / len(presets) / len(checks), f"{preset}: {one.name}")
        broken = [known.check for known in reports if known.preset == preset and known.outcome == "failed"]
        first = next((name for name in broken if _checks[name].needs), "")  # the others are about its room
        if one.long and first:
            reports.append(Report(kind.name, preset, one.name, "not applicable", f"waits for: {first}"))
        else:
            reports.append(run_check(one, kind(kind.preset(preset)), preset))
    return reports
