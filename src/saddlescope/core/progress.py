"""A progress bar on stderr for anything that takes more than two seconds, and nothing for what does not."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

PATIENCE = 2.0
"""Seconds of silence before a bar appears."""

Tick = Callable[[float, str], None]
"""Called with the share done, in [0, 1], and a few words on where things stand."""


def silent(share: float, words: str = "") -> None:
    """The tick of those who want no bar."""


def part_of(tick: Tick, place: int, count: int, title: str) -> Tick:
    """The tick of one of `count` equal parts of a work, whose own words follow the title."""

    def part(share: float, words: str = "") -> None:
        tick((place + share) / count, f"{title}: {words}" if words else title)

    return part


@contextmanager
def progress(title: str) -> Iterator[Tick]:
    """A tick to report by. The bar appears after PATIENCE seconds, ticked or not, and vanishes at the end."""
    bar = _Bar(title)
    timer = threading.Timer(PATIENCE, bar.show)
    timer.daemon = True
    timer.start()
    try:
        yield bar.tick
    finally:
        timer.cancel()
        bar.hide()


class _Bar:
    def __init__(self, title: str):
        self.title = title
        self.lock = threading.Lock()
        self.bar: Any = None
        self.task: Any = None
        self.done = False

    def show(self) -> None:
        # rich is imported only when a bar is due: it costs as much as numpy.
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        with self.lock:
            console = Console(file=sys.stderr)
            if self.done or self.bar is not None or not console.is_terminal:  # a log file has no use for a moving bar
                return
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TimeElapsedColumn(),
                TextColumn("[dim]{task.fields[words]}"),
            )
            self.bar = Progress(*columns, console=console, transient=True)
            # Without a tick nothing is known of the share that is done: the bar pulses.
            self.task = self.bar.add_task(self.title, total=None, words="")
            self.bar.start()

    def tick(self, share: float, words: str = "") -> None:
        if self.bar is not None:
            self.bar.update(self.task, total=1.0, completed=share, words=words)

    def hide(self) -> None:
        with self.lock:
            self.done = True
            if self.bar is not None:
                self.bar.stop()
