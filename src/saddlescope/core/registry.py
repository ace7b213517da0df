"""Finds systems and studies by walking their rooms and the entry points; nothing is listed by hand."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from .errors import BadArgument, told, unknown
from .subject import Subject
from .system import System

LISTS = {"systems": "SYSTEMS", "studies": "STUDIES"}
"""Packages of rooms, and names of entry point groups; the tuple in which a room of each lists its classes."""

STATED: Mapping[str, type] = {
    "name": str,
    "paper": str,
    "summary": str,
    "spec_type": type,
    "presets": Mapping,
    "observables": Mapping,
}
"""What every class states, and as what."""


@cache
def _found() -> tuple[dict[str, type[Subject]], dict[str, str]]:
    """All systems and studies by name, in alphabetical order; and the packages that could not be loaded, and why."""
    kinds: dict[str, type[Subject]] = {}
    broken: dict[str, str] = {}
    for group, listed in LISTS.items():
        rooms = importlib.import_module(f"saddlescope.{group}")
        ours = [f"{rooms.__name__}.{module.name}" for module in pkgutil.iter_modules(rooms.__path__)]
        for package in [*ours, *(entry.value for entry in entry_points(group=rooms.__name__))]:
            with somebodys_code() as failed:
                for kind in getattr(importlib.import_module(package), listed):
                    _check(kind)
                    if kinds.setdefault(kind.name, kind) is not kind:
                        raise ValueError(f"its name {kind.name!r} is taken by {kinds[kind.name].__module__}")
            if failed:
                broken[package] = failed[0]
    return dict(sorted(kinds.items())), broken


@contextmanager
def somebodys_code() -> Iterator[list[str]]:
    """It may raise anything, SystemExit too: the list then says what. Ctrl-C goes through."""
    failed: list[str] = []
    try:
        yield failed
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        failed.append(told(error))


def _check(kind: Any) -> None:
    """Raise an error that says what a class lacks."""
    if not (isinstance(kind, type) and issubclass(kind, Subject)):
        raise TypeError(f"{kind!r} is not a System or Subject")
    for name, what in STATED.items():
        if not hasattr(kind, name):
            raise TypeError(f"{kind.__name__} states no `{name}`")
        if not isinstance(getattr(kind, name), what):
            raise TypeError(f"`{name}` of {kind.__name__} must be a {what.__name__}, got {getattr(kind, name)!r}")
    if not (kind.name and "quick" in kind.presets):
        raise ValueError(f"{kind.__name__} needs a `name`, and a preset 'quick'")
    if lacking := sorted(kind.__abstractmethods__):
        raise TypeError(f"{kind.__name__} lacks {', '.join(lacking)}")


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
        if name.isidentifier() and Path(name, "pyproject.toml").is_file():
            raise BadArgument(f"the folder {name!r} here is not installed: pip install --editable {name}")
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
    """The system called `name`, with its preset's parameters and these overrides.

    As `subject`, but no study: what it gives has all that the engines and a type checker may ask for.
    """
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
    with somebodys_code() as failed:
        kind = getattr(importlib.import_module(package), name)
        _check(kind)
        _addressed[kind.name] = kind
        return kind
    raise BadArgument(f"cannot load {address!r}: {failed[0]}")
