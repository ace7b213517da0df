"""The main job: from what is to be reproduced to the page that shows it."""

from __future__ import annotations

import time as wall
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from saddlescope.core.errors import BadArgument
from saddlescope.core.progress import Tick, silent
from saddlescope.core.shown import Shown

from .manuscript import check_table, wanted, write_files, write_verdict_table
from .records import Records
from .report import seconds_of, verdict_rows, write_report
from .reproduce import Note, Reproduced, carry_out, choose
from .store import Store


@dataclass(frozen=True, repr=False)
class Reproduction(Shown):
    """results: of each room.  page: report.html."""

    shown_by: ClassVar[str] = "saddlescope.show.of_reproduction"

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
    recorded: Path | str | None = None,
    record: Path | None = None,
    figures: str = "svg",
    data: bool = False,
    latex: Path | str | None = None,
    tick: Tick = silent,
    note: Note = lambda words: None,
) -> Reproduction:
    """Run the papers' experiments, judge their claims, draw their figures, write report.html.

    targets: "SYSTEM" or "SYSTEM:FIGURE"; none means everything.  full: the papers' own size.  out: the folder for the
    page, its figures, and the runs, which are kept: a killed call goes on where it stopped.  workers: runs at a time;
    None: one for each core.  recorded: a folder of recorded runs, which need not be made; "results" means those that
    come with saddlescope, unless there is such a folder here.  record: a folder that also gets the verdicts, figures
    and thinned training curves.

    figures: "pdf" or "png" to have them for a journal too, as wide as one of its columns or as two.  data: the numbers
    behind every panel as well, in `out`/data, as CSV.  latex: a file (.tex) that gets all verdicts as tables.

    tick: hears of the progress, and note of what went wrong and was mended.
    """
    began = wall.perf_counter()
    if workers is not None and workers < 1:
        raise BadArgument(f"`workers` must be at least 1, got {workers}")
    out = Path(out)
    also = wanted(figures, data)
    if latex is not None:
        check_table(Path(latex))
    chosen = choose(targets)
    store, records = Store(out / "runs"), Records.found(Path(recorded)) if recorded else None
    results = carry_out(chosen, store, full=full, workers=workers, records=records, also=also, tick=tick, note=note)
    tick(1.0, "writing the report")
    page = write_report(results, out, full=full, began=began)
    write_files(results, out)
    if latex is not None:
        write_verdict_table(results, Path(latex))
    if record is not None:
        from .record import record as keep

        keep(results, store, out, record, full=full)
    return Reproduction(results, page)
