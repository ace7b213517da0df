"""A limit on the size of files stands for a full disk: writes fail in the middle, with a real error.

Python writes no bytecode meanwhile: it would cut it short without an error, and take it for whole ever after.
"""

from __future__ import annotations

import contextlib
import resource
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def full_disk(size: int) -> Iterator[None]:
    """In this process. size: bytes of a file that can still be written."""
    limits, bytecode = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        sys.dont_write_bytecode = bytecode


def on_a_full_disk(kib: int) -> list[str]:
    """What a command begins with that is to meet one. It keeps no compiled code."""
    variables = ["PYTHONDONTWRITEBYTECODE=1", "SADDLESCOPE_CACHE="]
    return ["env", *variables, "bash", "-c", f'ulimit -f {kib}; exec "$@"', "bash"]
