"""The command line as its users and outside checks call it."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

from saddlescope.cli import run

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


@pytest.mark.parametrize("face", ["predict", "flow", "train"])
@pytest.mark.parametrize("name", ["linear_icl", "linear_icl/next_token"])
def test_json_shape(capsys, face, name):
    code, out, _ = call(capsys, face, name, "--preset", "tiny", "--json")
    value = strict_loads(out)
    assert code == 0 and list(value) == KEYS
    assert value["system"] == name and value["face"] == face and value["seed"] == 0
    assert [list(stage) for stage in value["stages"]] == [["index", "time", "loss", "label"]] * 2
    assert [stage["index"] for stage in value["stages"]] == [1, 2]
    assert (value["conserved_drift"] is None) == (face == "predict")
    assert len(value["observables"]["gain"]) == 2
    assert value["result"] == "finished"


def test_set_reads_json_else_words(capsys):
    code, out, _ = call(
        capsys, "predict", "linear_icl", "--set", "eigenvalues=[0.5,0.25,0.1]", "heads=3",
        "--set", "objective=next_token", "--set", "horizon=null", "--seed", 7, "--json",
    )  # fmt: skip
    value = strict_loads(out)
    assert code == 0 and value["seed"] == 7
    assert value["spec"]["eigenvalues"] == [0.5, 0.25, 0.1] and value["spec"]["heads"] == 3
    assert value["spec"]["objective"] == "next_token" and value["spec"]["horizon"] is None


@pytest.mark.parametrize(
    "settings",
    [
        ["eigenvalues=[0.6,0.2,0.1,0.07,0.03]", "heads=6", "context_length=10", "init_scale=0.003"],
        ["eigenvalues=[3,1]", "heads=2", "rank=2", "context_length=100"],
        ["eigenvalues=[0.5,0.3]", "heads=3", "sequences=3000", "context_length=12"],
    ],
    ids=str,
)
def test_parameters_that_appear_in_no_figure(capsys, settings):
    found = {}
    for face in ("predict", "flow"):
        code, out, _ = call(capsys, face, "linear_icl", "--set", *settings, "--json")
        assert code == 0
        found[face] = strict_loads(out)
    assert len(found["flow"]["stages"]) == len(found["predict"]["stages"])
    for one, other in zip(found["flow"]["stages"], found["predict"]["stages"], strict=True):
        assert one["time"] == pytest.approx(other["time"], rel=0.1 if "sequences=3000" in settings else 1e-3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["predict", "linear_icl", "--set", "eigenvalues=[0.4,-0.3]"], "positive"),
        (["predict", "linear_icl", "--set", "eigenvalues=[0.1,0.4]"], "descending"),
        (["predict", "linear_icl", "--set", "eigenvalues=[0.4,NaN]"], "finite"),
        (["predict", "linear_icl", "--set", "eigenvalues=abc"], "list"),
        (["flow", "linear_icl", "--set", "rank=9"], "rank"),
        (["flow", "linear_icl", "--set", "heads=0"], "heads"),
        (["flow", "linear_icl", "--set", "init_scale=0"], "fixed point"),
        (["flow", "linear_icl", "--set", "init_scale=-1"], "positive"),
        (["flow", "linear_icl", "--set", "inti_scale=1"], "did you mean 'init_scale'"),
        (["flow", "linear_icl", "--set", "init_scale"], "key=value"),
        (["flow", "linear_ilc"], "did you mean 'linear_icl'"),
        (["flow", "linear_icl", "--preset", "tinny"], "did you mean 'tiny'"),
        (["flow", "linear_icl", "--solver", "magic"], "unknown solver"),
        (["flow", "linear_icl", "--bogus"], "bogus"),
        (["flow", "linear_icl/softmax"], "it can train"),
        (["flow", "linear_icl", "--seed", "x"], "seed"),
        (["flow", "linear_icl", "--seed", "-1"], "zero or positive"),
        (["flow", "linear_icl", "--seeds", "0"], "at least 1"),
        (["flow", "linear_icl", "--preset", "tiny", "--out", "x.txt"], ".nc or .csv"),
        (["flow", "linear_icl", "--preset", "tiny", "--seeds", "2", "--out", "x.nc"], "one seed"),
        (["predict", "linear_icl", "--preset", "tiny", "--out", "x.nc"], "no trajectory"),
        (["flow", "linear_icl", "--preset", "tiny", "--plot", "/"], "must end in"),
        (["flow", "linear_icl", "--seed", "7", "--seeds", "2"], "exclude each other"),
        (["train", "linear_icl", "--seeds", "2", "--save", "x.npz"], "one run"),
        (["compare", "linear_icl", "--seed", "-1"], "zero or positive"),
        (["flow", "linear_icl", "--seed", "99999999999999999999"], "below"),
        (["train", "linear_icl", "--preset", "tiny", "--set", "horizon=1e308"], "too many"),
        (["train", "linear_icl", "--preset", "tiny", "--set", "learning_rate=1e-300"], "too many"),
        (["train", "linear_icl", "--preset", "tiny", "--out", "a.nc", "--save", "a.nc"], "different files"),
        (["check", "..x:y"], "cannot load"),
        (["check", ":x"], "cannot load"),
        (["stages", "."], "is a folder"),
        (["stages", "x.csv", "--count", "0"], "at least 1"),
        (["predict", "linear_icl/next_token", "--set", "objective=last_token"], "objective"),
        (["flow", "linear_icl", "--preset", "tiny", "--plot", "x.bmp"], ".png"),
        (["flow", "linear_icl", "--preset", "tiny", "--out", "nowhere/x.csv"], "does not exist"),
        (["where", "linear_icl", "Eq. (99)"], "unknown statement"),
        (["stages", "nothing.csv"], "no file"),
        (["check", "os:path"], "no saddlescope System"),
        (["check", "nosuchpackage:X"], "cannot load"),
        (["nonsense"], "nonsense"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_arguments_exit_2_with_a_clear_word(capsys, arguments, words):
    code, out, err = call(capsys, *arguments)
    assert code == 2 and words in err and out == ""
    assert "Traceback" not in err


def test_repeated_eigenvalues_run_with_a_note(capsys):
    code, out, err = call(capsys, "predict", "linear_icl", "--set", "eigenvalues=[0.35,0.35]", "--json")
    assert code == 0 and "equal" in err and len(strict_loads(out)["stages"]) == 2


def test_outcomes_of_solvers_exit_0(capsys):
    code, out, err = call(capsys, "train", "linear_icl", "--set", "learning_rate=30", "--json")
    value = strict_loads(out)
    assert code == 0 and value["result"].startswith("diverged") and "diverged" in err
    assert value["stages"] == []
    code, out, err = call(capsys, "flow", "linear_icl", "--set", "horizon=5000", "--json")
    value = strict_loads(out)
    assert code == 0 and "saw 1 of 4 stages" in value["result"] and "would suffice" in err
    assert len(value["stages"]) == 1


def test_seed_moves_initial_weights_only(capsys):
    values = [strict_loads(call(capsys, "predict", "linear_icl", "--seed", seed, "--json")[1]) for seed in (0, 1)]
    assert values[0]["spec"] == values[1]["spec"]
    assert [s["loss"] for s in values[0]["stages"]] == [s["loss"] for s in values[1]["stages"]]
    assert values[0]["stages"][0]["time"] != values[1]["stages"][0]["time"]


def test_many_seeds_give_a_list(capsys):
    code, out, _ = call(capsys, "flow", "linear_icl", "--preset", "tiny", "--seeds", 3, "--json")
    value = strict_loads(out)
    assert code == 0 and [entry["seed"] for entry in value] == [0, 1, 2]
    assert all(list(entry) == KEYS for entry in value)
    code, out, _ = call(capsys, "flow", "linear_icl", "--preset", "tiny", "--seeds", 2)
    assert code == 0 and "2 finished" in out


def test_files(capsys, tmp_path):
    import xarray

    flow_nc, flow_csv, plot = tmp_path / "run.nc", tmp_path / "run.csv", tmp_path / "run.png"
    code, *_ = call(capsys, "flow", "linear_icl", "--preset", "tiny", "--out", flow_nc, "--plot", plot)
    assert code == 0 and plot.read_bytes().startswith(b"\x89PNG")
    data = xarray.load_dataset(flow_nc, engine="scipy")
    assert json.loads(data.attrs["spec"])["heads"] == 3 and data["loss"].dims == ("time",)
    assert call(capsys, "flow", "linear_icl", "--preset", "tiny", "--out", flow_csv)[0] == 0
    with flow_csv.open() as file:
        rows = list(csv.DictReader(file))
    assert float(rows[-1]["loss"]) == pytest.approx(float(data["loss"][-1]))
    assert {"seed", "time", "loss", "value_1", "gain_2", "key_1_1_2"} <= set(rows[0])
    for file in (flow_nc, flow_csv):
        code, out, _ = call(capsys, "stages", file, "--json")
        assert code == 0 and len(strict_loads(out)) == 2
    table = tmp_path / "stages.csv"
    assert call(capsys, "predict", "linear_icl", "--preset", "tiny", "--out", table)[0] == 0
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


@pytest.mark.parametrize("command", ["list", "predict", "flow", "train", "compare", "stages", "where", "check"])
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
    command = f"set -o pipefail; {sys.executable} -m saddlescope list linear_icl | {reader}"
    run = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert run.returncode == 0 and run.stderr == ""


def test_without_a_stderr_stdout_still_holds_one_value():
    command = f"{sys.executable} -m saddlescope flow linear_icl --preset tiny --set horizon=1 --json 2>&-"
    run = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert run.returncode == 0 and strict_loads(run.stdout)["result"].startswith("horizon_too_short")


def test_compare_and_lists(capsys):
    code, out, _ = call(capsys, "compare", "linear_icl", "--preset", "tiny", "--json")
    value = strict_loads(out)
    assert code == 0 and list(value["faces"]) == ["predict", "flow", "train"]
    assert value["stages"][0]["flow"]["time"] == pytest.approx(value["stages"][0]["predict"]["time"], rel=1e-3)
    code, out, _ = call(capsys, "list", "--json")
    assert code == 0 and "linear_icl" in [row["system"] for row in strict_loads(out)]
    code, out, _ = call(capsys, "list", "linear_icl")
    assert code == 0 and "init_scale" in out and "w_init" in out


def test_where_finds_equations(capsys):
    for statement in ("Eq. (5)", "(5)", "eq 5", "5"):
        code, out, _ = call(capsys, "where", "linear_icl", statement, "--json")
        rows = strict_loads(out)
        assert code == 0 and [row["function"] for row in rows] == ["plateau_loss"]
    code, out, _ = call(capsys, "where", "linear_icl", "--json")
    known = {row["statement"] for row in strict_loads(out)}
    assert {"Eq. (2)", "Eq. (7)", "Eq. (24)", "Eq. (29)", "Eq. (37)", "Eq. (45)", "(C3)"} <= known


def test_interrupt_leaves_nothing_broken(tmp_path):
    """Ctrl-C during a long training run: exit 130, no traceback, no half-written file."""
    command = [
        sys.executable,
        "-m",
        "saddlescope",
        "train",
        "linear_icl",
        "--set",
        "steps=2000000000",
        "--out",
        "run.csv",
    ]
    process = subprocess.Popen(
        command,
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
    code, out, err = call(capsys, "flow", "linear_icl", "--json")
    assert code == 0 and "flow linear_icl" in err
    strict_loads(out)


def test_python_mirrors_the_command_line():
    import saddlescope as ss

    chosen = ss.system("linear_icl", "tiny", init_scale=0.05)
    assert len(ss.predict(chosen, 1).stages) == 2
    assert ss.flow(chosen, 1).attrs["result"] == "finished"
    assert {verdict.verdict for verdict in ss.judge(chosen)} == {"supported", "undecided"}
    assert np.isfinite(ss.compare(chosen).rows()[0]["train"]["time"])
    assert set(ss.__all__) == set(dir(ss))
    for name in ss.__all__:
        getattr(ss, name)
    with pytest.raises(AttributeError, match="offers"):
        _ = ss.nonsense
