"""The command line as its users and outside checks call it."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import xarray

import saddlescope as ss
from saddlescope.cli import app, run
from saddlescope.core import registry
from saddlescope.lab.export import series_of, write_runs

from .conftest import EXAMPLE

KEYS = [
    "system",
    "face",
    "seed",
    "spec",
    "stages",
    "final_loss",
    "conserved_drift",
    "observables",
    "solver",
    "result",
    "seconds",
]


def call(capsys, *arguments):
    code = run([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def strict_loads(text):
    def refuse(name):
        raise AssertionError(f"{name} is not strict JSON")

    return json.loads(text, parse_constant=refuse)


class OnlyTrained(EXAMPLE.Squares):
    name = "only_trained"
    flow = None
    theory = None


@pytest.fixture(scope="module", autouse=True)
def forget_addressed_systems():
    yield
    registry.forget()


@pytest.mark.parametrize("face", ["predict", "flow", "train"])
def test_json_shape(capsys, face):
    code, out, _ = call(capsys, face, "squares", "--preset", "tiny", "--json")
    value = strict_loads(out)
    assert code == 0 and list(value) == KEYS
    assert value["system"] == "squares" and value["face"] == face and value["seed"] == 0
    assert [list(stage) for stage in value["stages"]] == [["index", "time", "loss", "label"]] * 2
    assert [stage["index"] for stage in value["stages"]] == [1, 2]
    assert len(value["observables"]["p"]) == 2
    assert value["result"] == "finished"


def test_set_reads_json_else_words(capsys):
    code, out, _ = call(
        capsys, "predict", "squares", "--set", "targets=[3,0.5,1]", "init_scale=0.002",
        "--set", "optimizer=adam", "--set", "horizon=null", "--seed", 7, "--json",
    )  # fmt: skip
    value = strict_loads(out)
    assert code == 0 and value["seed"] == 7
    assert value["spec"]["targets"] == [3, 0.5, 1] and value["spec"]["init_scale"] == 0.002
    assert value["spec"]["optimizer"] == "adam" and value["spec"]["horizon"] is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["predict", "squares", "--set", "targets=[2,-1]"], "positive"),
        (["predict", "squares", "--set", "targets=[2,NaN]"], "below 1e6"),
        (["predict", "squares", "--set", "targets=abc"], "list"),
        (["flow", "squares", "--set", "init_scale=0"], "never moves"),
        (["flow", "squares", "--set", "init_scale=-1"], "positive"),
        (["flow", "squares", "--set", "inti_scale=1"], "did you mean 'init_scale'"),
        (["flow", "squares", "--set", "init_scale"], "key=value"),
        (["flow", "squaers"], "did you mean 'squares'"),
        (["flow", "squares", "--preset", "tinny"], "did you mean 'tiny'"),
        (["flow", "squares", "--solver", "magic"], "unknown solver"),
        (["flow", "squares", "--bogus"], "bogus"),
        (["flow", "tests.test_cli:OnlyTrained"], "it can train"),
        (["flow", "squares", "--seed", "x"], "seed"),
        (["flow", "squares", "--seed", "-1"], "zero or positive"),
        (["flow", "squares", "--seeds", "0"], "at least 1"),
        (["flow", "squares", "--seeds", "5:5"], "B is excluded"),
        (["compare", "squares", "--seeds", "5:2"], "at least 1"),
        (["flow", "squares", "--seeds", "few"], "A:B"),
        (["flow", "squares", "--seeds", "-2:3"], "between 0"),
        (["compare", "squares", "--out", "x.nc"], "must end in .csv"),
        (["judge", "squares", "--plot", "x.bmp"], "must end in"),
        (["judge", "tests.test_cli:OnlyTrained"], "it can train"),
        (["flow", "squares", "--preset", "tiny", "--out", "x.txt"], ".nc or .csv"),
        (["flow", "squares", "--preset", "tiny", "--seeds", "2", "--out", "x.nc"], "one seed"),
        (["predict", "squares", "--preset", "tiny", "--out", "x.nc"], "no trajectory"),
        (["flow", "squares", "--preset", "tiny", "--plot", "/"], "must end in"),
        (["flow", "squares", "--seed", "7", "--seeds", "2"], "exclude each other"),
        (["train", "squares", "--seeds", "2", "--save", "x.npz"], "one run"),
        (["compare", "squares", "--seed", "-1"], "zero or positive"),
        (["flow", "squares", "--seed", "99999999999999999999"], "below"),
        (["train", "squares", "--preset", "tiny", "--set", "horizon=1e308"], "too many"),
        (["train", "squares", "--preset", "tiny", "--set", "learning_rate=1e-300"], "too many"),
        (["train", "squares", "--preset", "tiny", "--out", "a.nc", "--save", "a.nc"], "different files"),
        (["check", "..x:y"], "cannot load"),
        (["check", ":x"], "not an address"),
        (["stages", "."], "is a folder"),
        (["stages", "x.csv", "--count", "0"], "at least 1"),
        (["flow", "squares", "--preset", "tiny", "--plot", "x.bmp"], ".png"),
        (["flow", "squares", "--preset", "tiny", "--out", "nowhere/x.csv"], "does not exist"),
        (["where", "squares", "Eq. (99)"], "unknown statement"),
        (["stages", "nothing.csv"], "no file"),
        (["check", "os:path"], "is not a System"),
        (["check", "nosuchpackage:X"], "cannot load"),
        (["nonsense"], "nonsense"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_arguments_exit_2_with_a_clear_word(capsys, arguments, words):
    code, out, err = call(capsys, *arguments)
    assert code == 2 and words in err and out == ""
    assert "Traceback" not in err


def test_a_dimension_without_places_does_not_spoil_the_file(tmp_path):
    run = ss.run(ss.subject("squares", "tiny"), "flow")
    nothing = np.zeros((run.trajectory.sizes["time"], 0))
    write_runs(tmp_path / "a.nc", [replace(run, trajectory=run.trajectory.assign(none=(("time", "nowhere"), nothing)))])
    with xarray.open_dataset(tmp_path / "a.nc", engine="scipy") as found:
        assert np.array_equal(found["loss"], run.trajectory["loss"])


def test_seeds_from_a_to_b_leave_b_out(capsys):
    code, out, _ = call(capsys, "predict", "squares", "--preset", "tiny", "--seeds", "3:5", "--json")
    assert code == 0 and [one["seed"] for one in strict_loads(out)] == [3, 4]
    code, out, _ = call(capsys, "flow", "squares", "--preset", "tiny", "--seeds", "2:3", "--json")
    (one,) = strict_loads(out)
    assert one["seed"] == 2 and one["stages"] == ss.run(ss.subject("squares", "tiny"), "flow", 2).to_dict()["stages"]


def test_compare_takes_seeds_and_writes_a_table(capsys, tmp_path):
    several = ["--preset", "tiny", "--seeds", "1:3"]
    code, out, _ = call(capsys, "compare", "squares", *several, "--json")
    assert code == 0 and [one["seed"] for one in strict_loads(out)] == [1, 2]
    path = tmp_path / "stages.csv"
    code, out, _ = call(capsys, "compare", "squares", *several, "--out", path, "--plot", tmp_path / "a.png")
    rows = list(csv.DictReader(path.open()))
    assert code == 0 and [(row["seed"], row["index"]) for row in rows] == [(s, i) for s in "12" for i in "12"]
    one = ss.compare(ss.subject("squares", "tiny"), 2)
    assert float(rows[2]["flow_time"]) == one.runs["flow"].stages[0].time
    assert "over 2 seeds" in out and (tmp_path / "a.png").is_file()


def test_compare_of_many_seeds_shows_medians(capsys):
    code, out, _ = call(capsys, "compare", "squares", "--preset", "tiny", "--seeds", "9")
    times = sorted(ss.predict(ss.subject("squares", "tiny"), seed).times[0] for seed in range(9))
    assert code == 0 and "median" in out and f"{times[4]:.6g}" in out


def test_judge_prints_the_verdicts_of_one_flow(capsys, tmp_path):
    code, out, _ = call(capsys, "judge", "squares", "--preset", "tiny", "--json")
    rows = strict_loads(out)
    assert code == 0 and list(rows[0])[:6] == ["system", "claim", "verdict", "value", "bound", "source"]
    assert {row["verdict"] for row in rows} <= {"supported", "refuted", "undecided"}
    code, out, _ = call(capsys, "judge", "squares", "--preset", "tiny", "--plot", tmp_path / "a.png")
    assert code == 0 and rows[0]["claim"] in out and (tmp_path / "a.png").is_file()


def test_remarks_on_legal_values_are_notes(capsys):
    code, out, err = call(capsys, "predict", "squares", "--set", "optimizer=adam", "--json")
    assert code == 0 and "note: with optimizer=adam" in err and len(strict_loads(out)["stages"]) == 3


def test_outcomes_of_solvers_exit_0(capsys):
    code, out, err = call(capsys, "train", "squares", "--set", "learning_rate=30", "--json")
    assert code == 0 and strict_loads(out)["result"].startswith("diverged") and "diverged" in err
    code, out, err = call(capsys, "flow", "squares", "--set", "horizon=4", "--json")
    value = strict_loads(out)
    assert code == 0 and "saw 1 of 3 stages" in value["result"] and "would suffice" in err
    assert len(value["stages"]) == 1


def test_seed_moves_initial_weights_only(capsys):
    values = [strict_loads(call(capsys, "predict", "squares", "--seed", seed, "--json")[1]) for seed in (0, 1)]
    assert values[0]["spec"] == values[1]["spec"]
    assert [s["loss"] for s in values[0]["stages"]] == [s["loss"] for s in values[1]["stages"]]
    assert values[0]["stages"][0]["time"] != values[1]["stages"][0]["time"]


def test_many_seeds_give_a_list(capsys):
    code, out, _ = call(capsys, "flow", "squares", "--preset", "tiny", "--seeds", 3, "--json")
    value = strict_loads(out)
    assert code == 0 and [entry["seed"] for entry in value] == [0, 1, 2]
    assert all(list(entry) == KEYS for entry in value)
    code, out, _ = call(capsys, "flow", "squares", "--preset", "tiny", "--seeds", 2)
    assert code == 0 and "2 finished" in out


def test_files(capsys, tmp_path):
    import xarray

    flow_nc, flow_csv, plot = tmp_path / "run.nc", tmp_path / "run.csv", tmp_path / "run.png"
    code, *_ = call(capsys, "flow", "squares", "--preset", "tiny", "--out", flow_nc, "--plot", plot)
    assert code == 0 and plot.read_bytes().startswith(b"\x89PNG")
    data = xarray.load_dataset(flow_nc, engine="scipy")
    assert json.loads(data.attrs["spec"])["init_scale"] == 1e-3 and data["loss"].dims == ("time",)
    assert call(capsys, "flow", "squares", "--preset", "tiny", "--out", flow_csv)[0] == 0
    with flow_csv.open() as file:
        rows = list(csv.DictReader(file))
    assert float(rows[-1]["loss"]) == pytest.approx(float(data["loss"][-1]))
    assert list(rows[0]) == ["seed", "time", "loss", "p_1", "p_2"]
    assert list(series_of("key", np.zeros((9, 1, 2, 1)))) == ["key_1_1_1", "key_1_2_1"]
    for file in (flow_nc, flow_csv):
        code, out, _ = call(capsys, "stages", file, "--json")
        assert code == 0 and len(strict_loads(out)) == 2
    table = tmp_path / "stages.csv"
    assert call(capsys, "predict", "squares", "--preset", "tiny", "--out", table)[0] == 0
    assert table.read_text().startswith("seed,index,time,loss,label")
    assert not list(tmp_path.glob("*.partial*")) and not list(tmp_path.glob(".*"))


def test_stages_of_hostile_files(capsys, tmp_path):
    cases = {
        "empty.csv": b"",
        "one.csv": b"loss\n1\n2\n",
        "words.csv": b"step,loss\n" + b"1,a\n" * 20,
        "nan.csv": b"step,loss\n" + b"".join(b"%d,nan\n" % k for k in range(20)),
        "binary.csv": bytes(range(256)) * 10,
        "broken.nc": b"CDF\x01" + b"\xff" * 50,
        "text.nc": b"hello",
        "curve.pkl": b"\x80\x04.",
    }
    for name, content in cases.items():
        (tmp_path / name).write_bytes(content)
        code, out, err = call(capsys, "stages", tmp_path / name)
        assert code == 2 and out == "" and "Traceback" not in err, name


@pytest.mark.parametrize("command", [name for name in app if not name.startswith("-")])
def test_help_explains_every_parameter(capsys, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "200")
    code, out, _ = call(capsys, command, "--help")
    assert code == 0
    for line in out.splitlines():
        if line.startswith("│"):
            name = re.match(r"│ (?:\*  )?([-\w]+(?: --\w[-\w]*| [A-Z.]+)*)", line)
            words = line[name.end() :].split("[")[0].strip(" │") if name else line
            assert len(words) > 5, f"{command}: no words for {line}"


@pytest.mark.parametrize("reader", ["head -1", "true"])
def test_a_reader_that_has_had_enough_is_no_error(reader):
    command = f"set -o pipefail; {sys.executable} -m saddlescope list squares | {reader}"
    run = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert run.returncode == 0 and run.stderr == ""


def test_without_a_stderr_stdout_still_holds_one_value():
    command = f"{sys.executable} -m saddlescope flow squares --preset tiny --set horizon=1 --json 2>&-"
    run = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert run.returncode == 0 and strict_loads(run.stdout)["result"].startswith("horizon_too_short")


def test_compare_and_lists(capsys):
    code, out, _ = call(capsys, "compare", "squares", "--preset", "tiny", "--json")
    value = strict_loads(out)
    assert code == 0 and list(value["faces"]) == ["predict", "flow", "train"]
    assert value["stages"][0]["flow"]["time"] == pytest.approx(value["stages"][0]["predict"]["time"], rel=1e-3)
    code, out, _ = call(capsys, "list", "--json")
    assert code == 0 and "squares" in [row["system"] for row in strict_loads(out)]
    code, out, _ = call(capsys, "list", "squares")
    assert code == 0 and "init_scale" in out and "ε" in out


def test_where_finds_equations(capsys):
    for statement in ("Eq. (2)", "(2)", "eq 2", "2"):
        code, out, _ = call(capsys, "where", "squares", statement, "--json")
        rows = strict_loads(out)
        assert code == 0 and [row["function"] for row in rows] == ["velocity"]
    code, out, _ = call(capsys, "where", "squares", "--json")
    assert code == 0 and {row["statement"] for row in strict_loads(out)} == {"Eq. (1)", "Eq. (2)", "Eq. (3)"}


def test_interrupt_leaves_nothing_broken(tmp_path):
    """Ctrl-C during a long training run: exit 130, no traceback, no half-written file."""
    arguments = ["train", "squares", "--set", "steps=2000000000", "--out", "run.csv"]
    process = subprocess.Popen(
        [sys.executable, "-m", "saddlescope", *arguments],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        bufsize=0,
        env={**os.environ, "FORCE_COLOR": "1"},
    )
    assert process.stderr is not None
    try:
        process.stderr.read(1)  # the progress bar: the command is at work, however slow the machine
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()  # were the interrupt not heeded, it would train for years
    assert process.returncode == 130, err.decode()
    assert b"interrupted" in err and b"Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_progress_goes_to_stderr(capsys, monkeypatch):
    monkeypatch.setattr("saddlescope.core.progress.PATIENCE", 0.0)
    monkeypatch.setenv("FORCE_COLOR", "1")
    code, out, err = call(capsys, "compare", "squares", "--json")  # long enough for a bar to appear
    assert code == 0 and "compare squares" in err
    strict_loads(out)


def test_python_mirrors_the_command_line():
    chosen = ss.system("squares", "tiny", init_scale=0.05)
    assert len(ss.predict(chosen, 1).stages) == 2
    assert ss.flow(chosen, 1).attrs["result"] == "finished"
    assert {verdict.verdict for verdict in ss.judge(chosen)} == {"supported"}
    assert np.isfinite(ss.compare(chosen).rows()[0]["train"]["time"])
