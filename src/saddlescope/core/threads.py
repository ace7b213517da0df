"""One thread for linear algebra where matrices are small: a second one costs more than it gives.

On a busy machine most of all: the threads of a product wait for each other, and one that has to wait for a core makes
it 10 to 100 times slower. What runs side by side here are runs and seeds.
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

    Blocks may be nested, and those of several Python threads may overlap: a BLAS with one number for the whole process
    gets it back from the last of them.
    """
    global _inside
    depth, counted = getattr(_depth, "value", 0), False
    try:
        if depth == 0:
            with _lock:
                if _inside == 0:
                    _before[:] = [(library, library.num_threads) for library in _libraries()]
                _inside, counted = _inside + 1, True
                for library, _ in _before:
                    _set(library, 1)
        _depth.value = depth + 1
        yield
    finally:
        _depth.value = depth
        if counted:
            with _lock:
                _inside -= 1
                for library, before in _before:
                    if _inside == 0 or _is_per_thread(library):
                        _set(library, before)


def _libraries() -> Sequence[Any]:
    # A library that is loaded inside would bring its own threads: SciPy has a BLAS beside NumPy's.
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas").lib_controllers


def _is_per_thread(library: Any) -> bool:
    """Whether each Python thread has a number of its own."""
    return library.internal_api == "mkl" or getattr(library, "threading_layer", "") == "openmp"


def _set(library: Any, number: int) -> None:
    # threadpoolctl lets the first Python thread that sets a process-wide number keep the others from setting it.
    release = getattr(library, "clear_controlling_thread", lambda force: None)
    release(force=True)
    library.set_num_threads(number)
    release(force=True)


def threads_for(shape: Sequence[int]) -> AbstractContextManager[None]:
    """One thread, unless a matrix of this shape is large."""
    return one_thread() if min(shape, default=0) <= LARGE else nullcontext()
