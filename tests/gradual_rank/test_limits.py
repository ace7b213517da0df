"""Settings at the ends of what numbers and memory hold."""

import pytest

from saddlescope.cli import run


@pytest.mark.parametrize(
    ("system", "setting", "words"),
    [
        ("gradual_rank", "dim=1000000", "1e+09 numbers"),
        ("gradual_rank", "samples=2147483647", "1e+09 numbers"),
        ("gradual_rank", "heads=2147483647", "1e+09 numbers"),
        ("gradual_rank/full", "head_dim=2147483647", "1e+09 numbers"),
        ("gradual_rank/linear", "samples=2147483647", "1e+09 numbers"),
        ("gradual_rank/linear", "batch_size=2147483647", "at most the number of samples"),
        ("gradual_rank/perturbed", "noise=1e300", "from 0 to 1e100"),
    ],
)
def test_what_no_memory_holds_is_refused(capsys, system, setting, words):
    assert run(["train", system, "--preset", "tiny", "--set", "steps=3", setting]) == 2
    assert words in capsys.readouterr().err
