"""Names of a package that are loaded when they are first used."""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def names_in_stub(file: str) -> dict[str, str]:
    """The public names of a package, which the stub beside its __init__.py imports, and the module of each.

    Those of a room that is absent are not offered.
    """
    folder, stub = Path(file).parent, ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    homes = [(node.module, node.names) for node in stub.body if isinstance(node, ast.ImportFrom) and node.module]
    there = [(home, names) for home, names in homes if (folder / f"{home.replace('.', '/')}.py").is_file()]
    return {alias.name: home for home, names in there for alias in names}


def lazy_names(package: str, homes: dict[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """A package's __getattr__ and __dir__. homes: the module of each name, relative to the package."""

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}; it offers {', '.join(sorted(homes))}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return find, lambda: sorted(homes)
