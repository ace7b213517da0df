"""`reproduce` in trouble: killed, interrupted, crowded, short of disk, robbed of its workers, its runs damaged."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from saddlescope.core.progress import progress
from saddlescope.lab.seal import read_sealed
from saddlescope.show.tables import verdicts

from .conftest import example_code, printed
from .full_disk import on_a_full_disk
from .packages import install
from .synthetic import PARTS, RUNS
from .test_damage import DAMAGES
from .waiting import wait_for

COMMAND = [sys.executable, "-m", "saddlescope", "reproduce", "drops", "--workers", "2"]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return tmp_path_factory.mktemp("site")


def environment(site):
    """One in which the paper is found, its code as it was written."""
    install(site, "drops", {**PARTS, "drops/squares.py": example_code()})
    return {**os.environ, "PYTHONPATH": str(site)}


@pytest.fixture
def call(site, tmp_path):
    """`run` runs the command to its end, `begin` only starts it, and `end` waits for it."""
    out = tmp_path / "out"

    def begin(*arguments, prefix=(), **settings):
        return subprocess.Popen(
            [*prefix, *COMMAND, "--out", str(out), *map(str, arguments)],
            env={**environment(site), **settings},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(process, code=0):
        """What it says and what it complains of, once it has ended as it should."""
        said, complaints = process.communicate(timeout=120)
        assert process.returncode == code and "Traceback" not in complaints, complaints
        return said, complaints

    def run(*arguments, code=0, **options):
        return end(begin(*arguments, **options), code)

    return SimpleNamespace(begin=begin, end=end, out=out, run=run)


def report(out):
    """Without dates, durations and the command line."""
    page = (out / "report.html").read_text()
    for changing in (r"<time>.*?</time>", r'<span class="duration">.*?</span>', r"<dt>command</dt><dd>.*?</dd>"):
        page = re.sub(changing, "", page)
    return page


def stored(out):
    # Hidden folders are unfinished, and may vanish while they are looked through.
    return {path.parent.name for path in out.glob("runs/[!.]*/[!.]*/meta.json")}


@pytest.fixture(scope="module")
def undisturbed(site, tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed")
    printed(*COMMAND, "--out", out, env=environment(site))
    assert len(stored(out)) == RUNS
    return out


def test_kills_lose_nothing(call, undisturbed):
    rng = random.Random(0)
    for _ in range(3):
        before = stored(call.out)
        process = call.begin(DROPS_PAUSE="0.3")
        wait_for(lambda before=before: stored(call.out) != before, process)
        time.sleep(rng.uniform(0, 0.3))
        process.kill()
        process.communicate()
        assert before < stored(call.out)
    call.run()
    assert report(call.out) == report(undisturbed)
    assert not list(call.out.glob("runs/**/.partial-*"))


def test_two_at_once_in_one_store(call, undisturbed):
    both = [call.begin(DROPS_PAUSE="0.05") for _ in range(2)]
    for process in both:
        call.end(process)
    assert report(call.out) == report(undisturbed)
    assert not list(call.out.glob("runs/**/.partial-*"))


def test_an_interrupt_leaves_nothing_half_written(call):
    process = call.begin(DROPS_PAUSE="0.5")
    wait_for(lambda: stored(call.out), process)
    process.send_signal(signal.SIGINT)
    assert "interrupted" in call.end(process, 130)[1]
    assert not list(call.out.glob("runs/**/.partial-*"))


def stat_of(pid):
    """State and parent of a process; None where there is none."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return None
    return state, int(parent)


def workers_of(process):
    pids = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
    children = [pid for pid in pids if (stat_of(pid) or (None, 0))[1] == process.pid]
    return [pid for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def alive(pid):
    found = stat_of(pid)
    return found is not None and found[0] != "Z"


def test_workers_end_with_their_parent(call):
    process = call.begin(DROPS_PAUSE="0.5")
    wait_for(lambda: stored(call.out), process)
    workers = workers_of(process)
    assert len(workers) == 2
    process.kill()
    process.communicate()
    began = time.monotonic()
    while any(map(alive, workers)):
        assert time.monotonic() - began < 20
        time.sleep(0.05)
    assert len(stored(call.out)) < RUNS


def test_a_lost_worker_costs_its_run_alone(call, undisturbed):
    process = call.begin(DROPS_PAUSE="0.3")
    wait_for(lambda: stored(call.out), process)
    os.kill(workers_of(process)[0], signal.SIGKILL)
    _, words = call.end(process)
    assert "a worker process was lost" in words and "memory" not in words
    assert report(call.out) == report(undisturbed)


def test_a_run_that_always_takes_its_worker_with_it_is_the_end(call, tmp_path):
    fatal = tmp_path / "fatal"
    fatal.mkdir()
    (fatal / "once").touch()
    _, words = call.run(DROPS_FATAL=str(fatal))
    assert words.count("a worker process was lost") == 1
    shutil.rmtree(call.out)
    for number in range(9):
        (fatal / str(number)).touch()
    _, words = call.run(DROPS_FATAL=str(fatal), code=1)
    assert "flow drops seed 5 was lost 3 times" in words and "are kept" in words and "memory" not in words


def test_a_full_disk_is_said_and_costs_no_run(call):
    _, words = call.run(prefix=on_a_full_disk(3), code=1)
    assert "cannot write to" in words and "are kept" in words
    assert not list(call.out.glob("runs/**/.partial-*"))
    call.run()


def test_a_folder_that_cannot_be_written_is_a_bad_argument(call):
    call.out.write_text("not a folder")
    assert "choose another folder with --out" in call.run(code=2)[1]


def test_damaged_runs_are_made_again_and_said(call, undisturbed):
    """Every kind of damage, each to a run of its own: the same verdicts, the same report, and a word for each."""
    shutil.copytree(undisturbed, call.out)
    folders = sorted(path for path in call.out.glob("runs/drops/flow-*") if path.is_dir())
    rng = random.Random(0)
    *damaged, other = rng.sample(folders, len(DAMAGES) + 1)
    for damage, folder in zip(DAMAGES, damaged, strict=True):
        damage(folder, rng, other)
    said, words = call.run("--json")
    assert [row["verdict"] for row in json.loads(said)] == ["supported"]
    assert report(call.out) == report(undisturbed)
    assert stored(call.out) == stored(undisturbed)
    assert words.count("the stored run was damaged") == len(damaged)
    for folder in damaged:
        assert not folder.is_symlink() and read_sealed(folder, folder.name)
        assert os.path.lexists(folder.with_name(f".damaged-{folder.name}"))


def folder_in_its_place(path):
    path.unlink()
    (path / "inside").mkdir(parents=True)


def pipe_in_its_place(path):
    path.unlink()
    os.mkfifo(path)


def another_verdict(path):
    path.write_text(path.read_text().replace("supported", "refuted"))


def another_answer(path):
    (other,) = path.parent.glob("quick-figure-*.json")
    path.write_bytes(other.read_bytes())


@pytest.mark.parametrize("damage", [another_verdict, another_answer, folder_in_its_place, pipe_in_its_place])
def test_damaged_answers_are_worked_out_again(call, undisturbed, damage):
    shutil.copytree(undisturbed, call.out)
    (answer,) = call.out.glob("runs/.derived/quick-verdicts-*.json")
    before = answer.read_bytes()
    damage(answer)
    assert json.loads(call.run("--json")[0])[0]["verdict"] == "supported"
    assert report(call.out) == report(undisturbed)
    assert answer.read_bytes() == before


def test_what_comes_of_code_that_is_edited_meanwhile_is_not_kept(call, site):
    """Its numbers would stand under the name of the other code for ever."""
    process = call.begin(DROPS_PAUSE="0.3")
    wait_for(lambda: stored(call.out), process)
    code = site / "drops" / "squares.py"
    code.write_text(code.read_text() + "\n# edited\n")
    assert "changed while it ran" in call.end(process, 1)[1]
    assert len(stored(call.out)) < RUNS


# ---- no trouble at all -----------------------------------------------------------------------------------


def test_it_ends_with_a_line_for_each_paper(call, undisturbed):
    shutil.copytree(undisturbed, call.out)
    short, whole = call.run()[0], call.run("--all")[0]
    assert re.search(r"drops\s+│\s+1 │\s+0 │\s+0 │\s+\S+ s", short) and "--all lists every claim" in short
    assert "falls" not in short and re.search(r"\bdrops\b.*│ supported │ falls", whole, re.S)
    assert "1 supported, 0 refuted, 0 undecided; the report:" in short


def test_what_is_undecided_is_counted_by_reason():
    row = {"system": "drops", "claim": "falls", "value": None, "bound": 1.0, "source": "a, b", "verdict": "undecided"}
    printed = verdicts([{**row, "reason": why} for why in ("no GPU", "needs --full", "no GPU")], {"drops": 1.0}, Path())
    assert printed[-3:-1] == ["1 undecided: needs --full", "2 undecided: no GPU"]


def test_a_pipe_hears_a_line_now_and_then(monkeypatch, capsys):
    monkeypatch.setattr("saddlescope.core.progress.PATIENCE", 0.0)
    monkeypatch.setattr("saddlescope.core.progress.PAUSE", 0.05)
    with progress("work") as tick:
        tick(0.25, "3 of 12 runs")
        tick.note("a worker process was lost")
        time.sleep(0.5)
    said = capsys.readouterr().err.splitlines()
    assert "note: a worker process was lost" in said
    assert len([line for line in said if re.fullmatch(r"work: 25% after \d+ s  3 of 12 runs", line)]) >= 3
    time.sleep(0.2)
    assert not capsys.readouterr().err
