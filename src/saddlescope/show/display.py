"""How a result shows itself: in a few lines of text, as a piece of a notebook's page, as a picture, as a data frame.

What is to be said of a result is told by its own module (`core.shown.Shown.shown_by`); here it is set and drawn.
"""

from __future__ import annotations

import base64
import io
import textwrap
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

from saddlescope.core.words import printable

from .style import STYLE

if TYPE_CHECKING:
    import pandas

ROWS = 14
"""Of a table that shows itself; more are counted."""

LINES = 25
"""Of a result in a terminal, at most."""

CELL = 44
"""Characters of a cell, of which more are cut."""

LINE = 100
"""Characters of a line beside or below a table."""

SMALL, LARGE = (5.6, 2.8), (6.4, 3.6)
"""Of the picture in a page, and of one on its own, in inches; a module's `size(result)` may say otherwise."""


@dataclass(frozen=True)
class Card:
    """What a result says of itself, in short.

    headline: one line.  columns, rows: a table of words; of numbers where a column is named in `numbers`.  lines: below
    it.
    """

    headline: str
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    numbers: Sequence[str] = ()
    lines: Sequence[str] = ()


def text(result: Any) -> str:
    """At most `LINES` lines."""
    card = _card(result)
    shown = card.rows[:ROWS]
    table = [list(card.columns), *shown] if shown else []
    widths = [min(max(len(row[place]) for row in table), CELL) for place in range(len(card.columns))] if table else []
    right = [name in card.numbers for name in card.columns]
    lines = textwrap.wrap(printable(card.headline), LINE)
    for row in table:
        cells = [
            _cut(cell, width).rjust(width) if is_number else _cut(cell, width).ljust(width)
            for cell, width, is_number in zip(row, widths, right, strict=True)
        ]
        line = f"  {'  '.join(cells)}".rstrip()
        lines.append(line if len(line) <= LINE else f"{line[: LINE - 3]}...")
    for line in _closing(card):
        lines += textwrap.wrap(printable(line), LINE)
    return "\n".join(lines if len(lines) <= LINES else [*lines[: LINES - 1], "..."])


def page(result: Any) -> str:
    """A piece of HTML that needs nothing else: the table, the small picture beside it, the lines below."""
    card = _card(result)
    align = ["right" if name in card.numbers else "left" for name in card.columns]
    head = "".join(
        f'<th style="text-align:{side}">{_html(name)}</th>' for name, side in zip(card.columns, align, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f'<td style="text-align:{side}">{_html(cell)}</td>' for cell, side in zip(row, align, strict=True))
        + "</tr>"
        for row in card.rows[:ROWS]
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if body else ""
    lines = "".join(f"<div>{_html(line)}</div>" for line in _closing(card))
    side = "display:flex;flex-wrap:wrap;gap:1.5em;align-items:flex-start"
    return (
        f'<div class="saddlescope"><div style="margin-bottom:.4em"><b>{_html(card.headline)}</b></div>'
        f'<div style="{side}">{table}{_image(result, card.headline)}</div>'
        f'<div style="opacity:.75;font-size:.9em;margin-top:.4em">{lines}</div></div>'
    )


def plot(result: Any, axes: Any = None) -> Any:
    """The picture on these axes, or on those of a new figure of pyplot's, so that a notebook shows it."""
    if axes is None:
        import matplotlib.pyplot as plt

        with plt.rc_context(STYLE):
            _, axes = plt.subplots(figsize=_size(result, LARGE))
            _of(result).draw(result, axes)
        return axes
    _of(result).draw(result, axes)
    return axes


def frame(result: Any) -> pandas.DataFrame:
    import pandas

    return pandas.DataFrame(_of(result).rows(result))


def drawn(draw: Callable[[Any], None], size: tuple[float, float] = SMALL) -> bytes:
    """A PNG. Without pyplot: the user's own backend and figures are left alone."""
    import matplotlib
    from matplotlib.figure import Figure

    data = io.BytesIO()
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a name may be in letters that the font lacks
        figure = Figure(figsize=size, layout="constrained")
        draw(figure.subplots())
        figure.savefig(data, format="png", dpi=144)
    return data.getvalue()


def _image(result: Any, label: str) -> str:
    size = _size(result, SMALL)
    data = base64.b64encode(drawn(lambda axes: _of(result).draw(result, axes), size)).decode()
    width = round(size[0] * 96 * 0.85)
    return f'<img alt="{_html(label)}" style="width:{width}px;max-width:100%" src="data:image/png;base64,{data}">'


def _size(result: Any, usual: tuple[float, float]) -> tuple[float, float]:
    module = _of(result)
    return module.size(result) if hasattr(module, "size") else usual


def _of(result: Any) -> Any:
    return import_module(result.shown_by)


def _card(result: Any) -> Card:
    return _of(result).card(result)


def _closing(card: Card) -> list[str]:
    more = len(card.rows) - ROWS
    return [*([f"... and {more} more rows: .to_dataframe() has all"] if more > 0 else []), *card.lines]


def _cut(words: str, length: int) -> str:
    words = printable(" ".join(words.split()))
    return words if len(words) <= length else f"{words[: length - 3]}..."


def _html(words: str) -> str:
    return escape(printable(words))
