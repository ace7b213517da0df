"""The main job: from what is to be reproduced to the page that shows it."""

from __future__ import annotations

import time as wall
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saddlescope.core.errors import BadArgument
from saddlescope.core.progress import Tick, silent

from .records import Records
from .report import seconds_of, verdict_rows, write_report
from .reproduce import Note, Reproduced, carry_out, choose
from .store import Store


@dataclass(frozen=True)
class Reproduction:
    """results: of each room.  page: report.html."""

    results: list[Reproduced]
    page: Path

    @property
    def verdicts(self) -> list[dict[str, Any]]:
        """One row per claim: system, claim, verdict, value, bound, source, reason."""
        return verdict_rows(self.results)

    @property
    def mistakes(self) -> list[str]:
        """Made by the authors of rooms: code that failed, names of experiments that do not exist."""
        return [words for result in self.results for words in result.mistakes]

    @property
    def seconds(self) -> dict[str, float]:
        """What the runs of each room took."""
        return seconds_of(self.results)


def reproduce(
    *targets: str,
    full: bool = False,
    out: Path | str = "out",
    workers: int | None = None,
    recorded: Path | None = None,
    record: Path | None = None,
    tick: Tick = silent,
    note: Note = lambda words: None,
) -> Reproduction:
    """Run the papers' experiments, judge their claims, draw their figures, write report.html.

    targets: "SYSTEM" or "SYSTEM:FIGURE"; none means everything.  full: the papers' own size.  out: the folder for the
    page, its figures, and the runs, which are kept: a killed call goes on where it stopped.  workers: runs at a time;
    None: one for each core.  recorded: a folder of recorded runs, which need not be made.  record: a folder that also
    gets the verdicts, figures and thinned training curves.  tick: hears of the progress, and
    note of what went wrong and was mended.
    """
    began = wall.perf_counter()
    if workers is not None and workers < 1:
        raise BadArgument(f"`workers` must be at least 1, got {workers}")
    out = Path(out)
    chosen = choose(targets)
    store, records = Store(out / "runs"), recorded and Records(recorded)
    results = carry_out(chosen, store, full=full, workers=workers, records=records, tick=tick, note=note)
    tick(1.0, "writing the report")
    page = write_report(results, out, full=full, began=began)
    if record is not None:
        from .record import record as keep

        keep(results, store, out, record, full=full)
    return Reproduction(results, page)
