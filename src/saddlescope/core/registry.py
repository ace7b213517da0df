"""Finds systems by walking the rooms and the entry points "saddlescope.systems"; nothing is listed by hand."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from .errors import BadArgument, unknown
from .system import System

ENTRY_POINTS = "saddlescope.systems"


@cache
def system_types() -> dict[str, type[System]]:
    """All systems by name, in alphabetical order. Each room's package lists its classes in `SYSTEMS`."""
    import saddlescope.systems as rooms

    packages = [f"{rooms.__name__}.{module.name}" for module in pkgutil.iter_modules(rooms.__path__)]
    packages += [entry.value for entry in entry_points(group=ENTRY_POINTS)]
    found = [kind for package in packages for kind in importlib.import_module(package).SYSTEMS]
    by_name = {kind.name: kind for kind in found}
    if len(by_name) < len(found):
        raise RuntimeError(f"two systems share a name: {sorted(kind.name for kind in found)}")
    return dict(sorted(by_name.items()))


def system(name: str, preset: str = "quick", /, **overrides: Any) -> System:
    """The system called `name`, with its preset's parameters and these overrides."""
    kinds = system_types()
    if name not in kinds:
        raise unknown("system", name, kinds)
    kind = kinds[name]
    return kind(kind.preset(preset).replace(**overrides))


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
