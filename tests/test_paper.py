"""For a paper of one's own: figures as wide as a journal's columns, the numbers behind them, verdicts, one style."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace

import matplotlib
import pytest
from matplotlib.text import Text

import saddlescope as ss
from saddlescope.core.errors import BadArgument
from saddlescope.core.experiment import Figure
from saddlescope.core.room import rooms
from saddlescope.lab import derived
from saddlescope.lab.reproduce import carry_out, choose
from saddlescope.lab.store import Store
from saddlescope.show.journal import COLUMN, LEAST, NARROW, PAGE, file_of, journal_picture, printed
from saddlescope.show.panels import tables_in
from saddlescope.show.style import STYLE, svg_of


def figure(draw):
    return Figure("1", "Title", "Fig. 1", "What is drawn.", "What to see.", (), draw)


def table_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize("name", rooms())
def test_figures_of_all_rooms_can_be_printed_and_their_numbers_read(quick, name):
    """Text is text in embedded TrueType fonts, large enough at the width of the page; every panel has numbers."""
    out, _, chosen = quick
    for result in carry_out([one for one in chosen if one.room.name == name], Store(out / "runs")):
        for one in (figure for figure in result.chosen.figures if figure.name in result.figures):
            runs = {experiment: result.runs[experiment] for experiment in one.experiments}
            with printed(one, runs) as (picture, axes):
                pdf = file_of(picture, one.title, "pdf")
                assert min(text.get_fontsize() for text in picture.findobj(Text)) >= LEAST
                tables = {panel[0]: table_of(text) for panel, text in tables_in(picture, axes).items()}
            width = float(re.findall(rb"/MediaBox \[ 0 0 ([\d.]+)", pdf)[0]) / 72
            assert width == pytest.approx(COLUMN if one.size[0] <= NARROW else PAGE)
            assert b"/FontFile2" in pdf and b"/Type3" not in pdf and b"CreationDate" not in pdf
            assert tables.keys() == set("".join(one.panels)) - {"."}
            for rows in tables.values():
                columns = list(rows[0])
                assert columns[:4] == ["panel", "series", "kind", "colour"]
                assert [column[0] for column in columns[4:6]] == ["x", "y"]
                assert not any(row["kind"].startswith("not read") for row in rows)


def test_the_same_drawing_gives_the_same_bytes():
    one = figure(lambda axes, results: axes["a"].plot([1, 2], [3, 4], label="α"))
    for form in ("pdf", "png"):
        assert journal_picture(one, {}, form) == journal_picture(one, {}, form)


def test_what_the_users_own_matplotlibrc_says_does_not_count():
    one = figure(lambda axes, results: axes["a"].plot([1, 2], [3, 4]))
    before = svg_of(one, {})
    with matplotlib.rc_context({"font.size": 20, "axes.grid": True, "text.usetex": True, "savefig.bbox": "tight"}):
        assert svg_of(one, {}) == before


def test_the_style_sheet_is_found_by_name():
    import matplotlib.style

    with matplotlib.style.context("saddlescope.show.saddlescope"):
        assert {name: matplotlib.rcParams[name] for name in STYLE} == dict(STYLE)
        assert matplotlib.rcParams["pdf.fonttype"] == 42 and not matplotlib.rcParams["axes.spines.top"]


def test_the_style_sheet_counts_for_figures_that_are_kept(tmp_path, monkeypatch):
    before = derived.code_now("figure", "squares")
    (tmp_path / "other.mplstyle").write_text("font.size: 3\n")
    monkeypatch.setattr(derived, "SHEET", tmp_path / "other.mplstyle")
    assert derived.code_now("figure", "squares") != before


# ---- the command -----------------------------------------------------------------------------------------


def test_everything_that_a_paper_takes(call, tmp_path):
    """Once more, it takes nothing but reading."""
    asked = ["reproduce", "squares:1", "--out", tmp_path / "out", "--workers", "1"]
    asked += ["--figures", "pdf", "--data", "--latex", tmp_path / "verdicts.tex", "--json"]

    def files():
        return {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "runs" / ".derived").iterdir()}

    code, said, told = call(*asked)
    assert code == 0, told
    assert {path.name for path in (tmp_path / "out" / "figures").iterdir()} == {"squares-1.svg", "squares-1.pdf"}
    assert {path.name for path in (tmp_path / "out" / "data").iterdir()} == {"squares-1-a.csv", "squares-1-b.csv"}
    rows = table_of((tmp_path / "out" / "data" / "squares-1-a.csv").read_text())
    assert float(rows[0]["y: loss"]) == pytest.approx(3.5, rel=1e-6)
    assert "drop" in (tmp_path / "verdicts.tex").read_text()
    before = files(), (tmp_path / "out" / "figures" / "squares-1.pdf").read_bytes()
    assert call(*asked)[:2] == (0, said)
    assert before == (files(), (tmp_path / "out" / "figures" / "squares-1.pdf").read_bytes())


def test_from_python(tmp_path):
    found = ss.reproduce("squares:1", out=tmp_path, workers=1, figures="png", data=True, latex=tmp_path / "t.tex")
    assert found.mistakes == []
    assert (tmp_path / "figures" / "squares-1.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"figures": "eps"}, "unknown format of `figures` 'eps': choose one of: pdf, png, svg"),
        ({"latex": "verdicts.txt"}, "must end in .tex"),
        ({"latex": "nowhere/verdicts.tex"}, "does not exist"),
    ],
)
def test_what_cannot_be_written_is_refused_before_the_work(tmp_path, options, words):
    with pytest.raises(BadArgument, match=re.escape(words)):
        ss.reproduce("squares:1", out=tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_the_command_names_the_formats(refusal, tmp_path):
    told = refusal("reproduce", "squares:1", "--out", tmp_path, "--figures", "eps")
    assert all(name in told for name in ("svg", "pdf", "png"))
    assert "must end in .tex" in refusal("reproduce", "squares:1", "--out", tmp_path, "--latex", tmp_path / "a.txt")


def test_a_folder_that_cannot_be_made_is_named(call, tmp_path):
    (tmp_path / "data").write_text("a file")
    code, _, told = call("reproduce", "squares:1", "--out", tmp_path, "--workers", "1", "--data")
    assert code == 1 and f"cannot write {tmp_path / 'data'}" in told


def test_a_broken_figure_costs_itself_alone_and_is_told_once(tmp_path, monkeypatch):
    from saddlescope.templates.squares.evidence import figures

    def broken(axes, results):
        raise ZeroDivisionError("by me")

    first, second = figures.FIGURES
    monkeypatch.setattr(figures, "FIGURES", (replace(first, draw=broken), second))
    (result,) = carry_out(choose(["squares"]), Store(tmp_path / "runs"), workers=1, also=["pdf", "data"])
    assert len(result.mistakes) == 1 and "figure 1: ZeroDivisionError: by me" in result.mistakes[0]
    assert result.files.keys() == {"figures/squares-2.pdf", "data/squares-2-a.csv"}
