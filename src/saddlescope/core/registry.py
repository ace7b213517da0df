"""Finds systems and studies by walking their rooms and the entry points; nothing is listed by hand."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from .errors import BadArgument, unknown
from .subject import Subject
from .system import System

LISTS = {"systems": "SYSTEMS", "studies": "STUDIES"}
"""Packages of rooms, and names of entry point groups; the tuple in which a room of each lists its classes."""


@cache
def _found() -> tuple[dict[str, type[Subject]], dict[str, str]]:
    """All systems and studies by name, in alphabetical order; and the packages that could not be loaded, and why."""
    kinds: dict[str, type[Subject]] = {}
    broken: dict[str, str] = {}
    for group, listed in LISTS.items():
        rooms = importlib.import_module(f"saddlescope.{group}")
        for module in pkgutil.iter_modules(rooms.__path__):
            for kind in getattr(importlib.import_module(f"{rooms.__name__}.{module.name}"), listed):
                kinds[kind.name] = kind
        for entry in entry_points(group=rooms.__name__):
            try:
                theirs = _checked(getattr(importlib.import_module(entry.value), listed))
            except Exception as error:  # somebody else's code may raise anything
                broken[entry.value] = f"{type(error).__name__}: {error}"
                continue
            for kind in theirs:
                if kinds.setdefault(kind.name, kind) is not kind:
                    broken[entry.value] = f"its name {kind.name!r} is taken by {kinds[kind.name].__module__}"
    return dict(sorted(kinds.items())), broken


def _checked(listed: Any) -> tuple[type[Subject], ...]:
    wrong = [kind for kind in listed if not (isinstance(kind, type) and issubclass(kind, Subject))]
    if wrong:
        raise TypeError(f"{wrong[0]!r} is not a System or Subject")
    for kind in listed:
        assert kind.name and kind.summary and kind.presets and kind.observables  # raises AttributeError where it lacks
    return tuple(listed)


def forget() -> None:
    """Look for systems and studies again, when they are next asked for."""
    _found.cache_clear()
    _addressed.clear()


_addressed: dict[str, type[Subject]] = {}
"""Classes that were asked for by "package.module:Class" in this process: from then on they are known by name too."""


def subject_types() -> dict[str, type[Subject]]:
    """All systems and studies by name, in alphabetical order.

    Each room's package lists its classes in `SYSTEMS` or `STUDIES`.
    """
    return {**_addressed, **_found()[0]}


def system_types() -> dict[str, type[System]]:
    """All systems by name, in alphabetical order."""
    return {name: kind for name, kind in subject_types().items() if issubclass(kind, System)}


def broken_packages() -> dict[str, str]:
    """Installed packages whose systems could not be loaded, and why."""
    return _found()[1]


def subject_type(name: str) -> type[Subject]:
    """The class of the system or study called `name`, or at "package.module:Class"."""
    if ":" in name:
        return _type_at(name)
    kinds = subject_types()
    if name not in kinds:
        if why := next((why for package, why in broken_packages().items() if name.partition("/")[0] in package), ""):
            raise BadArgument(f"the package of {name!r} could not be loaded: {why}")
        raise unknown("system", name, kinds)
    return kinds[name]


def subject(name: str, preset: str = "quick", /, **overrides: Any) -> Subject:
    """The system or study called `name`, with its preset's parameters and these overrides.

    name: one of `subject_types()`, or "package.module:Class".
    """
    kind = subject_type(name)
    return kind(kind.preset(preset).replace(**overrides))


def named(what: Subject | str) -> Any:
    """A subject, or the one of this name with its quick preset."""
    if isinstance(what, Subject):
        return what
    if not isinstance(what, str):
        raise BadArgument(f"`system` must be a system or the name of one, got {what!r}: see saddlescope.system()")
    return subject(what)


def system(name: str, preset: str = "quick", /, **overrides: Any) -> System:
    """The same as `subject` for a system alone, which has all that the engines and a type checker may ask for."""
    found = subject(name, preset, **overrides)
    if not isinstance(found, System):
        raise BadArgument(f"{name} is a study, not a system: use saddlescope.subject({name!r})")
    return found


def _type_at(address: str) -> type[Subject]:
    """The class at "package.module:Name", for what is not installed; modules of the current folder are found too."""
    package, _, name = address.partition(":")
    if not (package and name):
        raise BadArgument(f"{address!r} is not an address: give PACKAGE:SYSTEM, e.g. mylab.systems:TwoLayer")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        kind = getattr(importlib.import_module(package), name)
    except Exception as error:  # somebody else's code may raise anything
        raise BadArgument(f"cannot load {address!r}: {type(error).__name__}: {error}") from error
    if not (isinstance(kind, type) and issubclass(kind, Subject)):
        raise BadArgument(f"{address!r} is not a saddlescope System but {kind!r}")
    _addressed[kind.name] = kind
    return kind
