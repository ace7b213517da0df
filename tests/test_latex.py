"""Words, numbers and verdicts as LaTeX, which sets whatever a room says."""

from __future__ import annotations

import pytest

from saddlescope.core.room import rooms
from saddlescope.show import latex
from saddlescope.show.verdict_table import SHORT, verdict_tables


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("100% of x_1 & {a} # $", r"100\% of x\_1 \& \{a\} \# \$"),
        ("a\\b ~ ^", r"a\textbackslash{}b \textasciitilde{} \textasciicircum{}"),
        ("needs --full", "needs -{}-full"),
        ("λ ≤ √2", r"\ensuremath{\lambda} \ensuremath{\le} \ensuremath{\surd}2"),
        ("10⁻¹² m² x₁", r"10\ensuremath{^{-12}} m\ensuremath{^{2}} x\ensuremath{_{1}}"),
        ("½ Wᵀ", r"\ensuremath{\frac{1}{2}} W\ensuremath{^{T}}"),
        ("Yüksel, Adserà", r"Y{\"{u}}ksel, Adser{\`{a}}"),
        ("ŷ̂", r"{\^{{\^{y}}}}"),
        ("1–2 ﬁx 中", "1--2 fix [U+4E2D]"),
    ],
)
def test_words_in_latex(words, expected):
    assert latex.text(words) == expected and expected.isascii()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "--"),
        (0.0012, "$0.0012$"),
        (1.23e-9, r"$1.23 \times 10^{-9}$"),
        (-1e-5, "$-10^{-5}$"),
        (1234.5, "$1234$"),
        (float("inf"), r"$\infty$"),
        (float("nan"), "not a number"),
    ],
)
def test_numbers_in_latex(value, expected):
    assert latex.number(value) == expected


def paper(count: int, **changes):
    claim = {
        "name": "some_claim",
        "says": "W_V grows as `x_1` ≤ λ.",
        "source": "Eq. (5)",
        "verdict": "supported",
        "value": 0.010001,
        "bound": 0.01,
        "side": "at least",
        "reason": "",
    }
    counts = {"supported": count, "refuted": 0, "undecided": 0}
    return {"name": "my_room", "citation": "Yüksel: A & B", "counts": counts, "claims": [{**claim, **changes}] * count}


def test_verdicts_as_a_table():
    table = verdict_tables([paper(2), paper(0)])
    assert table.isascii() and table.count("{") == table.count("}")
    assert table.count(r"\begin{") == table.count(r"\end{") == 2 and "longtable}" not in table.partition("\n\n")[2]
    assert r"W\_V grows as \texttt{x\_1} \ensuremath{\le} \ensuremath{\lambda}. & Eq. (5) & supported" in table
    assert r"$0.010001$ & $\ge 0.01$ \\" in table, "as many digits as tell the value from its bound"
    assert r"\label{tab:saddlescope-my-room}" in table and "2 supported, 0 refuted" in table


def test_a_long_table_runs_over_pages():
    assert r"\begin{longtable}" in verdict_tables([paper(SHORT + 1)])


def test_what_is_undecided_says_why():
    table = verdict_tables([paper(1, verdict="undecided", value=None, reason="needs --full")])
    assert r"\emph{Undecided: needs -{}-full.} & Eq. (5) & undecided & -- & $\ge 0.01$" in table


def test_all_claims_can_be_set():
    for one in rooms().values():
        assert all(latex.prose(words).isascii() for claim in one.claims for words in (claim.says, claim.source[1]))
