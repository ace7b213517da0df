"""What users get wrong, and what machines refuse them: every such call ends with a word that says what to do."""

from __future__ import annotations

import csv
import errno
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from safetensors.numpy import save_file

from saddlescope import cli
from saddlescope.core.files import CannotWrite, write_csv, write_whole
from saddlescope.core.parts import Descent
from saddlescope.core.progress import progress
from saddlescope.core.registry import subject_types
from saddlescope.numerics.integrate import FINISHED, HOPE, MAX_STEPS, integrate

from .conftest import ROOT, printed
from .full_disk import full_disk, on_a_full_disk
from .test_checkpoints import write_adapter
from .waiting import wait_for

COMMAND = [sys.executable, "-m", "saddlescope"]


DIFF = ["diff", "base.safetensors", "tuned.safetensors"]


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def matrices(file, names, change=0.0):
    draw = np.random.default_rng(0)
    save_file({name: (draw.normal(size=(24, 24)) * (1 + change)).astype(np.float32) for name in names}, file)


def both_ends(names, file="{}.safetensors"):
    for end, change in (("base", 0.0), ("tuned", 0.1)):
        matrices(file.format(end), names, change)


# ---- settings --------------------------------------------------------------------------------------------


TRAINED = [name for name, kind in subject_types().items() if isinstance(kind.training and kind().training, Descent)]


@pytest.mark.parametrize("name", TRAINED)
def test_absurd_learning_rates_diverge(call, name):
    for rate in ("1000", "1e300", "1e308"):
        code, out, err = call("train", name, "--preset", "tiny", "--set", f"learning_rate={rate}", "steps=40", "--json")
        found = json.loads(out)
        assert code == 0 and "Traceback" not in err and "Warning" not in err
        assert found["spec"]["optimizer"] != "gd" or found["result"].startswith("diverged"), found["result"]


@pytest.mark.parametrize("value", ["[" * 10_000, "1" * 5000])
def test_values_that_json_gives_up_on_are_words(refusal, value):
    err = refusal("predict", "squares", "--set", f"horizon={value}")
    assert err.startswith("error: `horizon` must be a number") and len(err) < 1000


def test_a_lack_of_memory_is_said(call, monkeypatch):
    def exhausted(*_, **__):
        raise MemoryError("Unable to allocate 56.0 GiB")

    monkeypatch.setattr("saddlescope.lab.run.run", exhausted)
    assert call("predict", "squares") == (1, "", "error: not enough memory: Unable to allocate 56.0 GiB\n")


def test_a_horizon_out_of_reach_is_given_up():
    """Steps of a wave do not grow; those towards a fixed point do, and reach any horizon."""
    wave = integrate(lambda time, _: np.cos([time]), np.zeros(1), 0.0, 1e300)
    assert wave.outcome == MAX_STEPS and len(wave.time) < 5 * HOPE
    rest = integrate(lambda _, state: 1 - state, np.zeros(1), 0.0, 1e300)
    assert rest.outcome == FINISHED and rest.state[-1] == pytest.approx(1)
    long = integrate(lambda time, _: np.cos([time]), np.zeros(1), 0.0, 2e4)
    assert long.outcome == FINISHED and len(long.time) > HOPE


# ---- the machine -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [["flow", "squares", "--seeds", "4"], ["reproduce", "squares", "--workers", "2"]])
def test_without_shared_memory_the_output_folder_is_not_blamed(call, monkeypatch, command):
    def refused(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("multiprocessing.synchronize.SemLock.__init__", refused)
    monkeypatch.setattr("saddlescope.lab.ensemble.cores", lambda: 2)
    code, out, err = call(*command)
    assert (code, out) == (1, "") and "/dev/shm" in err and "cannot write" not in err


@pytest.mark.parametrize(
    ("command", "option", "name"),
    [
        *((["flow", "squares"], "--out", name) for name in ("run.csv", "run.nc")),
        *((["flow", "squares"], "--plot", name) for name in ("run.png", "run.pdf", "run.svg")),
        *((DIFF, "--out", name) for name in ("table.csv", "table.parquet")),
        (DIFF, "--report", "page.html"),
        (DIFF, "--extract", "adapter"),
    ],
)
def test_a_full_disk_names_the_file_and_leaves_nothing(call, tmp_path, command, option, name):
    pytest.importorskip("pyarrow")
    both_ends([f"{number}.weight" for number in range(9)])
    before = set(tmp_path.iterdir())
    with full_disk(1024):
        code, out, err = call(*command, option, name)
    assert (code, out) == (1, "") and err.startswith(f"error: cannot write {name}: ") and err.count("\n") == 1
    assert set(tmp_path.iterdir()) == before


def test_a_full_disk_ends_a_training_that_is_saved(tmp_path):
    command = [*COMMAND, "train", "squares", "--set", "steps=50", "--save", "run.npz"]
    done = subprocess.run([*on_a_full_disk(1), *command], capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith("error: cannot write run.npz: "), done.stderr
    assert not list(tmp_path.iterdir())


def test_errors_of_writing_keep_their_reason(tmp_path):
    with pytest.raises(CannotWrite) as raised:
        write_whole(tmp_path / "absent" / "file", lambda partial: partial.write_text("words"))
    assert (raised.value.errno, raised.value.filename) == (errno.ENOENT, str(tmp_path / "absent" / "file"))


SAVING_OFTEN = """
import sys
from saddlescope import cli
from saddlescope.dynamics import train
train.SAVE_EVERY = 0.1
cli.main(sys.argv[1:])
"""


def begun(*command):
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


def terminated(process):
    process.send_signal(signal.SIGTERM)
    _, words = process.communicate(timeout=60)
    assert process.returncode == cli.TERMINATED, words
    assert words.splitlines()[-1].startswith("terminated: what was finished is kept") and "Traceback" not in words


def test_a_terminated_training_goes_on_where_it_stopped(tmp_path):
    file, last = tmp_path / "run.npz", 0
    training = ["train", "squares", "--set", "steps=2000000000", "--save", "run.npz"]
    for _ in range(2):
        process = begun(sys.executable, "-c", SAVING_OFTEN, *training)
        try:
            wait_for(lambda last=last: file.exists() and np.load(file)["steps"].max() > last, process)
            terminated(process)
        finally:
            process.kill()  # were the signal not heeded, it would train for hours
        assert list(tmp_path.iterdir()) == [file]
        last = np.load(file)["steps"].max()


def test_a_terminated_reproduction_leaves_nothing_half_written(tmp_path):
    command = [*COMMAND, "reproduce", "squares", "--workers", "2", "--out", "."]
    process = begun(*command)
    wait_for(lambda: list(tmp_path.glob("runs/squares/[!.]*/meta.json")), process)
    terminated(process)
    assert not list(tmp_path.glob("**/*.partial*")) and not list(tmp_path.glob("**/.partial*"))
    assert subprocess.run(command, capture_output=True).returncode == 0


# ---- names, and numbers, out of files --------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"FORCE_COLOR": "1"}, {"COLUMNS": ""}, {"COLUMNS": "0"}, {"COLUMNS": "40"}])
def test_names_have_room_in_a_pipe(settings):
    both_ends([f"layers.{layer}.attention_output.weight" for layer in range(3)])
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | settings
    table = printed(*COMMAND, *DIFF, env=environment)
    lines = [line.partition("│")[2].partition("│")[0].strip() for line in table.splitlines()]
    shown = "".join(lines)
    assert all(f"{layer}.attention_output" in shown for layer in range(3)), table
    assert max(map(len, lines)) >= 16


LONG = "x" * 10**6 + ".weight"
CONTROLS = ["a\0b.weight", "c\x1b[31m.weight", "d\x07.weight"]


@pytest.mark.parametrize("names", [[LONG], CONTROLS], ids=["long", "controls"])
@pytest.mark.parametrize("case", ["changed", "missing", "not finite", "no tensor in common"])
def test_names_of_tensors_are_shown_in_part_and_without_controls(call, names, case):
    matrices("base.safetensors", [*names, "other.weight"])
    left = {"missing": ["other.weight"], "no tensor in common": ["another.weight"]}.get(case, [*names, "other.weight"])
    matrices("tuned.safetensors", left, np.nan if case == "not finite" else 0.1)
    code, out, err = call(*DIFF)
    assert code == (0 if case in ("changed", "missing") else 2)
    assert len(out + err) < 10_000
    assert all(sign.isprintable() or sign == "\n" for sign in out + err)


def test_names_are_no_markup_for_the_bar(monkeypatch, capsys):
    monkeypatch.setattr("saddlescope.core.progress.PATIENCE", 0.0)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress("diff [/b]\x07") as tick:
        while tick.bar is None or tick.task is None:
            time.sleep(0.01)
        tick(0.5, "[/i]\x07.weight")
        tick.bar.refresh()
    said = capsys.readouterr().err
    assert "\x07" not in said and "diff [/b]" in said and "[/i]" in said


def test_cells_of_a_table_are_no_formulas(call, tmp_path):
    names = ["=1+1.weight", "+x.weight", "-y.weight", "@z.weight", "plain.weight", "e\x1b[31m.weight"]
    both_ends(names)
    assert call(*DIFF, "--out", "table.csv")[0] == 0
    with (tmp_path / "table.csv").open(newline="") as file:
        written = {row["name"] for row in csv.DictReader(file)}
    assert written == {*(f"'{name}" for name in names[:4]), "plain.weight", "e\N{REPLACEMENT CHARACTER}[31m.weight"}
    write_csv(tmp_path / "numbers.csv", [{"a": -0.5, "b": np.float64(-1e-3), "c": None, "d": -3}])
    assert (tmp_path / "numbers.csv").read_text().split() == ["a,b,c,d", "-0.5,-0.001,,-3"]


@pytest.mark.parametrize("alpha", [1e308, -1e308, 1e150])
def test_an_adapter_that_is_scaled_beyond_numbers_is_refused(refusal, tmp_path, alpha):
    write_adapter(tmp_path / "adapter", lora_alpha=alpha)
    err = refusal("diff", "adapter")
    assert err.startswith("error: adapter: m.q: ") and "too large" in err


@pytest.mark.parametrize("alpha", [1e60, -3, 0])
def test_an_adapter_of_odd_scale_is_measured(answer, tmp_path, alpha):
    write_adapter(tmp_path / "adapter", lora_alpha=alpha)
    (module,) = answer("diff", "adapter")["modules"]
    # B A is all twos, (3, 4), over the rank of 2
    assert sum(module["singular_values"]) == pytest.approx(abs(alpha) * np.sqrt(12))


def test_weights_that_no_network_has_are_named(refusal):
    """In 64 bits numbers may be so large that their squares are none."""
    save_file({"a.weight": np.ones((3, 3)), "b": np.ones(3)}, "base.safetensors")
    for name, value in (("a.weight", np.full((3, 3), 1e300)), ("b", np.full(3, 1e300))):
        save_file({"a.weight": np.eye(3), "b": np.ones(3), name: value}, "tuned.safetensors")
        err = refusal(*DIFF)
        assert err.startswith(f"error: {name}") and "Warning" not in err


def test_a_config_may_claim_any_number_of_layers(answer, tmp_path):
    config = {"model_type": "llama", "num_attention_heads": 2, "num_hidden_layers": 2**62}
    for name in ("base", "tuned"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(config))
    both_ends([f"model.layers.0.self_attn.{side}_proj.weight" for side in "qkvo"], "{}/model.safetensors")
    assert any(f"Of {2**62} layers" in note for note in answer("diff", "base", "tuned")["notes"])


# ---- drawn at random -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "seed", "count"),
    [
        ("settings", 1, 60),
        ("checkpoints", 1, 30),
        *(pytest.param("settings", seed, 400, marks=pytest.mark.slow) for seed in (2, 3)),
        *(pytest.param("checkpoints", seed, 130, marks=pytest.mark.slow) for seed in (2, 3)),
    ],
)
def test_nothing_drawn_at_random_ends_without_a_word(what, seed, count):
    """Only words and exit codes that are documented: see `tests/hostile.py`."""
    assert printed(sys.executable, "-m", "tests.hostile", what, str(seed), str(count), at=ROOT, timeout=1800) == ""
