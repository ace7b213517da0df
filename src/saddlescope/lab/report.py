"""What `reproduce` found, as one page."""

from __future__ import annotations

import json
import sys
import time as wall
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import saddlescope
from saddlescope.core.claim import Verdict
from saddlescope.core.experiment import Erratum, Experiment
from saddlescope.core.files import write_whole
from saddlescope.core.room import Room
from saddlescope.core.run import Origin
from saddlescope.core.strict import strict

from .reproduce import Reproduced

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


def seconds_of(results: Sequence[Reproduced]) -> dict[str, float]:
    """What the runs of each room took, whenever they were made; a run that serves two experiments counts once."""
    return {
        result.chosen.room.name: sum(
            {about.stamp: about.seconds for group in result.about.values() for about in group}.values()
        )
        for result in results
    }


def write_report(results: Sequence[Reproduced], out: Path, *, full: bool, began: float) -> Path:
    """Write the figures into `out`/figures, and `out`/report.html, each whole or not at all.

    began: when the call did, by time.perf_counter.
    """
    from saddlescope.show.page import render

    figures = out / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    makers = _makers(results)
    papers = [_paper(result, figures, full, makers) for result in results]
    data = {
        "title": "saddlescope report",
        "version": saddlescope.__version__,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "full": full,
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "seconds": wall.perf_counter() - began,
        "makers": [
            {"versions": made.versions, "machine": made.machine, "device": made.device, "runs": runs}
            for made, runs in makers
        ],
        "counts": _counts([verdict for result in results for verdict in result.verdicts]),
        "papers": papers,
    }
    page = render(strict(data))
    path = out / "report.html"
    write_whole(path, lambda partial: partial.write_text(page, encoding="utf-8"))
    return path


def _counts(verdicts: Sequence[Verdict]) -> dict[str, int]:
    return {word: sum(verdict.verdict == word for verdict in verdicts) for word in VERDICTS}


NOT_SHOWN: Mapping[str, float | str | None] = {"off_printed": None, "off_repaired": None, "lacks": ""}
"""Of a plain misprint."""

Makers = Sequence[tuple[Origin, int]]
"""What made the runs of a report, and how many of them: those that made most come first."""


def _makers(results: Sequence[Reproduced]) -> Makers:
    found: dict[str, tuple[Origin, int]] = {}
    # A run that serves two experiments counts once.
    runs = {about.stamp: about.made for result in results for group in result.about.values() for about in group}
    for made in runs.values():
        key = json.dumps(made, sort_keys=True)
        found[key] = made, found.get(key, (made, 0))[1] + 1
    return sorted(found.values(), key=lambda pair: -pair[1])


def table_of(result: Reproduced) -> dict[str, Any]:
    """The verdicts of a room: name, citation, counts, claims."""
    return {
        "name": result.chosen.room.name,
        "citation": result.chosen.room.citation,
        "counts": _counts(result.verdicts),
        "claims": [_claim(verdict) for verdict in result.verdicts],
    }


def _paper(result: Reproduced, folder: Path, full: bool, makers: Makers) -> dict[str, Any]:
    room = result.chosen.room
    return {
        **table_of(result),
        "key": room.paper,
        "summary": room.subjects[0].summary,
        "figures": list(_figures(result, folder)),
        "errata": _errata(result),
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
        "experiments": [_experiment(result, experiment, full, makers) for experiment in result.chosen.experiments],
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


def _errata(result: Reproduced) -> list[dict[str, Any]] | None:
    if result.errata is None:
        return None
    room = result.chosen.room
    return [erratum_row(room, erratum, result.errata.get(erratum.name, NOT_SHOWN)) for erratum in room.errata]


def erratum_row(room: Room, erratum: Erratum, off: Mapping[str, float | str | None]) -> dict[str, Any]:
    """An erratum with its evidence. version: of the paper that was read.  off: what `off_by` gives."""
    texts = ("name", "where", "printed", "true", "severity", "repair", "measure")
    found = {**{name: getattr(erratum, name) for name in texts}, "version": room.version}
    return {**found, **{name: off[name] for name in NOT_SHOWN}}


def _figures(result: Reproduced, folder: Path) -> Iterator[dict[str, Any]]:
    for figure in result.chosen.figures:
        lacking = [result.missing[name] for name in figure.experiments if name in result.missing]
        svg = result.figures.get(figure.name)
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
            "missing": lacking[0] if lacking else "" if svg else "its code failed, or an experiment does not exist",
            "experiments": list(figure.experiments),
        }


def _experiment(result: Reproduced, experiment: Experiment, full: bool, makers: Makers) -> dict[str, Any]:
    abouts = result.about.get(experiment.name, ())
    known = [made for made, _ in makers]
    size = experiment.size(full)
    variants = [{**experiment.fields, **variant} for variant in size.variants] if size else []
    shown = [", ".join(f"{name}={_short(value)}" for name, value in fields.items()) for fields in variants]
    return {
        "name": experiment.name,
        "asks": experiment.asks,
        "system": experiment.system,
        "face": experiment.face,
        "runs": sum(len(request.seeds) for request in result.requests[experiment.name]),
        "finished": sum(about.finished for about in abouts),
        "seconds": sum(about.seconds for about in abouts),
        "makers": sorted({known.index(about.made) + 1 for about in abouts}),
        "variants": shown,
    }


def _short(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return "[" + ",".join(_short(entry) for entry in value) + "]"
    return f"{value:.4g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
