"""A new room: the example, under a name of one's own, to be changed file by file."""

from __future__ import annotations

import keyword
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import saddlescope
from saddlescope.core.errors import BadArgument
from saddlescope.core.files import remove
from saddlescope.core.registry import forget, subject_types

EXAMPLE = "squares"
TEMPLATES = Path(saddlescope.__file__).with_name("templates")

PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "0.1.0"
description = "A paper for saddlescope"
requires-python = ">=3.11"
dependencies = ["saddlescope"]

[project.optional-dependencies]
dev = ["pytest>=8"]

[project.entry-points."saddlescope.systems"]
{name} = "{name}"

[tool.hatch.build.targets.wheel]
packages = ["src/{name}"]
"""


def new_room(name: str, *, package: bool) -> list[Path]:
    """The folders that were written: in a checkout of saddlescope a room and its tests; or a package of its own in the
    current folder, which is a room once it is installed."""
    _check_name(name, package)
    top = Path(name)
    if package:
        places = {EXAMPLE: top / "src" / name, "tests": top / "tests"}
        folders = [top]
    else:
        root = _checkout()
        places = {EXAMPLE: root / "src/saddlescope/systems" / name, "tests": root / "tests" / name}
        folders = list(places.values())
    for folder in folders:
        if folder.exists():
            raise BadArgument(f"{folder} exists already: choose another name, or remove it")
    try:
        for file in sorted((TEMPLATES / EXAMPLE).rglob("*")):
            if file.suffix in (".py", ".md", ".tsv"):
                _write(places[EXAMPLE] / file.relative_to(TEMPLATES / EXAMPLE), _renamed(file, name))
        _write(places["tests"] / f"test_{name}.py", _renamed(TEMPLATES / f"test_{EXAMPLE}.py", name))
        if package:
            _write(top / "pyproject.toml", PYPROJECT.format(name=name))
        else:
            _write(places["tests"] / "__init__.py", "")
    except BaseException:
        for folder in folders:
            remove(folder)
        raise
    forget()
    return folders


def _check_name(name: str, package: bool) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise BadArgument(f"`name` must be small letters, digits and _, beginning with a letter, got {name!r}")
    taken = name in {known.partition("/")[0] for known in subject_types()}
    if taken or (package and (name in sys.stdlib_module_names or find_spec(name) is not None)):
        what = "a system or study" if taken else "a Python package"
        raise BadArgument(f"`name` {name!r} is taken by {what}: choose another one")


def _checkout() -> Path:
    """The folder of the project, if this package runs from one."""
    root = Path(saddlescope.__file__).resolve().parents[2]
    if not ((root / "pyproject.toml").is_file() and (root / "tests").is_dir()):
        raise BadArgument("saddlescope is installed, not checked out: add --package, for a package of your own")
    return root


def _renamed(file: Path, name: str) -> str:
    """A file of the example with its two names replaced: squares, and Squares of its classes."""
    title = "".join(word.capitalize() for word in name.split("_"))
    text = file.read_text(encoding="utf-8")
    for old, new in ((EXAMPLE, name), (EXAMPLE.capitalize(), title)):
        # Not the word of a sentence ("How squares are learned"): a name has no space or full stop of prose around it.
        text = re.sub(rf"\b{old}(?=Spec|Training|Flow|Theory|\b)", new, text)
    return text


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
