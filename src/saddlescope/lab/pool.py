"""Work on all cores, in processes that do not outlive their parent, and of which any may be lost."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import connection
from pathlib import Path
from typing import Any

from saddlescope.core.compilation import compilation_settings

LOSSES = 3
"""How often the worker of one part may be lost before the part itself is held to be the reason."""


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

    more: parts that can be done now that this one is.  note: hears of workers that were lost; what they were at is done
    again.
    """
    todo, lost = deque(parts), Counter[int]()
    while todo:
        killed, memory = _kills_for_memory(), False
        # What was begun is kept here until it is known to be done.
        begun: dict[Future[Any], Any] = {}
        with _pool(workers) as pool:
            try:
                while todo or begun:
                    while todo and len(begun) < workers:
                        part = todo.popleft()
                        begun[pool.submit(job, part)] = part
                    done, _ = wait(begun, return_when=FIRST_COMPLETED)
                    for future in done:
                        result = future.result()
                        part = begun.pop(future)
                        todo.extend(more(part))
                        yield part, result
                return
            except BrokenProcessPool:
                memory = _kills_for_memory() > killed
            except BaseException:
                _abandon(pool)
                raise
        for future, part in begun.items():
            if future.done() and future.exception() is None:
                todo.extend(more(part))
                yield part, future.result()
                continue
            lost[id(part)] += 1
            if lost[id(part)] >= LOSSES:
                why = "for want of memory: fewer --workers need less" if memory else "from outside, or it crashed"
                raise RuntimeError(f"a worker process was killed {LOSSES} times {why}; finished runs are kept")
            todo.appendleft(part)
        if memory:
            workers = max(1, workers // 2)
            note(f"memory ran out and a worker process was killed: its work is done again, {workers} at a time")
        else:
            note("a worker process was lost: its work is done again")


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    # spawn: a forked process would inherit jax's threads in an unknown state.
    context = multiprocessing.get_context("spawn")
    with _modest(), ProcessPoolExecutor(workers, mp_context=context, initializer=_follow_parent) as pool:
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


def _follow_parent() -> None:
    """End with the parent, even when it is killed: a worker blocked on its queue would wait for ever."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch(sentinel: int = parent.sentinel) -> None:
        connection.wait([sentinel])
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
    settings = {**MODEST, **compilation_settings()}
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
