"""Work on all cores, in processes that do not outlive their parent, and of which any may be lost."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import types
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import connection
from pathlib import Path
from typing import Any, NamedTuple

from saddlescope.core.compilation import compilation_settings, pass_over_damaged_code

ATTEMPTS = 3
"""How many workers a part may lose before it is taken for the reason."""


def cores() -> int:
    return os.cpu_count() or 1


class _Running(NamedTuple):
    """part: what the worker does.  kills: for want of memory, when it began."""

    part: Any
    worker: ProcessPoolExecutor
    kills: int


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
    running: dict[Future[Any], _Running] = {}
    with _staff() as staff:
        while todo or running:
            while todo and len(running) < workers:
                future, worker = staff.begin(partial(_told, job, todo[0]))
                running[future] = _Running(todo.popleft(), worker, _kills_for_memory())
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                part, worker, kills = running.pop(future)
                if not isinstance(future.exception(), BrokenProcessPool):
                    staff.release(worker, keep=len(running) + len(staff.idle) < workers)
                    result = future.result()
                    lost.pop(id(part), None)
                    todo.extend(more(part))
                    yield part, result
                    continue
                todo.appendleft(part)
                memory = _close_broken(worker) == -signal.SIGKILL and _kills_for_memory() > kills
                if memory and workers > 1:
                    workers //= 2
                    note(f"memory ran out and a worker process was killed: its work is done again, {workers} at a time")
                    continue
                lost[id(part)] += 1
                if lost[id(part)] == ATTEMPTS:
                    why = "memory ran out" if memory else "it was killed, or it crashed"
                    raise RuntimeError(
                        f"the worker process of {getattr(part, 'words', part)} was lost {ATTEMPTS} times ({why}); "
                        "finished runs are kept"
                    )
                note("a worker process was lost: its work is done again")


class _Staff:
    """Worker processes, each a pool of its own: if one is lost, the others go on."""

    def __init__(self) -> None:
        self.all: list[ProcessPoolExecutor] = []
        self.idle: list[ProcessPoolExecutor] = []

    def begin(self, call: Callable[[], Any]) -> tuple[Future[Any], ProcessPoolExecutor]:
        """Give a call to an idle worker, or to a new one."""
        while self.idle:
            worker = self.idle.pop()
            try:
                return worker.submit(call), worker
            except BrokenProcessPool:  # lost while it was idle
                worker.shutdown()
        # spawn: a forked process would inherit jax's threads in an unknown state.
        try:
            worker = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"), initializer=_set_up)
            self.all.append(worker)
            with _without_main():
                return worker.submit(call), worker
        except OSError as error:
            raise RuntimeError(
                f"no worker process can be started ({error.strerror or error}): is /dev/shm writable, and may more "
                "files be open? One worker, or less than 4 seeds, needs neither"
            ) from error

    def release(self, worker: ProcessPoolExecutor, *, keep: bool) -> None:
        """Take back a worker that has finished. keep: it waits for more work; else it ends and frees its memory."""
        if keep:
            self.idle.append(worker)
        else:
            worker.shutdown()


@contextmanager
def _staff() -> Iterator[_Staff]:
    staff = _Staff()
    with _worker_environment():
        try:
            yield staff
        except BaseException:
            _abandon(staff.all)
            raise
        for worker in staff.all:
            worker.shutdown()


def can_travel(job: Callable[..., Any]) -> bool:
    """Whether a worker can be given this job: it can be pickled, and nothing in it is of the caller's script."""
    try:
        return b"__main__" not in pickle.dumps(job)
    except Exception:  # whatever somebody's class makes of it
        return False


@contextmanager
def _without_main() -> Iterator[None]:
    """A worker that is started here does not run the caller's script again, which may have no main guard."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _told(job: Callable[[Any], Any], part: Any) -> Any:
    """An error that cannot travel between processes would look like a worker that was lost."""
    try:
        return job(part)
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            raise RuntimeError(f"{type(error).__name__}: {error}") from None
        raise


def _close_broken(worker: ProcessPoolExecutor) -> int | None:
    """The exit code of a broken pool's process, which is known once the pool is closed."""
    (process,) = worker._processes.values()
    worker.shutdown()
    return process.exitcode


def _kills_for_memory() -> int:
    """How many processes this machine, or this container, has killed for want of memory."""
    found = 0
    for file in ("/proc/vmstat", "/sys/fs/cgroup/memory.events"):
        with suppress(OSError, ValueError):
            lines = (line.split() for line in Path(file).read_text().splitlines())
            found += sum(int(words[1]) for words in lines if words[0] == "oom_kill")
    return found


def _abandon(workers: Sequence[ProcessPoolExecutor]) -> None:
    """Stop at once: running jobs are of no use any more, and waiting for them would make Ctrl-C look broken."""
    processes = [process for worker in workers for process in (worker._processes or {}).values()]
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(5)
        process.kill()
    # Waiting is short, the processes being gone, and needed: a pool left alone closes the pipe that the interpreter
    # writes to on its way out, which is a traceback by chance.
    for worker in workers:
        worker.shutdown(wait=True, cancel_futures=True)


def _set_up() -> None:
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
