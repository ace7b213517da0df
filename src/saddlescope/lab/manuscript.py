"""What a paper of one's own takes from `reproduce`: figures for a journal, their numbers, verdicts as a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from saddlescope.core.errors import BadArgument, unknown
from saddlescope.core.files import named, write_whole

from .derived import Also
from .report import table_of
from .reproduce import Reproduced

FORMATS: dict[str, tuple[Also, ...]] = {"svg": (), "pdf": ("pdf",), "png": ("png",)}
"""Of figures: SVG, of which the report is made, and what is wanted besides it."""


def wanted(figures: str, data: bool) -> tuple[Also, ...]:
    """figures: a format.  data: whether the numbers behind the panels are wanted."""
    if figures not in FORMATS:
        raise unknown("format of `figures`", figures, FORMATS)
    return (*FORMATS[figures], *(("data",) if data else ()))


def check_table(path: Path) -> None:
    """Refuse what cannot be written, before the work."""
    folder = path.absolute().parent
    if path.suffix != ".tex":
        raise BadArgument(f"cannot write {path}: the name must end in .tex")
    if not folder.is_dir():
        raise BadArgument(f"cannot write {path}: the folder {folder} does not exist")


def write_files(results: Sequence[Reproduced], out: Path) -> None:
    """The files of all figures, each whole or not at all."""
    for place, content in (item for result in results for item in result.files.items()):
        path = out / place
        with named(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, lambda partial, content=content: partial.write_bytes(content))


def write_verdict_table(results: Sequence[Reproduced], path: Path) -> None:
    """All verdicts as LaTeX, a table for each room."""
    from saddlescope.show.verdict_table import verdict_tables

    table = verdict_tables([table_of(result) for result in results])
    write_whole(path, lambda partial: partial.write_text(table, encoding="utf-8"))
