"""Tables of numbers beside names that may be long: a narrow terminal shows fewer columns, and no name is cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rich.markup import escape
from rich.table import Table

from saddlescope.core.words import columns, folded, printable

NAME = 26
"""Characters that a name has at least before it is broken over lines, at dots and underscores."""

LEAST = 8
"""Characters of a line of a name, however little room there is."""

FRAME = 3
"""Characters that a column takes beside its own: a line and two spaces."""


class Column(NamedTuple):
    """header: may have two lines.  cell: of a row, its text.  keep: of two columns the one with less goes first.
    means: what it is, for the line below the table."""

    header: str
    cell: Callable[[Any], str]
    keep: int = 100
    means: str = ""


def fitted(title: str, name: Column, numbers: Sequence[Column], rows: Sequence[Any]) -> tuple[Table, list[Column]]:
    """The table, and the columns that it has.  name: the first column, of words.  numbers: the others, in order."""
    names = [printable(name.cell(row)) for row in rows]
    cells = {column: [column.cell(row) for row in rows] for column in numbers}
    wide = {column: max(map(len, [*column.header.split("\n"), *cells[column]])) for column in numbers}
    longest = max(map(len, [name.header, *names]))
    shown = list(numbers)
    while (room := columns() - 1 - FRAME - sum(wide[column] + FRAME for column in shown)) < min(longest, NAME):
        if len(shown) == 1:
            break
        shown.remove(min(shown, key=lambda column: column.keep))
    table = Table(title=title, title_justify="left", header_style="bold")
    table.add_column(name.header, no_wrap=True, justify="right" if all(map(str.isdecimal, names)) else "left")
    for column in shown:
        table.add_column(column.header, justify="right", no_wrap=True)
    for place, words in enumerate(names):
        table.add_row(escape(folded(words, max(room, LEAST))), *(cells[column][place] for column in shown))
    return table, shown


def legend(shown: Sequence[Column]) -> str:
    """What the columns that are shown mean, each once."""
    return "; ".join(dict.fromkeys(column.means for column in shown if column.means))
