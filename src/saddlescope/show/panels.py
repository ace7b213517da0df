"""The numbers behind a figure, read off its drawn panels, so that no room need list them."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from saddlescope.core.experiment import Figure, Results

from .style import drawn


def panel_tables(figure: Figure, results: Results) -> dict[str, str]:
    """CSV of each panel of a room's figure, by the panel's name.

    A row for every point; columns:

    - panel: its title, or else its name.
    - series: the curve's name in the legend; of one that has none the name that its colour has there.
    - kind: line, dashed, points, steps-post, bars, band, error bars, image, ...; "reference" for a line right across
      the panel, "label" for words at a place.
    - colour, as drawn.
    - x and y, with the words at the axes; as the kind needs them low, high, x low, x high, value, red, green, blue.
    - x tick, y tick: what the axis says at this place, where it has words.

    Where a panel holds several axes (it was split, or has an inset, or a second scale) they are numbered: "b-1", "b-2".
    """
    with drawn(figure, results) as (found, axes):
        return tables_in(found, axes)


def tables_in(picture: Any, axes: Mapping[str, Any]) -> dict[str, str]:
    """The same of a figure that is drawn. axes: those that the room's function received."""
    tables = {}
    for name, members in _by_panel(picture, axes).items():
        for number, panel in enumerate(members, start=1):
            key = name if len(members) == 1 else f"{name}-{number}"
            tables[key] = _csv(panel, key, picture.axes)
    return tables


def _by_panel(figure: Any, axes: Mapping[str, Any]) -> dict[str, list[Any]]:
    """All axes that show anything, by the panel in whose place they are."""
    found: dict[str, list[Any]] = {}
    for panel in figure.axes:
        if panel.get_visible() and panel.get_label() != "<colorbar>":
            insets = [inset for inset in panel.child_axes if inset.has_data()]
            found.setdefault(_place_of(panel, axes), []).extend([panel, *insets])
    return found


def _place_of(panel: Any, axes: Mapping[str, Any]) -> str:
    place = panel.get_subplotspec()
    for number, (name, given) in enumerate(axes.items(), start=1):
        # A panel that was split is no part of the figure any more, but knows where it stood.
        if panel is given or (place is not None and place.get_topmost_subplotspec() == given.get_subplotspec()):
            return name if name.isalnum() else f"panel{number}"
    return "more"


def _csv(panel: Any, name: str, others: Sequence[Any]) -> str:
    from .artists import rows_of  # imports matplotlib

    titles = [panel.get_title(loc=place) for place in ("left", "center", "right")]
    first = {"panel": " ".join(filter(None, titles)) or name, "series": "", "kind": "", "colour": "", "x": "", "y": ""}
    said = {axis: _tick_words(getattr(panel, f"{axis}axis")) for axis in ("x", "y")}
    rows = []
    for row in rows_of(panel):
        ticks = {f"{axis} tick": _said(words, row.get(axis)) for axis, words in said.items() if words}
        rows.append({**first, **row, **ticks})
    labels = {axis: _label(panel, axis, others) for axis in ("x", "y")}
    columns = list(dict.fromkeys(column for row in [first, *rows] for column in row))
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([f"{column}: {labels[column]}" if labels.get(column) else column for column in columns])
    writer.writerows([_cell(row.get(column, "")) for column in columns] for row in rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    """Ten digits are more than a picture shows."""
    return f"{value + 0.0:.10g}" if isinstance(value, float | np.floating) else value


def _label(panel: Any, axis: str, others: Sequence[Any]) -> str:
    """Of an axis; without one, what a reader takes it from: the nearest panel below (x) or to the left (y), else the
    only label that there is.
    """
    place = panel.get_subplotspec()
    if place is None or (own := _words_at(panel, axis)):  # an inset stands in no row
        return _words_at(panel, axis)
    near, far = [], set[str]()
    for other in others:
        its = other.get_subplotspec()
        if its is None or its.get_gridspec() is not place.get_gridspec() or not (words := _words_at(other, axis)):
            continue
        far.add(words)
        if axis == "x" and its.colspan == place.colspan and its.rowspan.start > place.rowspan.start:
            near.append((its.rowspan.start, words))
        if axis == "y" and its.rowspan == place.rowspan and its.colspan.start < place.colspan.start:
            near.append((-its.colspan.start, words))
    return min(near)[1] if near else far.pop() if len(far) == 1 else own


def _words_at(panel: Any, axis: str) -> str:
    return getattr(panel, f"get_{axis}label")().replace("\n", " ")


def _tick_words(axis: Any) -> dict[float, str]:
    """What an axis says at fixed places; nothing where it only repeats the numbers."""
    from matplotlib.ticker import FixedLocator

    if not isinstance(axis.get_major_locator(), FixedLocator):
        return {}
    places = [float(place) for place in axis.get_majorticklocs()]
    said = map(str, axis.get_major_formatter().format_ticks(places))
    found = dict(zip(places, said, strict=True))
    return found if any(words and not _is_number(words, place) for place, words in found.items()) else {}


def _said(words: Mapping[float, str], value: float | None) -> str:
    """At this place; "" where the axis says nothing."""
    near = (said for place, said in words.items() if value is not None and math.isclose(place, value, abs_tol=1e-12))
    return next(near, "")


def _is_number(words: str, place: float) -> bool:
    """Whether words at an axis say the number that stands there."""
    power = re.sub(r"^\$(?:\\mathdefault\{)?10\^\{?(-?\d+)\}*\$$", r"1e\1", words.replace("\N{MINUS SIGN}", "-"))
    try:
        return math.isclose(float(power), place, rel_tol=1e-3, abs_tol=1e-12)
    except ValueError:
        return False
