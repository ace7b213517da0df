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
_limits: Any = None


@contextmanager
def one_thread() -> Iterator[None]:
    """BLAS computes with one thread inside, in all threads of this process; afterwards it has as many as before.

    Also a decorator. Blocks may be nested, and may overlap in several threads: the last to leave gives them back.
    """
    global _inside, _limits
    with _lock:
        if _inside == 0:
            # A library that is loaded inside would bring its own threads: SciPy has a BLAS beside NumPy's.
            import scipy.linalg  # noqa: F401
            from threadpoolctl import threadpool_limits

            _limits = threadpool_limits(1, user_api="blas")
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _limits.restore_original_limits()
                _limits = None


def threads_for(shape: Sequence[int]) -> AbstractContextManager[None]:
    """One thread, unless a matrix of this shape is large."""
    return one_thread() if min(shape, default=0) <= LARGE else nullcontext()
