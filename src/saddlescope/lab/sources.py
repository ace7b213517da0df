"""Where a room implements what its paper states."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from typing import Any

from saddlescope.core.errors import unknown
from saddlescope.core.source import find_statement, implementations
from saddlescope.core.system import System


def statements(kind: type[System], statement: str | None = None) -> list[dict[str, Any]]:
    """Rows of statement, function, file and line; `statement` None for all that the room implements."""
    room = importlib.import_module(kind.__module__.rpartition(".")[0])
    for module in pkgutil.iter_modules(room.__path__):
        importlib.import_module(f"{room.__name__}.{module.name}")
    found = implementations(kind.paper) if statement is None else find_statement(kind.paper, statement)
    if not found:
        known = [name for entry in implementations(kind.paper) for name in entry.statements]
        raise unknown(f"statement of {kind.paper}", str(statement), known)
    rows = []
    for entry in found:
        file, line = entry.location
        names = entry.statements if statement is None else [statement]
        rows += [
            {"statement": name, "function": entry.function.__qualname__, "file": _short(file), "line": line}
            for name in names
        ]
    return sorted(rows, key=lambda row: (row["file"], row["line"]))


def _short(file: str) -> str:
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except ValueError:
        return file
