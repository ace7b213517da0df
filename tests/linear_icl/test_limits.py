"""Settings at the ends of what numbers and memory hold."""

import pytest

from saddlescope.cli import run


@pytest.mark.parametrize("face", ["predict", "flow"])
@pytest.mark.parametrize(("eigenvalues", "seen"), [("[1e9,1]", "1 of 2"), ("[1e9,1e3,1]", "1 of 3"), ("[3,2]", "")])
def test_stages_that_no_loss_shows_are_told(capsys, face, eigenvalues, seen):
    assert run([face, "linear_icl", "--set", f"eigenvalues={eigenvalues}"]) == 0
    assert (f"only {seen} stages can be seen" in capsys.readouterr().err) == bool(seen)


@pytest.mark.parametrize("settings", [["sequences=2147483647"], ["batch_size=2147483647", "fresh_data=true"]])
def test_what_no_memory_holds_is_refused(capsys, settings):
    assert run(["train", "linear_icl", "--set", *settings]) == 2
    assert "1e+09 numbers" in capsys.readouterr().err


def test_few_points_of_a_noisy_loss_have_no_stages(capsys):
    """Where no theory names them they are looked for in the curve, which may be too short for that."""
    settings = ["steps=20", "sequences=40", "batch_size=2"]
    assert run(["train", "linear_icl/other_loss", "--preset", "tiny", "--set", *settings]) == 0
    assert "Error" not in capsys.readouterr().err
