"""What `reproduce` found, as one page."""

from __future__ import annotations

import platform
import sys
import time as wall
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from saddlescope.core.claim import Verdict
from saddlescope.core.experiment import Experiment
from saddlescope.core.files import write_whole
from saddlescope.core.progress import Tick, silent
from saddlescope.core.study import Study

from .pool import cores
from .reproduce import Reproduced, requests_of
from .run import strict
from .store import versions

VERDICTS = ("supported", "refuted", "undecided")


def verdict_rows(results: Sequence[Reproduced]) -> list[dict[str, Any]]:
    """One row per claim; the fields of the command line's --json."""
    return [
        strict(
            {
                "system": result.chosen.room.name,
                "claim": verdict.claim.name,
                "verdict": verdict.verdict,
                "value": verdict.value,
                "bound": verdict.bound,
                "source": ", ".join(verdict.claim.source),
                "reason": verdict.reason,
            }
        )
        for result in results
        for verdict in result.verdicts
    ]


def write_report(results: Sequence[Reproduced], out: Path, *, full: bool, began: float, tick: Tick = silent) -> Path:
    """Draw the figures into `out`/figures and write `out`/report.html, each whole or not at all.

    began: when the call did, by time.perf_counter.
    """
    from saddlescope.show.page import render

    figures = out / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    papers = [_paper(result, figures, full, tick) for result in results]
    used = versions(any(issubclass(kind, Study) for result in results for kind in result.chosen.room.subjects))
    data = {
        "title": "saddlescope report",
        "version": used["saddlescope"],
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "full": full,
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "seconds": wall.perf_counter() - began,
        "provenance": {
            **{name: version for name, version in used.items() if name != "saddlescope"},
            "machine": f"{platform.system()} {platform.machine()}",
            "cores": cores(),
        },
        "counts": _counts([verdict for result in results for verdict in result.verdicts]),
        "papers": papers,
    }
    page = render(strict(data))
    path = out / "report.html"
    write_whole(path, lambda partial: partial.write_text(page, encoding="utf-8"))
    return path


def _counts(verdicts: Sequence[Verdict]) -> dict[str, int]:
    return {word: sum(verdict.verdict == word for verdict in verdicts) for word in VERDICTS}


def _paper(result: Reproduced, folder: Path, full: bool, tick: Tick) -> dict[str, Any]:
    room = result.chosen.room
    return {
        "name": room.name,
        "key": room.paper,
        "citation": room.citation,
        "summary": room.subjects[0].summary,
        "counts": _counts(result.verdicts),
        "claims": [_claim(verdict) for verdict in result.verdicts],
        "figures": list(_figures(result, folder, tick)),
        "errata": [erratum_row(erratum) for erratum in room.errata] if result.chosen.whole else None,
        "coverage": room.coverage(),
        "inventory": [
            {
                "id": line.id,
                "kind": line.kind,
                "where": line.where,
                "what": line.what,
                "points": [{"kind": kind, "target": target} for kind, target in line.points_to],
            }
            for line in room.inventory
        ],
        "experiments": [_experiment(result, experiment, full) for experiment in result.chosen.experiments],
    }


def _claim(verdict: Verdict) -> dict[str, Any]:
    claim = verdict.claim
    return {
        "name": claim.name,
        "says": claim.says,
        "source": claim.source[1],
        "verdict": verdict.verdict,
        "value": verdict.value,
        "bound": verdict.bound,
        "side": claim.relation.side,
        "relation": claim.relation.name,
        "because": claim.relation.because,
        "reason": verdict.reason,
        "runs": verdict.runs,
        "experiment": claim.experiment,
        "repairs": claim.repairs,
    }


def erratum_row(erratum: Any) -> dict[str, Any]:
    """An erratum with its evidence, which is computed here and takes seconds."""
    printed, repaired = erratum.shows()
    texts = ("name", "where", "printed", "true", "severity", "repair", "measure", "version")
    return {
        **{name: getattr(erratum, name) for name in texts},
        "off_printed": float(printed),
        "off_repaired": float(repaired),
    }


def _figures(result: Reproduced, folder: Path, tick: Tick) -> Any:
    from saddlescope.show.style import svg_of

    results = result.results
    for number, figure in enumerate(result.chosen.figures, start=1):
        tick(number / len(result.chosen.figures), f"figure {figure.name} of {result.chosen.room.name}")
        lacking = [result.missing[name] for name in figure.experiments if name in result.missing]
        svg = None if lacking else svg_of(figure, results)
        if svg is not None:
            path = folder / f"{result.chosen.room.name}-{figure.name}.svg"
            write_whole(path, lambda partial, text=svg: partial.write_text(text, encoding="utf-8"))
        yield {
            "name": figure.name,
            "title": figure.title,
            "source": figure.source,
            "caption": figure.caption,
            "look_for": figure.look_for,
            "svg": svg,
            "missing": lacking[0] if lacking else "",
            "experiments": list(figure.experiments),
        }


def _experiment(result: Reproduced, experiment: Experiment, full: bool) -> dict[str, Any]:
    outcomes = result.runs.get(experiment.name, ())
    size = experiment.size(full)
    variants = [{**experiment.fields, **variant} for variant in size.variants] if size else []
    shown = [", ".join(f"{name}={_short(value)}" for name, value in fields.items()) for fields in variants]
    return {
        "name": experiment.name,
        "asks": experiment.asks,
        "system": experiment.system,
        "face": experiment.face,
        "runs": sum(len(request.seeds) for request in requests_of(experiment, full)),
        "finished": sum(outcome.result.startswith("finished") for outcome in outcomes),
        "seconds": sum(outcome.seconds for outcome in outcomes),
        "variants": shown,
    }


def _short(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return "[" + ",".join(_short(entry) for entry in value) + "]"
    return f"{value:.4g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
