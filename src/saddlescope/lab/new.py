"""A new room: the example, under a name of one's own, to be changed file by file."""

from __future__ import annotations

import builtins
import keyword
import re
import sys
import tokenize
from importlib.util import find_spec
from pathlib import Path

import saddlescope
from saddlescope.core.errors import BadArgument
from saddlescope.core.files import remove
from saddlescope.core.registry import forget, subject_types

from .closure import ANALYSIS_MODULES

EXAMPLE = "squares"
TEMPLATES = Path(saddlescope.__file__).with_name("templates")

LONGEST = 30
"""Letters of a name: with it, lines of the example stay within their length."""

PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "0.1.0"
description = "A paper for saddlescope"
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["saddlescope"]

[project.optional-dependencies]
dev = ["pytest>=8"]

[project.entry-points."saddlescope.systems"]
{name} = "{name}"

[tool.hatch.build.targets.wheel]
packages = ["src/{name}"]

[tool.ruff]
line-length = 120

[tool.ruff.lint]
ignore = ["RUF012"] # class attributes of systems are declarations

[tool.ruff.lint.isort]
known-first-party = ["{name}", "saddlescope"]
"""

README = """\
# {name}

A paper for saddlescope. Its files are explained in [src/{name}](src/{name}), and in saddlescope's CONTRIBUTING.md.

```console
$ pip install --editable {name}
$ saddlescope check {name}
$ saddlescope reproduce {name}
$ pytest {name}/tests
$ python -m saddlescope.lab.sources {name}
```

The first line makes it known to saddlescope; the last one writes the table of equations anew.
"""


def new_room(name: str, *, package: bool) -> list[Path]:
    """The folders that were written: in a checkout of saddlescope a room and its tests; or a package of its own in the
    current folder, which is a room once it is installed."""
    _check_name(name)
    top = Path(name)
    if package:
        places = {EXAMPLE: top / "src" / name, "tests": top / "tests"}
        folders = [top]
    else:
        root = _checkout()
        places = {EXAMPLE: root / "src/saddlescope/systems" / name, "tests": root / "tests" / name}
        folders = list(places.values())
    for place in (place for folder in folders for place in (folder, folder.with_suffix(".py"))):
        if place.exists() or place.is_symlink():
            raise BadArgument(f"{place} exists already: choose another name, or remove it")
    _check_free(name)
    files = {
        places[EXAMPLE] / file.relative_to(TEMPLATES / EXAMPLE): _renamed(file, name)
        for file in sorted((TEMPLATES / EXAMPLE).rglob("*"))
        if file.suffix in (".py", ".md", ".tsv")
    }
    for file in (f"test_{EXAMPLE}.py", "expected.py"):
        files[places["tests"] / file.replace(EXAMPLE, name)] = _renamed(TEMPLATES / file, name)
    files[places["tests"] / "__init__.py"] = ""
    if package:
        files[top / "pyproject.toml"] = PYPROJECT.format(name=name)
        files[top / "README.md"] = README.format(name=name)
    try:
        for file, text in files.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            _write(file, text)
    except BaseException:
        for folder in folders:
            remove(folder)
        raise
    forget()
    return folders


def _check_name(name: str) -> None:
    if not re.fullmatch(rf"[a-z][a-z0-9_]{{0,{LONGEST - 1}}}", name) or keyword.iskeyword(name):
        what = f"small letters, digits and _, beginning with a letter, at most {LONGEST}, and no word of Python"
        raise BadArgument(f"`name` must be {what}, got {name if len(name) <= 2 * LONGEST else name[:LONGEST]!r}")
    last = name.rpartition("_")[2]
    if last in ANALYSIS_MODULES:
        raise BadArgument(f"`name` must not end in {last!r}: code below it would not count among that of a run")
    if hasattr(builtins, _title(name)) or _title(name) in _names_of_code():
        raise BadArgument(
            f"`name` {name!r} would call a class {_title(name)}, which means something else: choose another"
        )


def _check_free(name: str) -> None:
    taken = name in {known.partition("/")[0] for known in subject_types()}
    if taken or name in sys.stdlib_module_names or find_spec(name) is not None:
        what = "a system or study" if taken else "a Python package"
        raise BadArgument(f"`name` {name!r} is taken by {what}: choose another one")


def _names_of_code() -> set[str]:
    """All that the example's code names."""
    found = set()
    for file in (TEMPLATES / EXAMPLE).rglob("*.py"):
        with file.open("rb") as code:
            found |= {token.string for token in tokenize.tokenize(code.readline) if token.type == tokenize.NAME}
    return found - {EXAMPLE.capitalize()}


def _checkout() -> Path:
    """The folder of the project, if this package runs from one."""
    root = Path(saddlescope.__file__).resolve().parents[2]
    if not ((root / "pyproject.toml").is_file() and (root / "tests").is_dir()):
        raise BadArgument("saddlescope is installed, not checked out: add --package, for a package of your own")
    return root


def _title(name: str) -> str:
    """deep_linear -> DeepLinear, of the class."""
    return "".join(word.capitalize() for word in name.split("_"))


def _renamed(file: Path, name: str) -> str:
    """A file of the example with its two names replaced: squares, and Squares of its classes."""
    text = file.read_text(encoding="utf-8")
    for old, new in ((EXAMPLE, name), (EXAMPLE.capitalize(), _title(name))):
        # Not the word of a sentence ("How squares are learned"): a name has no space or full stop of prose around it.
        text = re.sub(rf"\b{old}(?=Spec|Training|Flow|Theory|\b)", new, text)
    return text


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        error.filename = error.filename or str(path)  # a full disk names no file
        raise
