"""A progress bar on stderr for anything that takes more than two seconds, and nothing for what does not."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from .words import printable

PATIENCE = 2.0
"""Seconds of silence before a bar appears."""

PAUSE = 20.0
"""Seconds between two lines where there is no terminal."""

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
def progress(title: str) -> Iterator[Bar]:
    """A tick to report by. The bar appears after PATIENCE seconds, ticked or not, and vanishes at the end.

    Where there is no terminal, a log file say, a line now and then takes the place of the bar.
    """
    bar = Bar(title)
    timer = threading.Timer(PATIENCE, bar.show)
    timer.daemon = True
    timer.start()
    try:
        yield bar
    finally:
        timer.cancel()
        bar.hide()


class Bar:
    """A Tick; `note` is for what must not vanish with the bar."""

    def __init__(self, title: str):
        self.title = title
        self.lock = threading.Lock()
        self.bar: Any = None
        self.task: Any = None
        self.done = threading.Event()
        self.share, self.words = 0.0, ""
        self.began = time.monotonic()

    def show(self) -> None:
        # rich is imported only when a bar is due: it costs as much as numpy.
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        console = Console(file=sys.stderr)
        if not console.is_terminal:
            self._talk()
            return
        with self.lock:
            if self.done.is_set() or self.bar is not None:
                return
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TimeElapsedColumn(),
                TextColumn("[dim]{task.fields[words]}"),
            )
            self.bar = Progress(*columns, console=console, transient=True)
            # Without a tick nothing is known of the share that is done: the bar pulses.
            self.task = self.bar.add_task(escape(printable(self.title)), total=None, words="")
            self.bar.start()

    def _talk(self) -> None:
        while not self.done.wait(PAUSE):
            elapsed = round(time.monotonic() - self.began)
            with suppress(OSError, ValueError):  # nobody reads it any more
                said = f"{self.title}: {self.share:.0%} after {elapsed} s  {self.words}".rstrip()
                print(printable(said), file=sys.stderr)
                sys.stderr.flush()

    def __call__(self, share: float, words: str = "") -> None:
        self.share, self.words = share, words
        if self.bar is not None:
            from rich.markup import escape

            self.bar.update(self.task, total=1.0, completed=share, words=escape(printable(words)))

    def note(self, words: str) -> None:
        words = printable(words)
        with self.lock:
            if self.bar is None:
                with suppress(OSError, ValueError):  # nobody reads it any more
                    print(f"note: {words}", file=sys.stderr)
            else:
                self.bar.console.print(f"note: {words}", markup=False, highlight=False, soft_wrap=True)

    def hide(self) -> None:
        with self.lock:
            self.done.set()
            if self.bar is not None:
                self.bar.stop()
