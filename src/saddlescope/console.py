"""What all commands share: results on stdout as tables or as one JSON value, and refusals before the work begins."""

from __future__ import annotations

import json as jsonlib
import os
import sys
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from .core.errors import BadArgument
from .core.words import columns, printable

Json = Annotated[bool, Parameter(negative="", help="Print one strict JSON value instead of a table.")]


def print_result(what: Any, json: bool) -> int:
    if json:
        from .core.strict import strict
        from .show.tables import as_data

        print(jsonlib.dumps(strict(as_data(what)), allow_nan=False))
        return 0
    console = _console()
    for part in what if isinstance(what, list) else [what]:
        if isinstance(part, str):
            # What a person may want to copy (paths, settings) is not to be coloured or broken, and names out of files
            # are no markup and no commands to the terminal.
            console.print(printable(part), highlight=False, soft_wrap=True, markup=False)
        else:
            console.print(part, highlight=True)
    return 0


def _console() -> Any:
    from rich.console import Console

    class Pipe(Console):
        def on_broken_pipe(self) -> None:
            raise  # rich would end the program with an error; a reader that has had enough is none

    return Pipe(width=columns())


def say(kind: str, words: object) -> None:
    """A line on stderr that begins with "note" or "error"."""
    print(f"{kind}: {printable(str(words))}", file=sys.stderr)


def open_streams() -> None:
    """Python has no stream where the caller has closed one (2>&-), and what is printed to none goes to stdout."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115  (for as long as the process lives)


def check_files(*files: tuple[str, Path | None, Sequence[str]], folders: Container[str] = ()) -> None:
    """Files that a command will write, each with its option and the suffixes it may have.

    folders: options that name a folder instead, which may be there already.
    """
    given = [(option, path, suffixes) for option, path, suffixes in files if path is not None]
    for _, path, suffixes in given:
        if suffixes and path.suffix not in suffixes:
            raise BadArgument(f"cannot write {path}: the name must end in {' or '.join(suffixes)}")
    for number, (option, path, _) in enumerate(given):
        for other, earlier, _ in given[:number]:
            if path.absolute() == earlier.absolute():
                raise BadArgument(f"{other} and {option} must be different files, got {path} twice")
    for option, path, _ in given:
        if not path.absolute().parent.is_dir():
            raise BadArgument(f"cannot write {path}: the folder {path.absolute().parent} does not exist")
        if not os.access(path.absolute().parent, os.W_OK):
            raise BadArgument(f"cannot write {path}: no permission to write in {path.absolute().parent}")
        if option not in folders and path.is_dir():
            raise BadArgument(f"cannot write {path}: it is a folder")
