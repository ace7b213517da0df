"""What all commands share: results on stdout as tables or as one JSON value, and refusals before the work begins."""

from __future__ import annotations

import json as jsonlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from .core.errors import BadArgument
from .core.words import printable

Json = Annotated[bool, Parameter(negative="", help="Print one strict JSON value instead of a table.")]


WIDE = 140
"""Columns where there is no terminal to say how many it has: in a file, tables need not be squeezed."""


def print_result(what: Any, json: bool) -> int:
    if json:
        from .lab.outcome import strict
        from .show.tables import as_data

        print(jsonlib.dumps(strict(as_data(what)), allow_nan=False))
        return 0
    from rich.console import Console

    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(width=WIDE)
    for part in what if isinstance(what, list) else [what]:
        if isinstance(part, str):
            # What a person may want to copy (paths, settings) is not to be coloured or broken, and names out of files
            # are no markup and no commands to the terminal.
            console.print(printable(part), highlight=False, soft_wrap=True, markup=False)
        else:
            console.print(part, highlight=True)
    return 0


def check_files(*files: tuple[str, Path | None, Sequence[str]]) -> None:
    """Files that a command will write, each with its option and the suffixes it may have."""
    given = [(option, path, suffixes) for option, path, suffixes in files if path is not None]
    for _, path, suffixes in given:
        if suffixes and path.suffix not in suffixes:
            raise BadArgument(f"cannot write {path}: the name must end in {' or '.join(suffixes)}")
    for number, (option, path, _) in enumerate(given):
        for other, earlier, _ in given[:number]:
            if path.absolute() == earlier.absolute():
                raise BadArgument(f"{other} and {option} must be different files, got {path} twice")
    for _, path, _ in given:
        if not path.absolute().parent.is_dir():
            raise BadArgument(f"cannot write {path}: the folder {path.absolute().parent} does not exist")
        if not os.access(path.absolute().parent, os.W_OK):
            raise BadArgument(f"cannot write {path}: no permission to write in {path.absolute().parent}")
        if path.is_dir():
            raise BadArgument(f"cannot write {path}: it is a folder")
