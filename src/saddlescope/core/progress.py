"""A progress bar on stderr for anything that takes more than two seconds, and nothing for what does not."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

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
    shown: list[tuple[Any, Any]] = []

    def tick(share: float, words: str = "") -> None:
        if not shown:
            if time.monotonic() - started < PATIENCE:
                return
            shown.append(_bar(title))
            shown[0][0].start()
        bar, task = shown[0]
        bar.update(task, completed=share, words=words)

    try:
        yield tick
    finally:
        for bar, _ in shown:
            bar.stop()


def _bar(title: str):
    # rich is imported only when a bar is due: it costs as much as numpy.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    console = Console(file=sys.stderr)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("[dim]{task.fields[words]}"),
        console=console,
        transient=True,
        disable=not console.is_terminal,  # a log file has no use for a moving bar
    )
    return bar, bar.add_task(title, total=1.0, words="")
