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
from saddlescope.core.room import room, rooms
from saddlescope.lab.report import verdict_rows
from saddlescope.lab.reproduce import choose, reproduce, requests_of
from saddlescope.lab.store import Store

from .browser import opens_well
from .conftest import unbeaten

COMMAND = [sys.executable, "-m", "saddlescope", "reproduce"]


def call(*arguments, **kwargs):
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, **kwargs)


def test_every_claim_has_its_verdict(quick):
    _, rows, chosen = quick
    claims = {(one.room.name, claim.name) for one in chosen for claim in one.claims}
    assert len(claims) > 80
    assert {(row["system"], row["claim"]) for row in rows} == claims
    for row in rows:
        assert set(row) == {"system", "claim", "verdict", "value", "bound", "source", "reason"}
        assert row["verdict"] in ("supported", "refuted", "undecided")
        assert (row["value"] is None) == (row["verdict"] == "undecided")


def test_what_is_undecided_needs_the_paper_size(quick):
    assert {row["reason"] for row in quick[1] if row["verdict"] == "undecided"} == {NEEDS_FULL}


REFUTED = {
    "printed_durations",
    "zero_blocks_stay_zero",
    "paper_test_of_returns",
    "none_leaves_anywhere",
    "one_head_per_stage",
    "adam_learns_one_by_one",
    "other_losses",
    "conservation_lets_one_move",
    "broken_conservation_breaks_stages",
    "competition_at_any_strength",
    "assumption_1",
    "order_leads_to_the_first",
    "universal_growth",
    "window_grows",
    "values_bounded_by_first",
    "removals_keep_everything",
    "reversed_all",
    "truncated_truth_levels",
    "equal_importance_two_steps",
    "initial_outputs_below_a_hundredth",
    "two_words_together",
    "generalisation_anywhere",
    "all_types_at_one_rate",
    "words_add_order_one",
    "score_changes_without_logarithms",
    "attention_rates_as_stated",
    "attention_to_words_as_stated",
    "balance_with_topics",
    "appendix_signs",
    "phases_with_adam",
    "rank_grows",
    "lora_rank_grows",
    "lora_one_at_a_time",
}
"""What the papers print and does not hold, at quick size."""


def test_what_the_paper_prints_and_does_not_hold_is_refuted(quick):
    _, rows, chosen = quick
    asked = {claim.name for one in chosen for claim in one.claims}
    assert {row["claim"] for row in rows if row["verdict"] == "refuted"} == REFUTED & asked
    assert len(REFUTED & asked) > 5


def test_every_refuted_claim_is_paired_with_its_correction(quick):
    corrected = {claim.repairs for found in rooms().values() for claim in found.claims}
    assert {row["claim"] for row in quick[1] if row["verdict"] == "refuted"} <= corrected


@pytest.mark.parametrize("name", rooms())
def test_every_supported_claim_can_lose(quick, name):
    out, _, chosen = quick
    for result in reproduce([one for one in chosen if one.room.name == name], Store(out / "runs")):
        assert not unbeaten(result)


def test_each_run_and_each_answer_is_made_once(quick):
    out, rows, chosen = quick
    wanted = {request.name for one in chosen for e in one.experiments for request in requests_of(e, False)}

    def written():
        files = [*out.glob("runs/[!.]*/**/meta.json"), *out.glob("runs/.derived/*")]
        return {path: path.stat().st_mtime_ns for path in files if path.parent.name in wanted | {".derived"}}

    before = written()
    assert verdict_rows(reproduce(chosen, Store(out / "runs"))) == rows
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
            there = all(one.room.experiments[name].quick for name in figure.experiments)
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
    done = call("linear_icl:5", "--out", beside, "--json")
    claims = {claim.name for claim in room("linear_icl").claims if claim.experiment == "next_token"}
    assert {row["claim"] for row in json.loads(done.stdout)} == claims


@pytest.mark.slow
def test_what_was_shown_can_be_kept(beside):
    done = call("sparse_attention:6", "--out", beside, "--record", beside / "kept", "--json")
    kept = beside / "kept" / "sparse_attention"
    assert json.loads((kept / "verdicts.json").read_text()) == json.loads(done.stdout)
    assert [file.name for file in (kept / "figures").iterdir()] == ["sparse_attention-6.svg"]
    runs = json.loads((kept / "runs.json").read_text())
    assert [run["set"] for run in runs] == [{}, {"fresh_data": True}]
    assert all(run["device"] and run["versions"]["jax"] and run["experiments"] == ["online"] for run in runs)
    with (kept / "curves.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["step"] for row in rows if row["run"] == "1"][-1] == "2500"
    assert float(rows[0]["excess"]) > float(rows[-1]["excess"]) > 0


def test_no_worker_is_no_way(tmp_path):
    done = call("linear_icl:9", "--out", tmp_path, "--workers", 0)
    assert done.returncode == 2 and "--workers" in done.stderr


@pytest.mark.parametrize("text", ["4", "fig4", "Fig. 4", "figure 4"])
def test_figures_are_found_by_any_spelling(text):
    (chosen,) = choose([f"linear_icl:{text}"])
    assert [figure.name for figure in chosen.figures] == ["4"]
    assert [experiment.name for experiment in chosen.experiments] == ["scales"]


def test_whole_room_wins_over_a_figure_of_it():
    (chosen,) = choose(["linear_icl:4", "linear_icl"])
    assert chosen.whole


@pytest.mark.parametrize(
    ("target", "words"), [("linear_ikl", "did you mean"), ("linear_icl:44", "figure of linear_icl")]
)
def test_unknown_targets_are_named(target, words):
    with pytest.raises(BadArgument, match=words):
        choose([target])
