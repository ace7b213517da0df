"""The quick half of `reproduce`, of which `make verify` has the whole: python -m tests.brief OUT"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

from saddlescope.lab.report import verdict_rows, write_report
from saddlescope.lab.reproduce import Chosen, choose, reproduce
from saddlescope.lab.store import Store

ROOMS = ("linear_icl", "sparse_attention")
"""Whose flows need nothing to be compiled."""


def brief() -> list[Chosen]:
    """Flows and predictions of these rooms, with their claims, figures and errata."""
    found = []
    for one in choose(ROOMS):
        kept = [experiment for experiment in one.experiments if experiment.face != "train"]
        names = {experiment.name for experiment in kept}
        figures = [figure for figure in one.figures if names.issuperset(figure.experiments)]
        if kept:
            found.append(replace(one, experiments=tuple(kept), figures=tuple(figures)))
    return found


if __name__ == "__main__":
    out = Path(sys.argv[1])
    results = reproduce(brief(), Store(out / "runs"))
    write_report(results, out, full=False, began=time.perf_counter())
    print(json.dumps(verdict_rows(results)))
