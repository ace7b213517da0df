"""Ctrl-C, or a scheduler's SIGTERM, on the command line: always heard, and a clean way out."""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
from contextlib import suppress
from typing import Any

AGAIN = 0.05
"""Seconds after which an interrupt that fell on deaf ears is sent once more."""


class Terminated(KeyboardInterrupt):
    """SIGTERM: what Ctrl-C puts in order is put in order."""


def hear_every_interrupt() -> None:
    """Take SIGTERM for an interrupt, and send one again that Python would swallow.

    Python ignores what is raised in finalisers and in callbacks of the garbage collector, and jax, which has such a
    callback, collects often while it traces: there 4 of 60 Ctrl-C were lost, and training went on.
    """
    signal.signal(signal.SIGTERM, _terminate)
    report = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            report(unraisable)
            return
        # Later and from another thread: from here it would be swallowed again.
        by = signal.SIGTERM if issubclass(unraisable.exc_type, Terminated) else signal.SIGINT
        again = threading.Timer(AGAIN, _interrupt_main, [by])
        again.daemon = True
        again.start()

    sys.unraisablehook = hook


def _terminate(*_: Any) -> None:
    raise Terminated


def _interrupt_main(by: signal.Signals) -> None:
    """By a real signal to the main thread where there are such: it also wakes one that sleeps or waits."""
    if hasattr(signal, "pthread_kill") and (main := threading.main_thread().ident) is not None:
        signal.pthread_kill(main, by)
    else:
        _thread.interrupt_main(by)


def leave_at_once(code: int) -> None:
    """End the process without tearing the interpreter down.

    After an interrupt compiled code may still run in threads of its own; taking the interpreter apart under it ended
    4 times of 60 in a segmentation fault. What has to be put in order was, while the interrupt passed through.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # nobody reads it any more
            stream.flush()
    os._exit(code)
