"""Work on all cores, in processes that do not outlive their parent, and of which any may be lost."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import connection
from pathlib import Path
from typing import Any

from saddlescope.core.compilation import compilation_settings, pass_over_damaged_code

SUSPECT = 2
"""Losses after which a part runs by itself: if its worker is lost then too, the part is the reason."""


def cores() -> int:
    return os.cpu_count() or 1


def on_cores(
    job: Callable[[Any], Any],
    parts: Sequence[Any],
    workers: int,
    *,
    more: Callable[[Any], Iterable[Any]] = lambda part: (),
    note: Callable[[str], object] = lambda words: None,
) -> Generator[tuple[Any, Any], None, None]:
    """(part, job(part)) of every part, as they finish. An error or an interrupt cancels what has not begun.

    more: parts that can be done now that this one is.  note: is told of workers that were lost, whose work is then done
    again.
    """
    todo, lost = deque(parts), Counter[int]()
    while todo:
        begun: dict[Future[Any], Any] = {}
        with _pool(workers) as pool:
            processes, killed = pool._processes, 0
            try:
                while todo or begun:
                    while todo and len(begun) < _at_once(workers, lost, (*begun.values(), todo[0])):
                        begun[pool.submit(job, todo[0])] = todo[0]
                        todo.popleft()  # only now: a pool that has just broken accepts nothing
                    killed = _kills_for_memory()
                    done, _ = wait(begun, return_when=FIRST_COMPLETED)
                    for future in done:
                        result = future.result()
                        part = begun.pop(future)
                        lost.pop(id(part), None)
                        todo.extend(more(part))
                        yield part, result
                return
            except BrokenProcessPool:
                pass
            except BaseException:
                _abandon(pool)
                raise
        # All processes have ended: those that were not killed from outside were told to.
        by_kernel = any(process.exitcode == -signal.SIGKILL for process in processes.values())
        memory = by_kernel and _kills_for_memory() > killed
        again = []
        for future, part in begun.items():
            if future.done() and future.exception() is None:
                todo.extend(more(part))
                yield part, future.result()
            else:
                again.append(part)
        todo.extendleft(reversed(again))
        if memory and workers > 1:
            workers //= 2
            note(f"memory ran out and a worker process was killed: its work is done again, {workers} at a time")
            continue
        for part in again:
            lost[id(part)] += 1
            if len(again) == 1 and lost[id(part)] > SUSPECT:
                why = "memory ran out" if memory else "it was killed, or it crashed"
                raise RuntimeError(
                    f"the worker process of {getattr(part, 'words', part)} was lost {lost[id(part)]} times ({why}); "
                    "finished runs are kept"
                )
        note("a worker process was lost: its work is done again")


def _at_once(workers: int, lost: Mapping[int, int], parts: Iterable[Any]) -> int:
    """How many parts run side by side: one that was there at several losses runs by itself."""
    return 1 if any(lost.get(id(part), 0) >= SUSPECT for part in parts) else workers


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    # spawn: a forked process would inherit jax's threads in an unknown state.
    context = multiprocessing.get_context("spawn")
    with _worker_environment(), ProcessPoolExecutor(workers, mp_context=context, initializer=_begin) as pool:
        yield pool


def _kills_for_memory() -> int:
    """How many processes this machine, or this container, has killed for want of memory."""
    found = 0
    for file in ("/proc/vmstat", "/sys/fs/cgroup/memory.events"):
        with suppress(OSError, ValueError):
            lines = (line.split() for line in Path(file).read_text().splitlines())
            found += sum(int(words[1]) for words in lines if words[0] == "oom_kill")
    return found


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


def _begin() -> None:
    pass_over_damaged_code()
    _follow_parent()


def _follow_parent() -> None:
    """End with the parent, even when it is killed: a worker blocked on its queue would wait for ever."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch(sentinel: int = parent.sentinel) -> None:
        connection.wait([sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


WORKER_ENVIRONMENT = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    "NPROC": "1",  # of XLA's thread pool
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
}
"""What workers inherit: one thread for linear algebra, since on small matrices threads would only fight over the cores,
and of a GPU no more memory than each needs, since they share it."""


@contextmanager
def _worker_environment() -> Iterator[None]:
    settings = {**WORKER_ENVIRONMENT, **compilation_settings()}
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
