"""Files appear whole or not at all: a full disk, a kill or Ctrl-C leaves what was there before."""

from __future__ import annotations

import csv
import errno
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from .errors import BadArgument
from .words import without_controls


class CannotWrite(OSError):
    """A full disk, say. Names what was asked for, not the temporary file on the way to it."""

    def __str__(self) -> str:
        return f"cannot write {self.filename}: {self.strerror}"


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Errors of the disk inside are told as errors of `path`."""
    try:
        yield
    except CannotWrite:
        raise
    except OSError as error:
        raise CannotWrite(error.errno, error.strerror or str(error), str(path)) from error


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Call `write` with a neighbouring temporary path of the same suffix, then move it into place."""
    partial = partial_name(path)
    try:
        with named(path):
            write(partial)
            let_others_read(partial)
            partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def let_others_read(path: Path) -> None:
    """A file that its owner alone can read, as safetensors leaves it, gets the permissions that new files have here."""
    if path.stat().st_mode & 0o077:
        return
    usual = partial_name(path)
    try:
        usual.touch()
        path.chmod(usual.stat().st_mode)
    finally:
        usual.unlink(missing_ok=True)


def write_once(path: Path, text: str) -> bool:
    """Whether the file is new. One that is there stays as it is, even one that another process has just written."""
    partial = partial_name(path)
    try:
        with named(path):
            partial.write_text(text, encoding="utf-8")
            try:
                os.link(partial, path)
            except FileExistsError:
                return False
            except OSError:  # a file system without links
                if path.exists():
                    return False
                partial.replace(path)
            return True
    finally:
        partial.unlink(missing_ok=True)


def partial_name(path: Path) -> Path:
    """A name beside it that nobody else has, not even another thread or a process of another machine."""
    return path.with_name(f".{uuid.uuid4().hex}.partial{path.suffix}")


@contextmanager
def lock(path: Path, *, wait: bool) -> Iterator[None]:
    """Only one process at a time holds the lock of this name; one that is killed lets go of it.

    The file exists while the lock is held.  wait: for the holder to let go; else BlockingIOError if there is one.
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


@contextmanager
def owned(path: Path) -> Iterator[None]:
    """One training at a time writes to a file or folder: two would take each other's checkpoint away."""
    place = path.absolute()
    with ExitStack() as stack:
        try:
            stack.enter_context(lock(place.with_name(f".{place.name}.lock"), wait=False))
        except BlockingIOError:
            raise BadArgument(f"cannot save to {path}: another training is writing to it; name another one") from None
        except OSError as error:
            raise CannotWrite(error.errno, error.strerror, str(path)) from error
        yield


def may_be_sound(error: Exception) -> bool:
    """Whether an error of reading says nothing about the file: no memory, no permission, too many open files."""
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in _NOT_THE_FILE)


_NOT_THE_FILE = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EACCES, errno.EPERM}


def _is_still(path: Path, handle: int) -> bool:
    """Whether an open file still has its name: the last holder of the lock removes it, and there may be a new one."""
    try:
        return path.stat().st_ino == os.fstat(handle).st_ino
    except FileNotFoundError:
        return False


def remove(path: Path) -> None:
    """A folder with all it holds, a file, or a link but not what it leads to; nothing where there is none."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """A column that a row lacks is empty in it.

    Words that a spreadsheet would take for a formula, or a terminal for a command, do no harm.
    """
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
        writer.writeheader()
        writer.writerows({name: _harmless(cell) for name, cell in row.items()} for row in rows)


def _harmless(cell: Any) -> Any:
    """Numbers stay what they are: they are no words."""
    if not isinstance(cell, str):
        return cell
    return "'" * cell.startswith(("=", "+", "-", "@")) + without_controls(cell)
