"""Shared by all tests: the system that CONTRIBUTING.md teaches the contract with, exactly as printed there."""

from __future__ import annotations

import os
import re
import shutil
import sys
import types
from pathlib import Path

import pytest

from saddlescope.lab.pool import MODEST

# Tests run side by side, as workers do: each keeps to one thread, said before torch, BLAS or XLA is first imported.
os.environ.update(MODEST)

import saddlescope.core.precision  # noqa: F401  (networks called directly are 64 bits too, whatever ran before)

ROOT = Path(__file__).resolve().parents[1]


def _module_from_contributing() -> types.ModuleType:
    code = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.S)[0]
    module = types.ModuleType("contributing_example")
    sys.modules[module.__name__] = module
    exec(compile(code, "CONTRIBUTING.md", "exec"), module.__dict__)
    return module


EXAMPLE = _module_from_contributing()


def pytest_collection_modifyitems(items):
    """The longest file first: with --no-loadscope-reorder files are dealt out so, and nobody waits for the last one."""
    items.sort(key=lambda item: item.path.name != "test_reproduce.py")


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
