"""The README is true: its commands run, its outputs are what they print, its Python works."""

from __future__ import annotations

import re
import shlex
import sys
import tomllib

import numpy as np
import pytest
from safetensors.numpy import save_file

from saddlescope.core.room import rooms

from .conftest import CACHE, ROOT, printed

TEXT = (ROOT / "README.md").read_text()
LINKS = re.findall(r"\[([^]]+)\]\((src/saddlescope/(?:systems|studies)/(\w+)/README.md)\)", TEXT)
"""To the pages of rooms: (text, page, room)."""

ABSENT = {room for _, page, room in LINKS if room not in rooms() and not (ROOT / page).parent.exists()}
"""Rooms that were deleted from this copy: what names one of them is passed over."""

OUTPUTS = ("--out", "--save", "--plot", "--report", "--extract", "--latex")
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
CELL = re.compile(r"[┃│]")


def commands():
    """(command, printed lines) of every console block, in order."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", TEXT, re.S):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif line.strip("━┏┓┳┡┩╇└┘┴─ "):
                found[-1][1].append(line.strip())
    return found


def names(text, words):
    """Which of the words a text holds."""
    return {word for word in words if re.search(rf"\b{re.escape(word)}(?![\w.])", text)}


def same(found, shown):
    """Equal words, and numbers equal to 1e-4: other machines round differently."""
    a, b = (re.sub(r"\s+", " ", CELL.sub("|", line)).strip() for line in (found, shown))
    if NUMBER.sub("#", a) != NUMBER.sub("#", b):
        return False
    pairs = zip(NUMBER.findall(a), NUMBER.findall(b), strict=True)
    return all(abs(float(x) - float(y)) <= 1e-4 * abs(float(y)) for x, y in pairs)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the commands run. `base`, `tuned` and what is in `run` are the reader's own: small ones stand in."""
    place = tmp_path_factory.mktemp("readme")
    rng = np.random.default_rng(0)
    shapes = {"attn.c_attn": (32, 96), "attn.c_proj": (32, 32), "mlp.c_fc": (32, 128), "mlp.c_proj": (128, 32)}
    base = {f"h.{n}.{name}.weight": rng.normal(size=shape) for n in range(2) for name, shape in shapes.items()}
    change = {name: rng.normal(size=(len(w), 2)) @ rng.normal(size=(2, w.shape[1])) for name, w in base.items()}
    moments = {"base": 0.0, "tuned": 0.1, **{f"run/checkpoint-{step}": step / 1000 for step in (1, 2, 4, 8, 16)}}
    for name, size in moments.items():
        (place / name).mkdir(parents=True)
        (place / name / "config.json").write_text('{"model_type": "gpt2", "n_head": 4, "n_embd": 32}')
        tensors = {key: (weight + size * change[key]).astype(np.float32) for key, weight in base.items()}
        save_file(tensors, place / name / "model.safetensors")
    return place


def test_every_saddlescope_command(folder, monkeypatch, call):
    """In one process, which imports and compiles once; test_cli.py starts the program itself."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "100")
    (folder / "out").mkdir()
    (CACHE / "runs").mkdir(parents=True, exist_ok=True)
    (folder / "out" / "runs").symlink_to(CACHE / "runs")
    written, missing, passed_over = {"out"}, set(ABSENT), []
    for command, shown in commands():
        program, *arguments = shlex.split(command)
        if program in ("make", "pip"):
            continue
        assert program == "saddlescope"
        outputs = {arguments[place + 1] for place, word in enumerate(arguments) if word in OUTPUTS}
        if names(command, missing):  # an absent room, or what a command with one would have written
            missing |= outputs
            passed_over.append(command)
            continue
        written |= outputs
        code, out, told = call(*arguments)
        assert code == 0, f"{command}: {told}"
        for line in shown:
            if not names(line, ABSENT):
                found = (out + told).splitlines()
                assert any(same(one, line) for one in found), f"{command} does not print {line!r}"
    assert {path.name for path in folder.iterdir()} == {"base", "tuned", "run"} | written
    if passed_over:
        pytest.skip(f"all but those that need {', '.join(sorted(ABSENT))}: {'; '.join(passed_over)}")


def test_extras_exist():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = re.findall(r"pip install '?saddlescope(?:\[(\w+)\])?", TEXT)
    assert "" in named and set(named) - {""} <= set(extras)


def test_make_targets():
    """The targets exist, and `make reproduce` is the command that test_reproduce.py runs."""
    for command, _ in commands():
        if command.startswith("make "):
            shown = printed("make", "--dry-run", command.split()[1], at=ROOT)
            assert command != "make reproduce" or "saddlescope reproduce" in shown


BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.S)


def run_block(code, folder):
    if found := names(code, ABSENT):
        pytest.skip(f"needs {', '.join(found)}")
    return printed(sys.executable, "-c", code, at=folder)


def test_python_of_the_laboratory(folder):
    printed = run_block(BLOCKS[0], folder)
    assert "predict against flow" in printed and "supported" in printed and "eigenvector 4" in printed


def test_python_of_the_comparison_in_memory(folder, torch):
    assert "of 8 matrices changed" in run_block(BLOCKS[1], folder)
    assert (folder / "from_memory" / "adapter_model.safetensors").is_file()
    assert (folder / "from_memory.html").is_file()


def test_python_of_the_watch(folder, torch):
    assert len(re.sub(r"[\[\]]", " ", run_block(BLOCKS[2], folder)).split()) == 2 * 2 * 4
    assert (folder / "watched.html").is_file()
    assert len(BLOCKS) == 3


def test_claims_are_counted():
    counts = re.findall(r"(\w+)(?::| trains)[^;]*?of (\d+)\s+claims (\d+)\s+supported and (\d+)\s+refuted", TEXT)
    assert {name for name, *_ in counts} - ABSENT == {room for *_, room in LINKS} - ABSENT
    for name, count, supported, refuted in counts:
        assert int(count) == int(supported) + int(refuted)
        assert name in ABSENT or int(count) == len(rooms()[name].claims), name


def test_files_that_are_linked_exist():
    for target in re.findall(r"\]\(([^)#:]+)\)", TEXT):
        assert (ROOT / target).exists() or names(target, ABSENT), target


def test_links_to_rooms_are_called_by_the_rooms_name():
    """So that a mistake in one of them is none that passes for the name of an absent room."""
    assert {room for text, _, room in LINKS if text == room} == {room for *_, room in LINKS}


def test_rooms_are_listed():
    rooms = {path.name for path in (ROOT / "src" / "saddlescope").iterdir() if path.is_dir() and path.name[0] != "_"}
    assert rooms == set(re.findall(r"^\| `(\w+)/` \|", TEXT, re.M))
