"""The main job, end to end: verdicts, figures, report; killed, crowded, and short of disk."""

from __future__ import annotations

import csv
import json
import subprocess
import sys

import pytest
from markupsafe import escape

from saddlescope.core.claim import NEEDS_FULL
from saddlescope.core.errors import BadArgument
from saddlescope.core.room import rooms
from saddlescope.lab.record import ROWS
from saddlescope.lab.report import verdict_rows
from saddlescope.lab.reproduce import carry_out, choose, requests_of
from saddlescope.lab.store import Store

from .browser import opens_well
from .conftest import expected_of, unbeaten

COMMAND = [sys.executable, "-m", "saddlescope", "reproduce"]


def call(*arguments, **kwargs):
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, **kwargs)


def test_every_claim_has_its_verdict(quick):
    _, rows, chosen = quick
    claims = {(one.room.name, claim.name) for one in chosen for claim in one.claims}
    assert all(one.claims for one in chosen)
    assert ("squares", "drop_times") in claims
    assert {(row["system"], row["claim"]) for row in rows} == claims
    for row in rows:
        assert set(row) == {"system", "claim", "verdict", "value", "bound", "source", "reason"}
        assert row["verdict"] in ("supported", "refuted", "undecided")
        assert (row["value"] is None) == (row["verdict"] == "undecided")


def test_what_is_undecided_needs_the_paper_size(quick):
    """It is undecided for no other reason; and what asks for more runs than the short size has is undecided."""
    _, rows, chosen = quick
    runs = {
        (one.room.name, e.name): sum(len(request.seeds) for request in requests_of(e, False))
        for one in chosen
        for e in one.experiments
    }
    needing = {
        (one.room.name, claim.name)
        for one in chosen
        for claim in one.claims
        if runs[one.room.name, claim.experiment] < claim.seeds.least
    }
    undecided = {(row["system"], row["claim"]): row["reason"] for row in rows if row["verdict"] == "undecided"}
    assert undecided == dict.fromkeys(needing, NEEDS_FULL)


def test_what_the_paper_prints_and_does_not_hold_is_refuted(quick):
    """And nothing else; each is paired with its correction. What rooms from elsewhere should show is theirs to say."""
    _, rows, chosen = quick
    for one in chosen:
        refuted = {row["claim"] for row in rows if (row["system"], row["verdict"]) == (one.room.name, "refuted")}
        assert refuted <= {claim.repairs for claim in one.room.claims}
        if expected := expected_of(one.room):
            assert refuted == expected.REFUTED & {claim.name for claim in one.claims}


@pytest.mark.parametrize("name", rooms())
def test_every_supported_claim_can_lose(quick, name):
    out, _, chosen = quick
    for result in carry_out([one for one in chosen if one.room.name == name], Store(out / "runs")):
        assert not unbeaten(result)


def test_each_run_and_each_answer_is_made_once(quick):
    out, rows, chosen = quick
    wanted = {request.name for one in chosen for e in one.experiments for request in requests_of(e, False)}

    def written():
        files = [*out.glob("runs/[!.]*/**/meta.json"), *out.glob("runs/.derived/*")]
        return {path: path.stat().st_mtime_ns for path in files if path.parent.name in wanted | {".derived"}}

    before = written()
    assert verdict_rows(carry_out(chosen, Store(out / "runs"))) == rows
    assert written().items() >= before.items()  # other tests may add answers of their own
    assert wanted <= {path.parent.name for path in before}


def test_the_report_shows_everything_and_needs_nothing(quick):
    out, rows, chosen = quick
    page = (out / "report.html").read_text()
    assert "http://" not in page and "https://" not in page
    for row in rows:
        assert row["claim"] in page
    for one in chosen:
        for figure in one.figures:
            assert escape(figure.title) in page
            there = all(one.room.experiments[name].short for name in figure.experiments)
            assert (out / "figures" / f"{one.room.name}-{figure.name}.svg").is_file() == there
        for line in one.room.inventory:
            assert line.id in page


def test_the_report_in_a_browser(quick, browser, tmp_path):
    opens_well(browser, (quick[0] / "report.html").read_text(), tmp_path)


@pytest.fixture
def beside(quick, tmp_path):
    """Another report on the same runs."""
    (tmp_path / "runs").symlink_to(quick[0] / "runs")
    return tmp_path


def test_one_figure_alone_draws_on_its_own_experiments(beside):
    done = call("squares:1", "--out", beside, "--json")
    assert {row["claim"] for row in json.loads(done.stdout)} == {"drop_times"}


def test_what_was_shown_can_be_kept(tmp_path):
    """Of trainings: flows, and figures of flows alone, are cheap to repeat."""
    done = call("squares", "--out", tmp_path, "--record", tmp_path / "kept", "--json")
    kept = tmp_path / "kept" / "squares"
    assert json.loads((kept / "verdicts.json").read_text()) == json.loads(done.stdout)
    assert [file.name for file in (kept / "figures").iterdir()] == ["squares-2.svg"]
    (run,) = json.loads((kept / "runs.json").read_text())
    assert run["set"] == {"learning_rate": 0.01} and run["experiments"] == ["training"]
    assert run["device"] and run["versions"]["jax"]
    with (kept / "curves.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == ROWS and int(rows[-1]["step"]) > 10 * ROWS
    assert float(rows[0]["loss"]) > float(rows[-1]["loss"]) > 0


def test_no_worker_is_no_way(tmp_path):
    done = call("squares:1", "--out", tmp_path, "--workers", 0)
    assert done.returncode == 2 and "`workers` must be at least 1" in done.stderr


@pytest.mark.parametrize("text", ["2", "fig2", "Fig. 2", "figure 2"])
def test_figures_are_found_by_any_spelling(text):
    (chosen,) = choose([f"squares:{text}"])
    assert [figure.name for figure in chosen.figures] == ["2"]
    assert [experiment.name for experiment in chosen.experiments] == ["training"]


def test_whole_room_wins_over_a_figure_of_it():
    (chosen,) = choose(["squares:1", "squares"])
    assert chosen.whole


@pytest.mark.parametrize(("target", "words"), [("squaers", "did you mean"), ("squares:44", "figure of squares")])
def test_unknown_targets_are_named(target, words):
    with pytest.raises(BadArgument, match=words):
        choose([target])
