"""Files appear whole or not at all: a full disk, a kill or Ctrl-C leaves what was there before."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Call `write` with a neighbouring temporary path of the same suffix, then move it into place."""
    partial = path.with_name(f".{os.getpid()}.partial{path.suffix}")
    try:
        write(partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def lock(path: Path, *, wait: bool) -> Iterator[None]:
    """Nobody else is inside with this file, which exists meanwhile; a process that is killed lets go of it.

    wait: until the other has left; else BlockingIOError where there is one.
    """
    import fcntl

    while True:
        with path.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            if _is_still(path, file.fileno()):
                try:
                    yield
                finally:
                    path.unlink(missing_ok=True)
                return


def _is_still(path: Path, handle: int) -> bool:
    """Whether an open file still has its name: who was inside before has removed it, and another may have a new one."""
    try:
        return path.stat().st_ino == os.fstat(handle).st_ino
    except FileNotFoundError:
        return False


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """A column that a row lacks is empty in it."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
        writer.writeheader()
        writer.writerows(rows)
