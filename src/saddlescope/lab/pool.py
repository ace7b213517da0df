"""Work on all cores, in processes that do not outlive their parent."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import wait
from typing import Any


def cores() -> int:
    return os.cpu_count() or 1


def on_cores(job: Callable[..., Any], parts: Sequence[Any], workers: int) -> Generator[tuple[int, Any], None, None]:
    """(place, job(part)) of every part, as they finish. An error or an interrupt cancels what has not begun."""
    # spawn: a forked process would inherit jax's threads in an unknown state.
    context = multiprocessing.get_context("spawn")
    with _modest(), ProcessPoolExecutor(workers, mp_context=context, initializer=_follow_parent) as pool:
        try:
            futures = {pool.submit(job, part): place for place, part in enumerate(parts)}
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BrokenProcessPool as error:
            raise RuntimeError("a worker process was killed, perhaps for want of memory; finished runs are kept") from (
                error
            )
        except BaseException:
            _abandon(pool)
            raise


def _abandon(pool: ProcessPoolExecutor) -> None:
    """Stop at once: running jobs are of no use any more, and waiting for them would make Ctrl-C look broken."""
    running = list(pool._processes.values())
    for process in running:
        process.terminate()
    for process in running:
        process.join(5)
        process.kill()
    # Waiting is short, the workers being gone, and needed: a pool left alone closes the pipe that the interpreter
    # writes to on its way out, which is a traceback by chance.
    pool.shutdown(wait=True, cancel_futures=True)


def _follow_parent() -> None:
    """End with the parent, even when it is killed: a worker blocked on its queue would wait for ever."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch(sentinel: int = parent.sentinel) -> None:
        wait([sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


MODEST = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    "NPROC": "1",  # of XLA's thread pool
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
}
"""What workers inherit: one thread for linear algebra, since on small matrices threads would only fight over the cores,
and of a GPU no more memory than each needs, since they share it."""


@contextmanager
def _modest() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in MODEST}
    os.environ.update(MODEST)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
