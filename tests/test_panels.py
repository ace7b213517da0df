"""The numbers behind a figure, read off its panels: every kind of artist, names of series, labels of axes."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from saddlescope.core.experiment import Figure
from saddlescope.show.artists import rows_of
from saddlescope.show.panels import panel_tables
from saddlescope.show.style import canvas


def tables(draw, *panels: str) -> dict[str, str]:
    """Of a figure with these rows of panels."""
    return panel_tables(Figure("1", "Title", "Fig. 1", "Caption.", "Look for.", (), draw, panels), {})


def rows_drawn(draw) -> list[dict]:
    with canvas((4, 3)) as (_, axes):
        draw(axes)
        return list(rows_of(axes))


def points(rows, *columns):
    return [tuple(row[column] for column in columns) for row in rows]


ACROSS, UP = ["x low", "x high"], ["low", "high"]
VALUED = ["x", "y", "value"]
POINT = [(1, 3), (2, 4)]


@pytest.mark.parametrize(
    ("draw", "kind", "columns", "expected"),
    [
        (lambda a: a.plot([1, 2], [3, np.nan], "r-"), "line", "xy", [(1, 3), (2, np.nan)]),
        (lambda a: a.plot([1, 2], [3, 4], "--"), "dashed", "xy", POINT),
        (lambda a: a.plot([1, 2], [3, 4], "o"), "points", "xy", POINT),
        (lambda a: a.step([1, 2], [3, 4], where="post"), "steps-post", "xy", POINT),
        (lambda a: a.scatter([1, 2], [3, 4], c=[5, 6]), "points", VALUED, [(1, 3, 5), (2, 4, 6)]),
        (lambda a: a.axhline(3), "reference", "y", [(3,)]),
        (lambda a: a.axvline(3), "reference", "x", [(3,)]),
        (lambda a: a.axline((1, 2), slope=3), "reference", "xy", [(1, 2), (2, 5)]),
        (lambda a: a.axvspan(1, 2), "area", ACROSS, [(1, 2)]),
        (lambda a: a.fill_between([1, 2], [3, 4], [5, 6]), "band", ["x", *UP], [(1, 3, 5), (2, 4, 6)]),
        (lambda a: a.fill_betweenx([1, 2], [3, 4], [5, 6]), "band", ["y", *ACROSS], [(1, 3, 5), (2, 4, 6)]),
        (lambda a: a.bar([1], [3], 0.5), "bars", ["x", "y", *ACROSS], [(1, 3, 0.75, 1.25)]),
        (lambda a: a.barh([1], [3], 0.5), "bars", ["x", "y", *UP], [(3, 1, 0.75, 1.25)]),
        (lambda a: a.hist([1, 1, 2], [0, 1.5, 3]), "bars", ["y", *ACROSS], [(2, 0, 1.5), (1, 1.5, 3)]),
        (lambda a: a.stairs([5, 6], [0, 1, 3]), "bars", ["y", *ACROSS], [(5, 0, 1), (6, 1, 3)]),
        (lambda a: a.errorbar([1], [3], [0.5], fmt="none"), "error bars", ["x", *UP], [(1, 2.5, 3.5)]),
        (lambda a: a.vlines([1], 2, 3), "segments", ["x", *UP], [(1, 2, 3)]),
        (lambda a: a.imshow([[1, 2]]), "image", VALUED, [(0, 0, 1), (1, 0, 2)]),
        (lambda a: a.imshow([[1], [2]], extent=(0, 2, 0, 4)), "image", VALUED, [(1, 3, 1), (1, 1, 2)]),
        (lambda a: a.imshow([[1], [2]], origin="lower"), "image", VALUED, [(0, 0, 1), (0, 1, 2)]),
        (lambda a: a.imshow([[(0.1, 0.2, 0.3)]]), "image", ["red", "green", "blue"], [(0.1, 0.2, 0.3)]),
        (lambda a: a.pcolormesh([0, 2, 4], [0, 1], [[5, 6]]), "image", VALUED, [(1, 0.5, 5), (3, 0.5, 6)]),
        (lambda a: a.annotate("here", (1, 2)), "label", ["series", "x", "y"], [("here", 1, 2)]),
        (
            lambda a: a.annotate("up", (1, 0.5), xycoords=("data", "axes fraction")),
            "label",
            ["series", "x"],
            [("up", 1)],
        ),
        (lambda a: a.annotate("T", (1, 0.5), xycoords=a.get_xaxis_transform()), "label", ["series", "x"], [("T", 1)]),
        (lambda a: a.text(1, 2, "there"), "label", ["series", "x", "y"], [("there", 1, 2)]),
        (lambda a: a.fill([0, 1, 1], [0, 0, 1]), "outline", "xy", [(0, 0), (1, 0), (1, 1), (0, 0)]),
    ],
)
def test_what_is_drawn_is_read(draw, kind, columns, expected):
    rows = rows_drawn(draw)
    assert {row["kind"] for row in rows} == {kind}
    for found, wanted in zip(points(rows, *columns), expected, strict=True):
        assert [one if isinstance(one, str) else pytest.approx(one, nan_ok=True) for one in wanted] == list(found)


def test_what_cannot_be_read_is_named():
    rows = rows_drawn(lambda axes: axes.contour([[1, 2], [3, 4]]))
    assert [row["kind"] for row in rows] == ["not read: QuadContourSet"]


def test_what_has_no_place_among_the_data_is_not_read():
    def draw(axes):
        axes.plot([0.5], [0.5], "o", transform=axes.transAxes)
        axes.text(0.5, 0.5, "beside", transform=axes.transAxes)
        axes.plot([], [], label="in the legend alone")
        axes.plot([1], [1], visible=False)

    assert rows_drawn(draw) == []


def test_an_error_bar_and_its_line_are_one_series():
    rows = rows_drawn(lambda axes: axes.errorbar([1, 2], [3, 4], [0.5, 0.5], label="mean", capsize=3))
    assert {row["series"] for row in rows} == {"mean"} and [row["kind"] for row in rows] == ["line"] * 2 + [
        "error bars"
    ] * 2


def test_a_stem_plot_is_read_part_by_part():
    rows = rows_drawn(lambda axes: axes.stem([1, 2], [3, 4], basefmt=" "))
    assert [row["kind"] for row in rows] == ["segments", "segments", "points", "points", "points", "points"]


def test_series_are_named_by_the_legend_by_their_colour_or_by_their_kind():
    def draw(axes):
        axes.plot([1], [1], color="red", lw=0.5)
        axes.plot([1], [1], color="red", label="first")
        axes.plot([1], [1], color="blue")
        axes.plot([1], [1], color="green")
        axes.plot([], [], color="green", label="third")

    assert [row["series"] for row in rows_drawn(draw)] == ["first (2)", "first", "line", "third"]


def test_a_panel_is_labelled_as_a_reader_would():
    def draw(axes, results):
        axes["a"].set(ylabel="loss", title="left")
        axes["b"].set_xticks([1, 2], ["one", "two"])
        axes["c"].set_xlabel("time")
        for panel in axes.values():
            panel.plot([1, 2], [3, 4])
        axes["b"].twinx().plot([1], [5])

    found = tables(draw, "ab", "cb")
    assert found.keys() == {"a", "b-1", "b-2", "c"}
    assert found["a"].splitlines()[:2] == ["panel,series,kind,colour,x: time,y: loss", "left,line,line,#1f77b4,1,3"]
    assert [row["x tick"] for row in csv.DictReader(io.StringIO(found["b-1"]))] == ["one", "two"]


def test_panels_that_are_split_or_hidden():
    def draw(axes, results):
        place = axes["a"].get_subplotspec()
        picture = axes["a"].figure
        axes["a"].remove()
        for part in place.subgridspec(1, 2):
            picture.add_subplot(part).plot([1], [2])
        axes["b"].set_visible(False)

    assert tables(draw, "ab").keys() == {"a-1", "a-2"}
