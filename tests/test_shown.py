"""Results show themselves: a short repr, a piece of a page with a picture, a picture, a data frame."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from typing import Any

import pytest
from matplotlib.figure import Figure

import saddlescope as ss
from saddlescope.show.display import LINE, LINES, ROWS

TINY = ss.subject("squares", "tiny")


@pytest.fixture(scope="module")
def shown() -> dict[str, Any]:
    verdicts = ss.judge(TINY)
    return {
        "prediction": ss.predict(TINY),
        "run": ss.run(TINY, "flow"),
        "predicted run": ss.run(TINY, "predict"),
        "comparison": ss.compare(TINY),
        "ensemble": ss.run_seeds(TINY, "flow", range(3)),
        "verdicts": verdicts,
        "verdict": verdicts[0],
        "undecided": replace(verdicts[0], verdict="undecided", value=None, reason="no run"),
    }


KINDS = ["prediction", "run", "predicted run", "comparison", "ensemble", "verdicts", "verdict", "undecided"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_is_short_in_a_terminal(shown, kind):
    lines = repr(shown[kind]).splitlines()
    assert 1 < len(lines) <= LINES and max(map(len, lines)) <= LINE
    assert "object at 0x" not in repr(shown[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_has_a_page_with_a_small_picture(shown, kind):
    page = shown[kind]._repr_html_()
    (image,) = re.findall(r'src="data:image/png;base64,([^"]*)"', page)
    assert base64.b64decode(image).startswith(b"\x89PNG") and len(page) < 150_000
    assert page.count("<div") == page.count("</div") and "<script" not in page


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_draws_itself_on_given_axes(shown, kind):
    axes = Figure().subplots()
    assert shown[kind].plot(axes) is axes
    assert axes.lines


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_is_a_data_frame(shown, kind):
    frame = shown[kind].to_dataframe()
    one = {"verdicts": len(shown["verdicts"]), "verdict": 1, "undecided": 1, "ensemble": 3 * 2}
    count = one.get(kind, len(TINY.spec.targets))
    assert len(frame) == count and len(frame.columns) >= 4


def test_a_reproduction_shows_its_papers(tmp_path):
    found = ss.reproduce("squares", out=tmp_path)
    lines = repr(found).splitlines()
    assert "squares" in lines[2] and str(found.page) in lines[-1] and len(lines) <= LINES
    assert len(found.to_dataframe()) == len(found.verdicts) and "data:image/png" in found._repr_html_()


def test_stages_of_the_frame_are_those_of_the_run(shown):
    run, frame = shown["run"], shown["run"].to_dataframe()
    assert list(frame["time"]) == [stage.time for stage in run.stages]
    both = shown["comparison"].to_dataframe()
    assert list(both["flow_time"]) == [stage.time for stage in shown["comparison"].runs["flow"].stages]


def test_verdicts_are_a_list_of_verdicts(shown):
    verdicts = shown["verdicts"]
    assert verdicts[0] is shown["verdict"] and verdicts.run.face == "flow" and isinstance(verdicts, list)
    assert "supported" in repr(verdicts).splitlines()[0]


def test_a_long_table_is_counted_not_shown():
    stages = tuple(ss.Stage(number, float(number), 1.0 / number, "x" * 200) for number in range(1, 41))
    long = ss.Prediction(stages, tuple(ss.Mark("loss", 0.0) for _ in stages), 2.0, notes=("word " * 400,))
    lines = repr(long).splitlines()
    assert len(lines) <= LINES and max(map(len, lines)) <= LINE
    assert any(f"and {40 - ROWS} more rows" in line for line in lines)


def test_names_from_outside_are_words_not_markup():
    odd = ss.Prediction((ss.Stage(1, 1.0, 0.0, "<img src=x>\x1b[31m"),), (ss.Mark("loss", 0.5),), 1.0)
    assert "<img src=x>" not in odd._repr_html_() and "\x1b" not in repr(odd) + odd._repr_html_()


def test_plot_without_axes_makes_a_figure_that_a_notebook_shows(shown):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    axes = shown["run"].plot()
    assert axes.figure.number in plt.get_fignums()
    plt.close(axes.figure)
    before = plt.get_fignums()
    shown["run"]._repr_html_()
    assert plt.get_fignums() == before
