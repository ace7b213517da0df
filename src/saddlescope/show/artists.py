"""The numbers in what matplotlib has drawn: lines, points, bars, bands, error bars, images, labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import singledispatch
from typing import Any

import numpy as np
from matplotlib.collections import LineCollection, PathCollection, PolyCollection, QuadMesh
from matplotlib.colors import to_hex
from matplotlib.container import BarContainer, Container, ErrorbarContainer
from matplotlib.image import AxesImage
from matplotlib.lines import AxLine, Line2D
from matplotlib.patches import Patch, Rectangle, StepPatch
from matplotlib.text import Annotation, Text

from saddlescope.core.ink import GREY

Row = dict[str, Any]

INKS = {"#000000", GREY}
"""Of words that name no curve."""

NO_LINE = ("None", "none", " ", "")


def rows_of(panel: Any) -> Iterator[Row]:
    """Of everything on these axes that has a place in their coordinates, and a line for what cannot be read.

    series, kind, colour; x, y; and as the kind needs them low, high (along y), x low, x high, value, red, green, blue.
    """
    named, inside = _Names(panel), set[int]()
    for container in panel.containers:
        inside |= {id(part) for part in _parts(container)}
    artists = (*panel.images, *panel.collections, *panel.patches, *panel.lines, *panel.texts)
    shown = [artist for artist in artists if artist.get_visible() and id(artist) not in inside]
    for thing in (*panel.containers, *shown):
        if rows := list(_read(thing, panel)):
            colour = colour_of(thing)
            series = named(thing, rows[0]["kind"], colour)
            yield from ({"series": series, "colour": colour, **row} for row in rows)


def colour_of(thing: Any) -> str:
    """As it is written in HTML; "" of something with several colours, or none."""
    parts = _parts(thing)
    if parts:
        return colour_of(parts[0])
    for name in ("get_color", "get_facecolor", "get_edgecolor"):
        found: Any = getattr(thing, name, lambda: ())()
        if isinstance(found, str) or (np.ndim(found) == 1 and len(found)):
            return to_hex(found)
        if np.ndim(found) == 2 and len(found) == 1:
            return to_hex(found[0])
    return ""


def _parts(thing: Any) -> list[Any]:
    """Of bars and error bars, which matplotlib keeps as several artists."""
    if isinstance(thing, BarContainer):
        return list(thing.patches) + ([thing.errorbar] if thing.errorbar else [])
    if isinstance(thing, ErrorbarContainer):
        line, caps, bars = thing.lines
        return [part for part in (line, *bars, *caps) if part is not None]
    return []


# ---- names of series


class _Names:
    """A series' own name, or that of its colour, or its kind; no two alike."""

    def __init__(self, panel: Any):
        own = panel.get_legend_handles_labels()
        legends = [one.get_legend_handles_labels() for one in panel.figure.axes]
        words = [([text], [text.get_text()]) for text in panel.texts if colour_of(text) not in INKS]
        self.of_colour = {**_by_colour(legends), **_by_colour(words), **_by_colour([own])}
        # Entries of a legend that are drawn nowhere leave their names to what has their colour.
        self.own = {label for handle, label in zip(*own, strict=True) if next(_read(handle, panel), None)}
        self.given = Counter(self.own)

    def __call__(self, thing: Any, kind: str, colour: str) -> str:
        if isinstance(thing, Text):
            return thing.get_text()
        name = str(thing.get_label() or "")
        if name in self.own:  # the legend means this one, though others of its colour may have been drawn before
            self.own.remove(name)
            return name
        if not name or name.startswith("_"):
            name = (kind != "reference" and self.of_colour.get(colour)) or kind
        self.given[name] += 1
        return name if self.given[name] == 1 else f"{name} ({self.given[name]})"


def _by_colour(legends: Iterable[tuple[Sequence[Any], Sequence[str]]]) -> dict[str, str]:
    """Names of those colours that have one name alone."""
    found: dict[str, set[str]] = {}
    for handles, labels in legends:
        for handle, label in zip(handles, labels, strict=True):
            found.setdefault(colour_of(handle), set()).add(label)
    return {colour: min(names) for colour, names in found.items() if colour and len(names) == 1}


# ---- what each kind of artist holds


@singledispatch
def _read(thing: Any, panel: Any) -> Iterator[Row]:
    if any(_in_data(thing.get_transform(), panel)):
        yield {"kind": f"not read: {type(thing).__name__}"}


def _in_data(transform: Any, panel: Any) -> tuple[bool, bool]:
    """Whether x, and y, are coordinates of the data; else they are of the panel, or of the page."""
    return transform.contains_branch_seperately(panel.transData)


@_read.register(Container)
def _others(thing: Any, panel: Any) -> Iterator[Row]:
    """What matplotlib keeps together beside, such as a stem plot, is read part by part."""
    yield from ()


@_read.register(Line2D)
def _line(thing: Any, panel: Any) -> Iterator[Row]:
    in_x, in_y = _in_data(thing.get_transform(), panel)
    x, y = (np.asarray(values, float) for values in thing.get_data(orig=False))
    if in_x and in_y:
        style = thing.get_drawstyle()
        dashes = thing.get_linestyle()
        kind = "points" if dashes in NO_LINE else "dashed" if dashes != "-" else "line"
        kind = kind if style == "default" else style
        yield from ({"kind": kind, "x": one, "y": other} for one, other in zip(x, y, strict=True))
    elif in_x and len(x):
        yield {"kind": "reference", "x": x[0]}
    elif in_y and len(y):
        yield {"kind": "reference", "y": y[0]}


@_read.register(AxLine)
def _sloping(thing: Any, panel: Any) -> Iterator[Row]:
    """Two points of a straight line without ends."""
    x, y = thing.get_xy1()
    yield {"kind": "reference", "x": x, "y": y}
    other = thing.get_xy2() or (x + 1, y + thing.get_slope())
    yield {"kind": "reference", "x": other[0], "y": other[1]}


@_read.register(PathCollection)
def _scattered(thing: Any, panel: Any) -> Iterator[Row]:
    if all(_in_data(thing.get_offset_transform(), panel)):
        places, values = thing.get_offsets(), thing.get_array()
        colours = thing.get_facecolor()
        for number, (x, y) in enumerate(np.ma.filled(places, np.nan)):
            row: Row = {"kind": "points", "x": x, "y": y}
            if len(colours) == len(places):
                row["colour"] = to_hex(colours[number])
            yield row if values is None else {**row, "value": values[number]}


@_read.register(PolyCollection)
def _shaded(thing: Any, panel: Any) -> Iterator[Row]:
    """What `fill_between` shades, else outlines."""
    for path in thing.get_paths():
        outline = path.vertices[:-1] if path.codes is not None else path.vertices
        half = len(outline) // 2
        there, back = outline[1:half], outline[half + 1 :][::-1]
        if len(outline) % 2 == 0 and half > 1 and np.array_equal(there[:, 0], back[:, 0]):
            for (x, one), (_, other) in zip(there, back, strict=True):
                yield {"kind": "band", "x": x, "low": min(one, other), "high": max(one, other)}
        elif len(outline) % 2 == 0 and half > 1 and np.array_equal(there[:, 1], back[:, 1]):
            for (one, y), (other, _) in zip(there, back, strict=True):
                yield {"kind": "band", "y": y, "x low": min(one, other), "x high": max(one, other)}
        else:
            yield from ({"kind": "outline", "x": x, "y": y} for x, y in outline)


@_read.register(LineCollection)
def _segments(thing: Any, panel: Any) -> Iterator[Row]:
    in_x, in_y = _in_data(thing.get_transform(), panel)
    for segment in thing.get_segments():
        yield from _segment(segment, in_x, in_y, "segments")


def _segment(ends: Any, in_x: bool, in_y: bool, kind: str) -> Iterator[Row]:
    """Upright and level ones in one row, others point by point."""
    (left, right), (low, high) = ((np.min(values), np.max(values)) for values in np.transpose(ends))
    if len(ends) == 2 and left == right and in_x:
        yield {"kind": kind, "x": left, **({"low": low, "high": high} if in_y else {})}
    elif len(ends) == 2 and low == high and in_y:
        yield {"kind": kind, "y": low, **({"x low": left, "x high": right} if in_x else {})}
    elif in_x and in_y:
        yield from ({"kind": kind, "x": x, "y": y} for x, y in ends)


@_read.register(ErrorbarContainer)
def _with_errors(thing: Any, panel: Any) -> Iterator[Row]:
    line, _, bars = thing.lines
    if line is not None:
        yield from _read(line, panel)
    for group in bars:
        for segment in group.get_segments():
            yield from _segment(segment, True, True, "error bars")


@_read.register(BarContainer)
def _bars(thing: Any, panel: Any) -> Iterator[Row]:
    for bar in thing.patches:
        (left, low), (right, high) = bar.get_bbox().get_points()
        row: Row = {"kind": "bars", "colour": to_hex(bar.get_facecolor())}
        if thing.orientation == "horizontal":
            yield {**row, "x": left + bar.get_width(), "y": (low + high) / 2, "low": low, "high": high}
        else:
            yield {**row, "x": (left + right) / 2, "y": low + bar.get_height(), "x low": left, "x high": right}
    if thing.errorbar:
        yield from _read(thing.errorbar, panel)


@_read.register(StepPatch)
def _steps(thing: Any, panel: Any) -> Iterator[Row]:
    values, edges, _ = thing.get_data()
    for value, left, right in zip(values, edges[:-1], edges[1:], strict=True):
        yield {"kind": "bars", "x": (left + right) / 2, "y": value, "x low": left, "x high": right}


@_read.register(Rectangle)
def _rectangle(thing: Any, panel: Any) -> Iterator[Row]:
    in_x, in_y = _in_data(thing.get_data_transform(), panel)
    (left, low), (right, high) = np.sort(thing.get_bbox().get_points(), axis=0)
    across = {"x low": left, "x high": right} if in_x else {}
    up = {"low": low, "high": high} if in_y else {}
    if across or up:
        yield {"kind": "area", **across, **up}


@_read.register(Patch)
def _outline(thing: Any, panel: Any) -> Iterator[Row]:
    if all(_in_data(thing.get_data_transform(), panel)):
        outline = thing.get_patch_transform().transform_path(thing.get_path())
        yield from ({"kind": "outline", "x": x, "y": y} for x, y in outline.vertices)


@_read.register(AxesImage)
def _pixels(thing: Any, panel: Any) -> Iterator[Row]:
    pixels = np.ma.filled(np.ma.asarray(thing.get_array(), float), np.nan)
    left, right, bottom, top = thing.get_extent()
    first, last = (top, bottom) if thing.origin == "upper" else (bottom, top)
    height, width = pixels.shape[:2]
    yield from _cells(pixels, *np.meshgrid(_middles(left, right, width), _middles(first, last, height)))


@_read.register(QuadMesh)
def _mesh(thing: Any, panel: Any) -> Iterator[Row]:
    corners = thing.get_coordinates()
    middles = (corners[:-1, :-1] + corners[1:, :-1] + corners[:-1, 1:] + corners[1:, 1:]) / 4
    values = np.ma.filled(np.ma.asarray(thing.get_array(), float), np.nan)
    yield from _cells(values.reshape(middles.shape[:2]), middles[..., 0], middles[..., 1])


def _middles(first: float, last: float, count: int) -> np.ndarray:
    return first + (np.arange(count) + 0.5) * (last - first) / count


def _cells(values: np.ndarray, xs: np.ndarray, ys: np.ndarray) -> Iterator[Row]:
    """Of an image, row by row. values: (height, width), or colours in one more axis."""
    names = ("value",) if values.ndim == 2 else ("red", "green", "blue")
    for place in np.ndindex(xs.shape):
        yield {
            "kind": "image",
            "x": xs[place],
            "y": ys[place],
            **dict(zip(names, np.ravel(values[place]), strict=False)),
        }


@_read.register(Text)
def _words(thing: Any, panel: Any) -> Iterator[Row]:
    """Words at a place."""
    place, where = thing.get_position(), thing.get_transform()
    if isinstance(thing, Annotation):
        place, where = thing.xy, thing.xycoords
    if isinstance(where, str | tuple):  # words of matplotlib's, for both coordinates or for each
        in_x, in_y = (one == "data" for one in ((where, where) if isinstance(where, str) else where))
    else:
        in_x, in_y = _in_data(where, panel)
    if thing.get_text() and (in_x or in_y):
        yield {"kind": "label", **({"x": place[0]} if in_x else {}), **({"y": place[1]} if in_y else {})}
