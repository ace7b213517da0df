"""One thread for linear algebra where matrices are small: a second one costs more than it gives.

Most of all beside other work, where the first waits for it, 10 to 100 times longer. What is parallel here are runs and
seeds.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

LARGE = 1024
"""Shorter side of a matrix beyond which several threads are worth their cost."""

_lock = threading.Lock()
_inside = 0
_before: list[tuple[Any, int]] = []
_depth = threading.local()


@contextmanager
def one_thread() -> Iterator[None]:
    """BLAS computes with one thread inside; afterwards it has as many as before. Also a decorator.

    Blocks may be nested, and those of several threads may overlap. Some BLAS keep the number for each thread and some
    for the process: so each thread sets its own, and gives back what there was before anybody came.
    """
    global _inside
    depth = getattr(_depth, "value", 0)
    if depth == 0:
        with _lock:
            if _inside == 0:
                _before[:] = [(library, library.num_threads) for library in _libraries()]
            _inside += 1
            _set(1)
    _depth.value = depth + 1
    try:
        yield
    finally:
        _depth.value = depth
        if depth == 0:
            with _lock:
                _inside -= 1
                _set(None)


def _libraries() -> Sequence[Any]:
    # A library that is loaded inside would bring its own threads: SciPy has a BLAS beside NumPy's.
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas").lib_controllers


def _set(number: int | None) -> None:
    for library, before in _before:
        library.set_num_threads(before if number is None else number)


def threads_for(shape: Sequence[int]) -> AbstractContextManager[None]:
    """One thread, unless a matrix of this shape is large."""
    return one_thread() if min(shape, default=0) <= LARGE else nullcontext()
