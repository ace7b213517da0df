r"""Verdicts as LaTeX tables, for \input in a paper."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .latex import number, prose, text
from .page import telling_digits

SHORT = 25
"""Verdicts up to which a table stays on one page."""

RELATIONS = {"at most": r"\le", "at least": r"\ge", "above": ">"}

HEAD = r"""% Verdicts of saddlescope: \input this file after \usepackage{array,booktabs,longtable}.
% A table of more than one page needs a page of one column: in a paper of two, set it after \onecolumn.
"""

WORDS = r">{\raggedright\arraybackslash}p{%s\linewidth}"
COLUMNS = rf"@{{}}{WORDS % 0.37}{WORDS % 0.18}lrl@{{}}"
HEADINGS = r"\toprule claim & source & verdict & value & bound \\ \midrule"
SMALL = r"\footnotesize\setlength{\tabcolsep}{4pt}"


def verdict_tables(papers: Sequence[Mapping[str, Any]]) -> str:
    """One for each paper.

    papers: each with name, citation, counts, and claims: name, says, source, verdict, value, bound, side, reason.
    """
    lines = (line for paper in papers if paper["claims"] for line in _table(paper))
    return "\n".join([HEAD, *lines])


def _table(paper: Mapping[str, Any]) -> Iterator[str]:
    counts = ", ".join(f"{count} {verdict}" for verdict, count in paper["counts"].items())
    label = "tab:saddlescope-" + re.sub("[^A-Za-z0-9]+", "-", paper["name"])
    caption = rf"\caption{{{text(paper['citation'])}: {counts}.}}\label{{{label}}}"
    rows = [line for claim in paper["claims"] for line in _row(claim)]
    if len(paper["claims"]) > SHORT:
        yield rf"\begingroup{SMALL}"
        yield rf"\begin{{longtable}}{{{COLUMNS}}}"
        yield rf"{caption}\\ {HEADINGS} \endfirsthead"
        yield rf"{HEADINGS} \endhead"
        yield r"\midrule \multicolumn{5}{r@{}}{continued on the next page} \\ \endfoot"
        yield r"\bottomrule \endlastfoot"
        yield from (*rows, r"\end{longtable}", r"\endgroup", "")
    else:
        yield rf"\begin{{table}}{SMALL}"
        yield caption
        yield rf"\smallskip\begin{{tabular}}{{{COLUMNS}}}"
        yield HEADINGS
        yield from (*rows, r"\bottomrule", r"\end{tabular}", r"\end{table}", "")


def _row(claim: Mapping[str, Any]) -> Iterator[str]:
    value, bound = claim["value"], claim["bound"]
    digits = telling_digits(value, bound)
    needed = "--" if bound is None else number(bound, digits).replace("$", f"${RELATIONS[claim['side']]} ", 1)
    says = prose(claim["says"])
    if claim["verdict"] == "undecided" and claim["reason"]:
        says += rf" \emph{{Undecided: {prose(claim['reason'])}.}}"
    yield f"% {claim['name']}"
    cells = [says, prose(claim["source"]), claim["verdict"], number(value, digits), needed]
    yield rf"{' & '.join(cells)} \\ \addlinespace[2pt]"
