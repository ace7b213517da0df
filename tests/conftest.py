"""Shared by all tests: the system that CONTRIBUTING.md teaches the contract with, exactly as printed there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest

from saddlescope.core.compilation import FOLDER, keep_compiled
from saddlescope.lab.pool import MODEST

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache"
"""Runs and compiled code, shared by all tests of a call and kept for the next: both know what they depend on."""

# Tests run side by side, as workers do: each keeps to one thread, said before torch, BLAS or XLA is first imported.
os.environ.update(MODEST)
os.environ[FOLDER] = str(CACHE)
keep_compiled()

import saddlescope.core.precision  # noqa: E402, F401  (networks called directly are 64 bits too, whatever ran before)
from saddlescope.core.files import lock  # noqa: E402
from saddlescope.testing.sabotage import survivors  # noqa: E402


def example_code() -> str:
    """The system that CONTRIBUTING.md prints."""
    return re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.S)[0]


def _module_from_contributing() -> types.ModuleType:
    module = types.ModuleType("contributing_example")
    sys.modules[module.__name__] = module
    exec(compile(example_code(), "CONTRIBUTING.md", "exec"), module.__dict__)
    return module


EXAMPLE = _module_from_contributing()


def pytest_collection_modifyitems(items):
    """The longest file first: with --no-loadscope-reorder files are dealt out so, and nobody waits for the last one."""
    items.sort(key=lambda item: item.path.name != "test_reproduce.py")


def unbeaten(result) -> list[str]:
    """Supported claims that no sabotage of their runs refutes, of one room that was reproduced."""
    found = []
    for experiment in result.runs:
        claims = [
            verdict.claim
            for verdict in result.verdicts
            if verdict.verdict == "supported" and verdict.claim.experiment == experiment
        ]
        if claims:
            found += [claim.name for claim in survivors(claims, result.evidence(experiment))]
    return found


@pytest.fixture(scope="session")
def quick():
    """Everything at quick size, made once for all workers of a test run: the folder and the verdicts."""
    out = CACHE / "quick"
    out.mkdir(parents=True, exist_ok=True)
    with lock(CACHE / "quick.lock", wait=True):
        command = [sys.executable, "-m", "saddlescope", "reproduce", "--out", str(out), "--json"]
        done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out, json.loads(done.stdout)


@pytest.fixture
def squares():
    """The example system with its tiny preset."""
    return EXAMPLE.Squares(EXAMPLE.Squares.preset("tiny"))


@pytest.fixture(scope="session")
def browser():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    pytest.skip("needs chromium, chromium-browser or google-chrome on PATH")
