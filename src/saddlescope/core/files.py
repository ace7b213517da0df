"""Files appear whole or not at all: a full disk, a kill or Ctrl-C leaves what was there before."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Call `write` with a neighbouring temporary path of the same suffix, then move it into place."""
    partial = path.with_name(f".{os.getpid()}.partial{path.suffix}")
    try:
        write(partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
