"""Work beside the training: in order, at most one measurement at a time, and no error lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Literal

from saddlescope.core.errors import BadArgument


def beside(background: bool | Literal["auto"], on_accelerator: bool) -> bool:
    """Whether to measure in a thread. "auto": if an accelerator trains meanwhile.

    Where the CPU trains, a thread takes the same cores: for 4 layers of width 256 on 2 cores a measurement then costs
    the training 0.5 s or more, since the thread pools of NumPy and torch wait for each other, and 0.06 s in between.
    """
    if background not in (True, False, "auto"):
        raise BadArgument(f"`background` must be True, False or 'auto', got {background!r}")
    return on_accelerator if background == "auto" else bool(background)


class Worker:
    """background False: every job is done at once, where it is given."""

    def __init__(self, background: bool):
        self.background = background
        self._pool = ThreadPoolExecutor(1, "saddlescope-watch") if background else None
        self._pending: deque[Future[None]] = deque()

    def submit(self, job: Callable[[], None]) -> None:
        """Wait for what is under way, then begin."""
        self.wait()
        self.add(job)

    def add(self, job: Callable[[], None]) -> None:
        """Begin when everything given before is done."""
        if self._pool is None:
            job()
        else:
            self._pending.append(self._pool.submit(job))

    def check(self) -> None:
        """Raise what a finished job raised, once."""
        while self._pending and self._pending[0].done():
            self._pending.popleft().result()

    @property
    def news(self) -> str:
        """In words, without waiting: whether a job is under way, or has failed and was not told of yet."""
        for job in tuple(self._pending):
            if not job.done():
                return "measuring"
            if error := job.exception():
                return f"the last measurement failed: {type(error).__name__}: {error}"
        return ""

    def wait(self) -> None:
        while self._pending:
            self._pending.popleft().result()

    def close(self) -> None:
        try:
            self.wait()
        finally:
            if self._pool is not None:
                self._pool.shutdown()
