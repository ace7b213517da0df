"""The main job, end to end: verdicts, figures, report; killed, crowded, and short of disk."""

from __future__ import annotations

import csv
import json
import random
import re
import signal
import subprocess
import sys
import time

import pytest
from markupsafe import escape

from saddlescope.core.claim import NEEDS_FULL
from saddlescope.core.errors import BadArgument
from saddlescope.core.room import room, rooms
from saddlescope.lab.reproduce import choose, reproduce, requests_of
from saddlescope.lab.store import Store
from saddlescope.testing.sabotage import can_lose

from .browser import opens_well
from .waiting import wait_for

COMMAND = [sys.executable, "-m", "saddlescope", "reproduce"]


def call(*arguments, **kwargs):
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, **kwargs)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """Everything at quick size: the folder and the verdicts."""
    out = tmp_path_factory.mktemp("quick")
    done = call("--out", out, "--json")
    assert done.returncode == 0, done.stderr
    return out, json.loads(done.stdout)


@pytest.fixture(scope="module")
def results(quick):
    out, _ = quick
    return reproduce(choose(), Store(out / "runs"))


def test_every_claim_has_its_verdict(quick):
    _, rows = quick
    claims = {(name, claim.name) for name, found in rooms().items() for claim in found.claims}
    assert {(row["system"], row["claim"]) for row in rows} == claims
    for row in rows:
        assert set(row) == {"system", "claim", "verdict", "value", "bound", "source", "reason"}
        assert row["verdict"] in ("supported", "refuted", "undecided")
        assert (row["value"] is None) == (row["verdict"] == "undecided")


def test_what_is_undecided_needs_the_paper_size(quick):
    assert {row["reason"] for row in quick[1] if row["verdict"] == "undecided"} == {NEEDS_FULL}


def test_what_the_paper_prints_and_does_not_hold_is_refuted(quick):
    refuted = {row["claim"] for row in quick[1] if row["verdict"] == "refuted"}
    assert refuted == {
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


def test_every_refuted_claim_is_paired_with_its_correction(quick):
    corrected = {claim.repairs for found in rooms().values() for claim in found.claims}
    assert {row["claim"] for row in quick[1] if row["verdict"] == "refuted"} <= corrected


def test_every_supported_claim_can_lose(results):
    for result in results:
        for verdict in result.verdicts:
            if verdict.verdict == "supported":
                runs = result.results[verdict.claim.experiment]
                assert can_lose(verdict.claim, runs), f"{verdict.claim.name} survives every sabotage"


def test_each_run_is_made_once(quick):
    out, rows = quick
    before = {path: path.stat().st_mtime_ns for path in out.glob("runs/**/meta.json")}
    again = call("--out", out, "--json")
    assert json.loads(again.stdout) == rows
    assert {path: path.stat().st_mtime_ns for path in out.glob("runs/**/meta.json")} == before
    wanted = {request.name for one in choose() for e in one.experiments for request in requests_of(e, False)}
    assert len(before) == len(wanted)


def test_the_report_shows_everything_and_needs_nothing(quick):
    out, rows = quick
    page = (out / "report.html").read_text()
    assert "http://" not in page and "https://" not in page
    for row in rows:
        assert row["claim"] in page
    for found in rooms().values():
        for figure in found.figures.values():
            assert escape(figure.title) in page
            there = all(found.experiments[name].quick for name in figure.experiments)
            assert (out / "figures" / f"{found.name}-{figure.name}.svg").is_file() == there
        for line in found.inventory:
            assert line.id in page


def test_the_report_in_a_browser(quick, browser, tmp_path):
    opens_well(browser, (quick[0] / "report.html").read_text(), tmp_path)


def test_one_figure_alone_draws_on_its_own_experiments(quick, tmp_path):
    out, _ = quick
    done = call("linear_icl:5", "--out", out, "--json")
    claims = {claim.name for claim in room("linear_icl").claims if claim.experiment == "next_token"}
    assert {row["claim"] for row in json.loads(done.stdout)} == claims


def test_what_was_shown_can_be_kept(quick, tmp_path):
    done = call("sparse_attention:6", "--out", quick[0], "--record", tmp_path, "--json")
    kept = tmp_path / "sparse_attention"
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


# ---- trouble ---------------------------------------------------------------------------------------------

SMALL = "linear_icl:9"
"""Some thirty short runs."""


def bare(page):
    """The report without dates, durations and the command line."""
    for changing in (r"<time>.*?</time>", r'<span class="duration">.*?</span>', r"<dt>command</dt><dd>.*?</dd>"):
        page = re.sub(changing, "", page)
    return page


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed")
    assert call(SMALL, "--out", out).returncode == 0
    return bare((out / "report.html").read_text())


def kill_after_a_run(out, pause):
    before = stored(out)
    process = subprocess.Popen(
        [*COMMAND, SMALL, "--out", str(out)], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    # On a quick machine all runs may be there before the last kill.
    wait_for(lambda: stored(out) != before or process.poll() is not None, process)
    time.sleep(pause)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert before <= stored(out)


def stored(out):
    # Hidden folders are unfinished, and may vanish while they are looked through.
    return {path.parent.name for path in out.glob("runs/[!.]*/[!.]*/meta.json")}


def test_kills_lose_nothing(tmp_path, undisturbed):
    rng = random.Random(0)
    for _ in range(4):
        kill_after_a_run(tmp_path, rng.uniform(0, 1))
    assert stored(tmp_path)
    done = call(SMALL, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert bare((tmp_path / "report.html").read_text()) == undisturbed
    assert not list(tmp_path.glob("runs/**/.partial-*"))


def test_two_at_once_in_one_store(tmp_path, undisturbed):
    both = [
        subprocess.Popen(
            [*COMMAND, SMALL, "--out", str(tmp_path)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        )
        for _ in range(2)
    ]
    for process in both:
        _, errors = process.communicate()
        assert process.returncode == 0, errors
    assert bare((tmp_path / "report.html").read_text()) == undisturbed
    assert not list(tmp_path.glob("runs/**/.partial-*"))


def test_an_interrupt_leaves_nothing_half_written(tmp_path):
    process = subprocess.Popen([*COMMAND, SMALL, "--out", str(tmp_path)], stderr=subprocess.PIPE, text=True)
    wait_for(lambda: stored(tmp_path), process)
    process.send_signal(signal.SIGINT)
    _, words = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted" in words and "Traceback" not in words
    assert not list(tmp_path.glob("runs/**/.partial-*"))


def test_workers_end_with_their_parent(tmp_path):
    process = subprocess.Popen(
        [*COMMAND, SMALL, "--out", str(tmp_path)], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    wait_for(lambda: stored(tmp_path), process)
    process.kill()
    process.wait()
    time.sleep(3)
    count = len(stored(tmp_path))
    time.sleep(3)
    assert len(stored(tmp_path)) == count < 32


def test_a_full_disk_is_said_and_costs_no_run(tmp_path):
    """A limit on file sizes stands for the full disk: the first zarr chunk that exceeds it fails."""
    limits = ["bash", "-c", 'ulimit -f 3; exec "$@"', "bash"]
    limited = subprocess.run([*limits, *COMMAND, SMALL, "--out", str(tmp_path)], capture_output=True, text=True)
    assert limited.returncode == 1
    assert "cannot write to" in limited.stderr and "are kept" in limited.stderr
    assert "Traceback" not in limited.stderr
    assert not list(tmp_path.glob("runs/**/.partial-*"))
    assert call(SMALL, "--out", tmp_path).returncode == 0


def test_a_folder_that_cannot_be_written_is_a_bad_argument(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    done = call(SMALL, "--out", tmp_path / "file")
    assert done.returncode == 2
    assert "choose another folder with --out" in done.stderr
