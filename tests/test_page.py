"""The report page: everything that was judged is on it, it needs nothing else, and it fits paper and telephones."""

from __future__ import annotations

import copy
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from saddlescope.core.words import duration
from saddlescope.show.page import anchor, comparison, number, render

from .browser import opens_well

SVG = """<?xml version="1.0" encoding="utf-8" standalone="no"?>
<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">
<svg xmlns:xlink="http://www.w3.org/1999/xlink" width="460.8pt" height="259.2pt" viewBox="0 0 460.8 259.2"
 xmlns="http://www.w3.org/2000/svg" version="1.1">
 <metadata><rdf:RDF xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>t</dc:title></rdf:RDF></metadata>
 <defs><style type="text/css">*{stroke-linejoin: round; stroke-linecap: butt}</style></defs>
 <defs><path id="glyph" d="M 0 0 L 9 9"/><clipPath id="clip"><rect x="0" y="0" width="9" height="9"/></clipPath></defs>
 <!-- a comment with id="clip" -->
 <g id="axes_1"><use xlink:href="#glyph" x="1"/><use href="#glyph" x="2"/><path clip-path="url(#clip)" d="M 0 0"/>
 <path style="fill: url('#clip'); stroke: red" d="M 0 0"/><text>id="clip" of url(#clip)</text></g>
</svg>
"""


def claim(name: str, verdict: str, **changes: Any) -> dict[str, Any]:
    return {
        "name": name,
        "says": f"What {name} says.",
        "source": "section 3.2",
        "verdict": verdict,
        "value": 0.0012,
        "bound": 0.01,
        "side": "at most",
        "relation": "close",
        "because": "the solver is this good",
        "reason": "6 of 6 runs agree",
        "runs": 6,
        "experiment": "staircase",
        "repairs": None,
    } | changes


def figure(name: str, svg: str | None, missing: str = "") -> dict[str, Any]:
    words = {part: f"{part} of {name}" for part in ("title", "source", "caption", "look_for")}
    return {"name": name, **words, "svg": svg, "missing": missing, "experiments": ["staircase"]}


def erratum(name: str, severity: str, **changes: Any) -> dict[str, Any]:
    words = {part: f"{part} of {name}: a < b & c" for part in ("where", "printed", "true", "repair", "version")}
    numbers = {"measure": "deviation from autodiff", "off_printed": 0.7, "off_repaired": 2e-16}
    return {"name": name, **words, "severity": severity, **numbers} | changes


def sample() -> dict[str, Any]:
    claims = [
        claim("order", "supported", says="k < q & `rank` of <b>v</b>"),
        claim("printed_law", "refuted", value=0.5, reason="0 of 6 runs agree"),
        claim("true_law", "supported", repairs="printed_law"),
        claim("late_" * 20 + "stage", "undecided", value=None, runs=0, reason="needs --full"),
    ]
    counts = {"supported": 2, "refuted": 1, "undecided": 1}
    points = [{"kind": "claim", "target": "order"}, {"kind": "function", "target": "network.predict_last"}]
    reason = [{"kind": "reason", "target": "an analogy, not a statement"}]
    paper = {
        "name": "first",
        "key": "nobody2026",
        "citation": "Nobody & others: Dynamics (2026)",
        "summary": "One line.",
        "counts": counts,
        "claims": claims,
        "figures": [figure("1", SVG), figure("2 b", SVG), figure("3", None, "needs --full")],
        "errata": [
            erratum("24c", "misprint"),
            erratum("25", "conclusion fails"),
            erratum("26", "misprint", measure="", off_printed=None, off_repaired=None),
            erratum("27", "imprecise", off_printed=None, off_repaired=None),
        ],
        "coverage": {"lines": 2, "covered": 2, "claim": 1, "function": 1, "figure": 0, "erratum": 0, "reason": 1},
        "inventory": [
            {"id": "004-001", "kind": "equation", "where": "(1)", "what": "data & network", "points": points},
            {"id": "004-002", "kind": "remark", "where": "page 4", "what": "an analogy", "points": reason},
        ],
        "experiments": [
            {
                "name": "staircase",
                "asks": "Are there stages?",
                "system": "first",
                "face": "flow",
                "runs": 6,
                "finished": 6,
                "seconds": 1.8,
                "makers": [1, 2],
                "variants": ["init_scale=0.01"],
            }
        ],
    }
    return {
        "title": "saddlescope report",
        "version": "0.1.0",
        "date": "2026-11-15 09:00 UTC",
        "full": False,
        "command": "saddlescope reproduce",
        "seconds": 151.2,
        "makers": [
            {"versions": {"python": "3.12.3"}, "machine": "Linux, 2 cores", "device": "cpu", "runs": 11},
            {"versions": {"python": "3.11.9"}, "machine": "another", "device": "NVIDIA H200", "runs": 1},
        ],
        "counts": {name: 2 * count for name, count in counts.items()},
        "papers": [paper, copy.deepcopy(paper) | {"name": "second", "errata": []}],
    }


class Reader(HTMLParser):
    """Ids, links and text of a page."""

    def __init__(self, page: str):
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.open.append(tag)
        self.ids += [value for name, value in attrs if name == "id" and value]
        self.links += [given[name] or "" for name in ("href", "xlink:href") if name in given]

    def handle_data(self, data: str) -> None:
        if self.open[-1:] not in (["style"], ["script"]):
            self.text += data


@pytest.fixture(scope="module")
def page() -> str:
    return render(sample())


def test_everything_is_on_the_page(page):
    text = " ".join(Reader(page).text.split())
    for paper in sample()["papers"]:
        assert paper["citation"] in text
        for one in paper["claims"]:
            assert one["says"].replace("`", "") in text and one["name"] in text
            assert one["because"] in text and one["reason"] in text
            assert f'href="#{anchor("claim", paper["name"], one["name"])}"' in page
        for one in paper["figures"]:
            assert one["title"] in text and one["caption"] in text and f"Look for: {one['look_for']}" in text
        for one in paper["errata"]:
            assert all(one[part] in text for part in ("where", "printed", "true", "repair", "severity", "measure"))
        for one in paper["inventory"]:
            assert one["id"] in text and one["what"] in text
            assert all(point["target"] in text for point in one["points"])
        for one in paper["experiments"]:
            assert one["asks"] in text and all(variant in text for variant in one["variants"])
    assert "0.0012 ≤ 0.01" in text and "0.5 > 0.01" in text and "not measured" in text
    assert "2 × 10−16" in text
    assert "No picture: needs --full" in text
    assert "11 runs made with (1)" in text and "3.12.3" in text
    assert "1 run made with (2)" in text and "NVIDIA H200" in text and "made with (1), (2)" in text


def test_errata_without_numbers_say_why(page):
    evidence = re.findall(r'data-label="Evidence">(.*?)</td>', page, re.DOTALL)
    assert ["as printed" in cell for cell in evidence] == [True, True, False, False]
    assert "no number needed" in evidence[2] and "its code failed" in evidence[3]


def test_texts_are_escaped(page):
    assert "k &lt; q &amp; <code>rank</code> of &lt;b&gt;v&lt;/b&gt;" in page
    assert "<b>v</b>" not in page


def test_links_lead_somewhere_on_the_page_and_ids_are_unique(page):
    assert not re.search(r"https?://|@import|<link|src=", page)
    reader = Reader(page)
    assert len(set(reader.ids)) == len(reader.ids)
    assert reader.links and set(reader.links) <= {f"#{one}" for one in reader.ids}


def test_each_figure_keeps_to_its_own_ids(page):
    for prefix in ("figure-first-1", "figure-first-2-20-b", "figure-second-1"):
        for text in (
            f'id="{prefix}-glyph"',
            f'<use xlink:href="#{prefix}-glyph"',
            f'<use href="#{prefix}-glyph"',
            f'clip-path="url(#{prefix}-clip)"',
            f"fill: url('#{prefix}-clip')",
            f"#{prefix} svg *{{stroke-linejoin",
        ):
            assert page.count(text) == 1, text
    assert page.count('<text>id="clip" of url(#clip)</text>') == 4  # what a figure says is not touched
    assert "metadata" not in page and "a comment" not in page


def test_corrections_are_linked_both_ways(page):
    row = {name: page.split(f'id="claim-first-{name}"')[1].split("</tr>")[0] for name in ("printed_law", "true_law")}
    assert 'Corrected by <a href="#claim-first-true_law">' in row["printed_law"]
    assert 'Corrects <a href="#claim-first-printed_law">' in row["true_law"]


def test_only_quick_runs_point_to_the_full_one(page):
    words = "are judged by <code>saddlescope reproduce --full</code>"
    assert words in page
    assert words not in render(sample() | {"full": True})


def test_same_data_same_bytes_and_data_untouched(page):
    data = sample()
    assert render(data) == page
    assert data == sample()


def test_a_missing_value_is_an_error():
    import jinja2

    data = sample()
    del data["papers"][0]["claims"][0]["says"]
    with pytest.raises(jinja2.UndefinedError, match="says"):
        render(data)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0012, "0.0012"),
        (-0.0, "0"),
        (-0.3, "−0.3"),
        (1e-5, "10⁻⁵"),
        (-1e-5, "−10⁻⁵"),
        (1234.5, "1234"),
        (2.2e-16, "2.2\u00a0×\u00a010⁻¹⁶"),
        (float("inf"), "∞"),
        (float("-inf"), "−∞"),
        (float("nan"), "not a number"),
    ],
)
def test_numbers(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "bound", "side", "text"),
    [
        (0.0012, 0.01, "at most", "0.0012 ≤ 0.01"),
        (0.010001, 0.01, "at most", "0.010001 > 0.01"),
        (0.01, 0.01, "at most", "0.01 ≤ 0.01"),
        (0.99, 0.9, "at least", "0.99 ≥ 0.9"),
        (0.3, 0.9, "at least", "0.3 < 0.9"),
        (0.3, 0.0, "above", "0.3 > 0"),
        (0.0, 0.0, "above", "0 ≤ 0"),
        (float("nan"), 0.0, "above", "not a number"),
        (float("inf"), 0.1, "at most", "∞ > 0.1"),
        (None, 0.1, "at most", "not measured"),
        (0.3, None, "at most", "0.3"),
    ],
)
def test_comparison_says_what_is_so(value, bound, side, text):
    assert comparison(value, bound, side) == text


def test_durations():
    assert [duration(s) for s in (None, 1.84, 43.2, 151.2, 9000)] == ["–", "1.8 s", "43 s", "3 min", "2 h 30 min"]


# ---- in a browser ----------------------------------------------------------------------------------------


def test_page_in_a_browser(page, browser, tmp_path):
    opens_well(browser, page, tmp_path)
