"""Imports go one way, and the light commands stay light."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from .conftest import ROOT

PACKAGE = ROOT / "src" / "saddlescope"
ROOMS = sorted(path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__")

MAY_IMPORT = {
    "core": set(),
    "numerics": {"core"},
    "analysis": {"core"},
    "spectra": {"core"},
    "checkpoints": {"core", "analysis", "spectra"},
    "systems": {"core", "numerics", "analysis"},
    "studies": {"core", "analysis", "spectra", "checkpoints", "watch"},
    "dynamics": {"core", "numerics"},
    "lab": {"core", "numerics", "analysis", "dynamics", "show"},
    "show": {"core"},
    "watch": {"core", "analysis", "spectra", "checkpoints", "show"},
    "testing": {"core", "numerics", "analysis", "dynamics", "lab", "show"},
}

HEAVY = {"jax", "torch", "xarray", "pandas", "scipy", "matplotlib", "optax", "diffrax"}


def imports_of(path):
    """Rooms of saddlescope that a file imports at run time; what only type checkers read does not count."""
    module = ["saddlescope", *path.relative_to(PACKAGE).with_suffix("").parts]
    tree = ast.parse(path.read_text())
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.ImportFrom):
            base = [*(module[: -node.level] if node.level else []), *(node.module or "").split(".")]
            # Each name may be a module: `from saddlescope import lab` imports the room just as `import` does.
            yield from ([part for part in [*base, alias.name] if part] for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".") for alias in node.names)


def test_every_room_has_its_rule():
    assert set(ROOMS) == set(MAY_IMPORT)


@pytest.mark.parametrize("room", ROOMS)
def test_imports_go_one_way(room):
    for path in (PACKAGE / room).rglob("*.py"):
        for parts in imports_of(path):
            if parts[0] != "saddlescope" or len(parts) < 2:
                continue
            # The registry walks the rooms: the one place in core that knows where they are.
            if path == PACKAGE / "core" / "registry.py" and parts[1] in ("systems", "studies"):
                continue
            other = parts[1]
            if other not in ROOMS:  # a name of the package itself
                continue
            assert other == room or other in MAY_IMPORT[room], f"{path} imports saddlescope.{other}"
            if room in ("systems", "studies") and other == room and len(parts) > 2:
                own = path.relative_to(PACKAGE / room).parts[0]
                assert parts[2] == own, f"{path} imports another paper's room"


def loaded_by(code):
    script = f"import sys\n{code}\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(run.stdout.split("\n")[-2].split())


@pytest.mark.parametrize("arguments", [["--help"], ["list"], ["flow", "--help"], ["--version"]])
def test_light_commands_import_nothing_heavy(arguments):
    found = loaded_by(f"from saddlescope.cli import run\nrun({arguments!r})")
    assert not HEAVY & found


def test_import_is_light():
    assert not (HEAVY | {"numpy", "rich", "cyclopts"}) & loaded_by("import saddlescope")


def test_predict_needs_numpy_and_scipy_only():
    found = loaded_by("from saddlescope.cli import run\nrun(['predict', 'linear_icl', '--preset', 'tiny', '--json'])")
    assert "scipy" in found
    assert not (HEAVY - {"scipy"}) & found
