"""Shared by all tests: the system that CONTRIBUTING.md prints, and the room `squares` that `saddlescope new` copies.

Tests of what serves every paper use these two, and name no paper: those of a paper are in a folder of its name.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from saddlescope.core.compilation import FOLDER, keep_compiled
from saddlescope.lab.pool import WORKER_ENVIRONMENT

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache"
"""Runs and compiled code, shared by all tests of a call and kept for the next: both know what they depend on."""

# Tests run side by side, as workers do: each keeps to one thread, said before torch, BLAS or XLA is first imported.
os.environ.update(WORKER_ENVIRONMENT)
os.environ[FOLDER] = str(CACHE)
keep_compiled()

import saddlescope.core.precision  # noqa: E402, F401  (networks called directly are 64 bits too, whatever ran before)
from saddlescope import cli  # noqa: E402
from saddlescope.core import registry  # noqa: E402
from saddlescope.core.files import lock  # noqa: E402
from saddlescope.testing.sabotage import survivors  # noqa: E402

from .packages import install  # noqa: E402

# Found by subprocesses and workers too.
install(CACHE / "site", "squares", module="saddlescope.templates.squares")
sys.path.insert(0, str(CACHE / "site"))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [sys.path[0], os.environ.get("PYTHONPATH", "")]))


def example_code() -> str:
    """The system that CONTRIBUTING.md prints."""
    return re.findall(r"```python\n(from .*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.S)[0]


def _module_from_contributing() -> types.ModuleType:
    module = types.ModuleType("contributing_example")
    sys.modules[module.__name__] = module
    exec(compile(example_code(), "CONTRIBUTING.md", "exec"), module.__dict__)
    return module


EXAMPLE = _module_from_contributing()


def printed(*command: str | Path, at: Path | None = None, **settings: Any) -> str:
    """What a program prints that succeeds. settings: as of `subprocess.run`."""
    done = subprocess.run(command, cwd=at, capture_output=True, text=True, **settings)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def expected_of(room) -> types.ModuleType | None:
    """`expected` in the folder of a room's own tests; None for a room that an installed package has brought along."""
    ours = room.package.partition(".")[0] == "saddlescope"
    return importlib.import_module(f"tests.{room.name}.expected") if ours else None


def pytest_collection_modifyitems(items):
    """The longest files first, and last those that look at what the first one makes.

    With --no-loadscope-reorder files are dealt out in this order, so that nobody waits for the last one.
    """
    order = {"test_reproduce.py": 0, "test_conformance.py": 1, "test_errata.py": 3, "test_readme.py": 4}
    items.sort(key=lambda item: order.get(item.path.name, 2))


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
            found += [claim.name for claim in survivors(claims, result.runs[experiment])]
    return found


@pytest.fixture(scope="session", params=["brief", pytest.param("everything", marks=pytest.mark.slow)])
def quick(request):
    """The main job at quick size, made once for all workers of a test run: its folder, verdicts, and what was asked.

    brief: what `tests/brief.py` chooses.
    """
    from saddlescope.lab.reproduce import choose

    from .brief import brief

    out, runs = CACHE / request.param, CACHE / "runs"
    out.mkdir(parents=True, exist_ok=True)
    runs.mkdir(exist_ok=True)
    commands = {
        "brief": ["tests.brief", str(out)],
        "everything": ["saddlescope", "reproduce", "--out", str(out), "--json"],
    }
    with lock(CACHE / "quick.lock", wait=True):
        if not (out / "runs").is_symlink():
            (out / "runs").symlink_to(runs)
        said = printed(sys.executable, "-m", *commands[request.param], at=ROOT)
    return out, json.loads(said), brief() if request.param == "brief" else choose()


@pytest.fixture(autouse=True, scope="module")
def little_memory():
    """What a file has compiled is let go of: a worker that kept it all would need gigabytes."""
    yield
    import jax

    jax.clear_caches()


@pytest.fixture
def squares():
    """The system that CONTRIBUTING.md prints, with its tiny preset."""
    return EXAMPLE.Squares(EXAMPLE.Squares.preset("tiny"))


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder whose packages are installed while a test runs."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "site")])
    yield tmp_path / "site"
    registry.forget()


@pytest.fixture
def call(capsys):
    """Exit code, stdout and stderr of a command."""

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        code = cli.run([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def refusal(call):
    """Stderr of a command that must be refused: with exit code 2, and nothing on stdout."""

    def run(*arguments: str | Path) -> str:
        code, out, err = call(*arguments)
        assert (code, out) == (2, ""), err
        return err

    return run


@pytest.fixture
def answer(call):
    """What a command that succeeds prints with --json."""

    def ask(*arguments: str | Path) -> Any:
        code, out, told = call(*arguments, "--json")
        assert code == 0, told
        return json.loads(out)

    return ask


@pytest.fixture(scope="session")
def torch():
    return pytest.importorskip("torch")


@pytest.fixture(scope="session")
def browser():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    pytest.skip("needs chromium, chromium-browser or google-chrome on PATH")
