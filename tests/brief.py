"""The quick half of `reproduce`, of which `make verify` has the whole: python -m tests.brief OUT"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

from saddlescope.core.experiment import Experiment
from saddlescope.core.registry import subject
from saddlescope.lab.report import verdict_rows, write_report
from saddlescope.lab.reproduce import Chosen, carry_out, choose
from saddlescope.lab.store import Store

COMPILED = "jax"
"""Flows of systems written for jax alone are compiled first, which takes long: `make verify` has them."""


def brief() -> list[Chosen]:
    """Flows and predictions that need nothing to be compiled, with their claims, figures and errata."""
    found = []
    for one in choose():
        kept = [experiment for experiment in one.experiments if _is_cheap(experiment)]
        names = {experiment.name for experiment in kept}
        figures = [figure for figure in one.figures if names.issuperset(figure.experiments)]
        if kept:
            found.append(replace(one, experiments=tuple(kept), figures=tuple(figures)))
    return found


def _is_cheap(experiment: Experiment) -> bool:
    flow = subject(experiment.system).flow
    return experiment.face != "train" and flow is not None and flow.arrays != COMPILED


if __name__ == "__main__":
    out = Path(sys.argv[1])
    results = carry_out(brief(), Store(out / "runs"))
    write_report(results, out, full=False, began=time.perf_counter())
    print(json.dumps(verdict_rows(results)))
