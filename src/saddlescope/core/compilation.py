"""Compiled code on disk, for the other workers of one call and for the next: jax's cache, in a folder of the user's."""

from __future__ import annotations

import hashlib
import os
import platform
import time
import warnings
from contextlib import suppress
from pathlib import Path

FOLDER = "SADDLESCOPE_CACHE"
"""Variable of the environment that names another folder; empty: no compiled code is kept."""

LARGEST = 2 * 2**30
"""Bytes. Beyond it the oldest files are removed until half of it is left."""

FRESH = 60.0
"""Seconds for which an empty file may be one that is just being written."""


def cache_folder() -> Path | None:
    """Where saddlescope keeps what it can make again; None if nothing is to be kept."""
    chosen = os.environ.get(FOLDER)
    if chosen is not None:
        return Path(chosen).expanduser() if chosen else None
    home = os.environ.get("XDG_CACHE_HOME")
    with suppress(RuntimeError):  # no home
        return (Path(home) if home else Path.home() / ".cache") / "saddlescope"
    return None


def compilation_settings() -> dict[str, str]:
    """Variables of the environment that make jax keep what it compiles; none if the user has set some already.

    They must be set before jax is imported, and only in our own processes: importing the library does not set them.
    """
    folder = cache_folder()
    if folder is None or any(name.startswith("JAX_COMPILATION_CACHE") for name in os.environ):
        return {}
    return {
        "JAX_COMPILATION_CACHE_DIR": str(folder / f"compiled-{_processor()}"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


def keep_compiled() -> None:
    """Of this process and of those that it starts."""
    settings = compilation_settings()
    if settings:
        with suppress(OSError):  # without a folder jax compiles as ever
            folder = Path(settings["JAX_COMPILATION_CACHE_DIR"])
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _make_room(folder)
            os.environ.update(settings)
    pass_over_damaged_code()


def pass_over_damaged_code() -> None:
    """jax compiles again what it cannot read, and would say so in several lines each time."""
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation cache")


def _processor() -> str:
    """Code is compiled for what a processor can do: a home folder may be shared by several kinds."""
    words = [platform.machine(), platform.processor()]
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        words += next(([line] for line in lines if line.startswith(("flags", "Features"))), [])
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:12]


def _make_room(folder: Path) -> None:
    """Remove what a full disk left empty, which jax never writes again, and the oldest files of a folder too large."""
    files = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.is_file():
                continue  # XLA may keep folders of its own there
            with suppress(FileNotFoundError):  # another process is making room too
                about = entry.stat()
                files.append((about.st_mtime, about.st_size, entry.path))
                if about.st_size == 0 and time.time() - about.st_mtime > FRESH:
                    Path(entry.path).unlink()
    total = sum(size for _, size, _ in files)
    if total > LARGEST:
        for _, size, path in sorted(files):
            Path(path).unlink(missing_ok=True)
            total -= size
            if total <= LARGEST / 2:
                break
