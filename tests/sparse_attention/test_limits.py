"""Settings at the ends of what numbers, memory and patience hold."""

import json
import re

import pytest

from saddlescope.cli import run


def test_the_longest_horizon_comes_back(capsys):
    """Logits grow as a power of the logarithm of time, and at 1e27 rounding keeps the steps short."""
    assert run(["flow", "sparse_attention", "--preset", "tiny", "--set", "horizon=1e300", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["result"].startswith("max_steps_reached") and len(found["stages"]) == 2
    assert int(re.findall(r"(\d+) evaluations", found["solver"])[0]) < 200_000


@pytest.mark.parametrize(
    ("system", "setting", "words"),
    [
        ("sparse_attention/minimal", "patterns=2147483647", "at most 10000"),
        ("sparse_attention/minimal", "interval_length=2147483647", "at most 10000"),
        ("sparse_attention/minimal", "vocabulary=2147483647", "1e+09 numbers"),
        ("sparse_attention/minimal", "samples=2147483647", "1e+09 numbers"),
        ("sparse_attention/minimal", "test_samples=2147483647", "1e+09 numbers"),
        ("sparse_attention/minimal", "heads=2147483647", "1e+09 numbers"),
        ("sparse_attention/full", "feedforward=2147483647", "1e+09 numbers"),
    ],
)
def test_what_no_memory_holds_is_refused(capsys, system, setting, words):
    assert run(["predict", system, "--preset", "tiny", "--set", setting]) == 2
    assert words in capsys.readouterr().err
