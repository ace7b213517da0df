"""A progress bar on stderr for anything that takes more than two seconds, and nothing for what does not."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 2.0
"""Seconds of silence before a bar appears."""

Tick = Callable[[float, str], None]
"""Called with the share done, in [0, 1], and a few words on where things stand."""


def silent(share: float, words: str = "") -> None:
    """The tick of those who want no bar."""


@contextmanager
def progress(title: str, enabled: bool = True) -> Iterator[Tick]:
    if not enabled:
        yield silent
        return
    started = time.monotonic()
    bar = None
    task = None

    def tick(share: float, words: str = "") -> None:
        nonlocal bar, task
        if bar is None:
            if time.monotonic() - started < PATIENCE:
                return
            bar, task = _bar(title)
            bar.start()
        bar.update(task, completed=share, words=words)

    try:
        yield tick
    finally:
        if bar is not None:
            bar.stop()


def _bar(title: str):
    # rich is imported only when a bar is due: it costs as much as numpy.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("[dim]{task.fields[words]}"),
        console=Console(file=sys.stderr),
        transient=True,
    )
    return bar, bar.add_task(title, total=1.0, words="")
