"""Compiled code on disk, for the other workers of one call and for the next: jax's cache, in a folder of the user's."""

from __future__ import annotations

import hashlib
import os
import platform
from contextlib import suppress
from pathlib import Path

FOLDER = "SADDLESCOPE_CACHE"
"""Variable of the environment that names another folder; empty: nothing is kept."""

LARGEST = 2 * 2**30
"""Bytes from which the oldest half makes room."""


def cache_folder() -> Path | None:
    """Where saddlescope keeps what it can make again; None: nowhere."""
    chosen = os.environ.get(FOLDER)
    if chosen is not None:
        return Path(chosen) if chosen else None
    home = os.environ.get("XDG_CACHE_HOME")
    with suppress(RuntimeError):  # no home
        return (Path(home) if home else Path.home() / ".cache") / "saddlescope"
    return None


def compilation_settings() -> dict[str, str]:
    """Variables of the environment that make jax keep what it compiles; empty where the user has settings of his own.

    To be set before jax is imported; for processes that are ours alone, so not on import of the library.
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


def _processor() -> str:
    """Code is compiled for what a processor can do: a home folder may be shared by several kinds."""
    words = [platform.machine(), platform.processor()]
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        words += next(([line] for line in lines if line.startswith(("flags", "Features"))), [])
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:12]


def _make_room(folder: Path) -> None:
    with os.scandir(folder) as entries:
        files = [(entry.stat().st_mtime, entry.stat().st_size, entry.path) for entry in entries if entry.is_file()]
    if sum(size for _, size, _ in files) > LARGEST:
        for _, _, path in sorted(files)[: len(files) // 2]:
            Path(path).unlink(missing_ok=True)
