"""What teaches: the screen without a command, examples in every --help, completion in a shell."""

from __future__ import annotations

import inspect
import re
import shlex
import shutil
import subprocess

import pytest

from saddlescope.cli import app
from saddlescope.core.words import folded
from saddlescope.show.tables import THINGS_TO_TRY

COMMANDS = [name for name in app if not name.startswith("-")]


def examples_of(command: str) -> list[str]:
    """Of the docstring: rich breaks lines in --help."""
    return re.findall(r"^- `(saddlescope [^`]+)`: \S", inspect.getdoc(app[command].default_command) or "", re.M)


def takes(words: str) -> None:
    """Raises unless the command line understands these words; nothing is run."""
    program, *arguments = shlex.split(words.partition(" > ")[0])
    assert program == "saddlescope"
    app.parse_args(arguments, print_error=False, exit_on_error=False)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_has_examples_that_the_command_line_understands(command, call):
    found = examples_of(command)
    assert len(found) >= 2, f"the help of {command} has {len(found)} examples of the form - `saddlescope ...`: what for"
    for example in found:
        assert example.split()[1] == command
        takes(example)
    code, out, _ = call(command, "--help")
    assert code == 0 and "For example" in out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_explained(command, call):
    arguments = app[command].assemble_argument_collection(parse_docstring=True)
    silent = [argument.name for argument in arguments if argument.show and not argument.parameter.help]
    assert not silent


def test_without_a_command_there_are_things_to_try(call):
    code, out, _ = call()
    assert code == 0 and "five things to try" in out.lower()
    assert len(THINGS_TO_TRY) == 5
    for command, words in THINGS_TO_TRY:
        assert command in out and words in out
        takes(f"saddlescope {command}")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_completion_is_printed_for_every_shell(call, shell):
    code, out, _ = call("completion", shell)
    assert code == 0 and "saddlescope" in out and "judge" in out


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_the_script(call, tmp_path):
    script = tmp_path / "completion"
    script.write_text(call("completion", "bash")[1])
    ask = f"source {script}; COMP_WORDS=(saddlescope com); COMP_CWORD=1; _saddlescope; echo ${{COMPREPLY[@]}}"
    found = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True).stdout.split()
    assert found == ["compare", "completion"]


def test_names_of_systems_are_completed(call):
    code, out, _ = call("__complete", "predict", "squ")
    assert code == 0 and "squares" in out


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("one_head_where_drops_stand_apart", ["one_head_where_drops_", "stand_apart"]),
        ("short_name", ["short_name"]),
        ("x" * 30, ["x" * 24, "x" * 6]),
        ("model.layers.11.self_attn.q_proj", ["model.layers.11.self_", "attn.q_proj"]),
    ],
)
def test_long_names_are_broken_between_their_words(name, lines):
    assert folded(name, 24).split("\n") == lines


@pytest.mark.parametrize("width", ["70", "80", "200"])
def test_tables_keep_names_and_fit(call, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", width)
    for command in (["judge", "squares", "--preset", "tiny"], ["list", "--coverage"], ["where", "squares"]):
        code, out, _ = call(*command)
        tables = [line for line in out.splitlines() if line.startswith(("│", "┃", " "))]
        assert code == 0 and tables and max(map(len, tables)) <= int(width)
