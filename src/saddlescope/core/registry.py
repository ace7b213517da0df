"""Finds systems and studies by walking their rooms and the entry points; nothing is listed by hand."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

from .errors import BadArgument, unknown
from .study import Study
from .subject import Subject
from .system import System


@cache
def system_types() -> dict[str, type[System]]:
    """All systems by name, in alphabetical order. Each room's package lists its classes in `SYSTEMS`."""
    import saddlescope.systems as rooms

    return _by_name(_listed(rooms, "SYSTEMS"))


@cache
def study_types() -> dict[str, type[Study]]:
    """All studies by name, in alphabetical order. Each room's package lists its classes in `STUDIES`."""
    import saddlescope.studies as rooms

    return _by_name(_listed(rooms, "STUDIES"))


@cache
def subject_types() -> dict[str, type[Subject]]:
    """Systems and studies together."""
    return _by_name([*system_types().values(), *study_types().values()])


def _listed(rooms: ModuleType, attribute: str) -> list[Any]:
    """Classes of all rooms, and of the packages that the entry point group of the same name leads to."""
    packages = [f"{rooms.__name__}.{module.name}" for module in pkgutil.iter_modules(rooms.__path__)]
    packages += [entry.value for entry in entry_points(group=rooms.__name__)]
    return [kind for package in packages for kind in getattr(importlib.import_module(package), attribute)]


def _by_name(kinds: list[Any]) -> dict[str, Any]:
    by_name = {kind.name: kind for kind in kinds}
    if len(by_name) < len(kinds):
        raise RuntimeError(f"two systems or studies share a name: {sorted(kind.name for kind in kinds)}")
    return dict(sorted(by_name.items()))


def subject_type(name: str) -> type[Subject]:
    """The class of the system or study called `name`."""
    kinds = subject_types()
    if name not in kinds:
        raise unknown("system", name, kinds)
    return kinds[name]


def subject(name: str, preset: str = "quick", /, **overrides: Any) -> Subject:
    """The system or study called `name`, with its preset's parameters and these overrides."""
    kind = subject_type(name)
    return kind(kind.preset(preset).replace(**overrides))


def system(name: str, preset: str = "quick", /, **overrides: Any) -> System:
    """The same for a system alone, which has all that the engines and a type checker may ask for."""
    found = subject(name, preset, **overrides)
    if not isinstance(found, System):
        raise BadArgument(f"{name} is a study, no system: use saddlescope.subject({name!r})")
    return found


def system_type_from(address: str) -> type[System]:
    """The class at "package.module:Name", for systems that are not installed as entry points."""
    package, _, name = address.partition(":")
    if not name:
        raise BadArgument(f"{address!r} is no address: give PACKAGE:SYSTEM, e.g. mylab.systems:TwoLayer")
    try:
        kind = getattr(importlib.import_module(package), name)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise BadArgument(f"cannot load {address!r}: {error}") from error
    if not (isinstance(kind, type) and issubclass(kind, System)):
        raise BadArgument(f"{address!r} is no saddlescope System but {kind!r}")
    return kind
