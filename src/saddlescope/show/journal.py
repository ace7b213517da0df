"""Rooms' figures for a journal: drawn at the width at which they will stand on the page."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from saddlescope.core.experiment import Figure, Results

from .style import STYLE, drawn

Format = Literal["pdf", "png"]

COLUMN, PAGE = 3.4, 7.0
"""Inches: width of one column of a journal, and of two with the gap between them."""

NARROW = 6.4
"""Inches on the screen up to which a figure fits into one column."""

TALLEST = 8.5
"""Inches that a page has for a figure above its caption."""

LEAST = 6.0
"""Points: the smallest letters of a journal. Exponents and indices may be smaller."""

LEGEND = 6.5
"""Points of a legend, at most: at this width it would cover curves."""

SETTINGS: Mapping[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.linewidth": 0.6,
    "legend.fontsize": LEGEND,
    "legend.title_fontsize": LEGEND,
    "legend.handlelength": 1.4,
    "legend.handletextpad": 0.5,
    "legend.labelspacing": 0.3,
    "legend.columnspacing": 1.2,
    "legend.borderaxespad": 0.3,
    "legend.borderpad": 0.2,
    **{f"{axis}tick.labelsize": 7 for axis in "xy"},
    **{f"{axis}tick.major.{name}": value for axis in "xy" for name, value in (("size", 3), ("width", 0.6))},
    **{f"{axis}tick.minor.{name}": value for axis in "xy" for name, value in (("size", 1.8), ("width", 0.5))},
}
"""What differs from the style sheet: smaller letters and shorter marks, which lines keep their weight beside."""

RESOLUTION = 300
"""Dots per inch of PNG."""


def journal_size(figure: Figure) -> tuple[float, float]:
    """Inches. Letters do not shrink as the width does, so the height shrinks less."""
    width, height = figure.size
    printed = COLUMN if width <= NARROW else PAGE
    return printed, min(height * (printed / width) ** 0.5, TALLEST)


@contextmanager
def printed(figure: Figure, results: Results) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """A room's figure, drawn for a journal, and its axes by the names of their panels."""
    with drawn(figure, results, journal_size(figure), {**STYLE, **SETTINGS}) as (found, axes):
        _shrink_legends(found)
        yield found, axes


def journal_picture(figure: Figure, results: Results, form: Format) -> bytes:
    """A room's figure, drawn for a journal, as a file."""
    with printed(figure, results) as (found, _):
        return file_of(found, figure.title, form)


def file_of(picture: Any, title: str, form: Format) -> bytes:
    """The same drawing gives the same bytes: they hold no date, and name no program."""
    nothing: Mapping[str, dict[str, Any]] = {
        "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
        "png": {"Software": None},
    }
    file = io.BytesIO()
    picture.savefig(file, format=form, dpi=RESOLUTION, metadata={**nothing[form], "Title": title})
    return file.getvalue()


def _shrink_legends(found: Any) -> None:
    from matplotlib.legend import Legend

    for legend in found.findobj(Legend):
        for text in (*legend.get_texts(), legend.get_title()):
            text.set_fontsize(min(text.get_fontsize(), LEGEND))
