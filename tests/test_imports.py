"""Imports go one way, the light commands stay light, and public names say what they take and give."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys

import pytest

import saddlescope as ss
from saddlescope import watch

from .conftest import ROOT, printed

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
    "templates": {"core", "numerics", "analysis"},
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
        # What `saddlescope new` writes as tests may use what tests use.
        if room == "templates" and path.name.startswith("test_"):
            continue
        for package, other, *inside in (parts for parts in imports_of(path) if len(parts) > 1):
            if package != "saddlescope" or other not in ROOMS:  # another's, or a name of the package itself
                continue
            # The registry walks the rooms: the one place in core that knows where they are.
            if path == PACKAGE / "core" / "registry.py" and other in ("systems", "studies"):
                continue
            assert other == room or other in MAY_IMPORT[room], f"{path} imports saddlescope.{other}"
            if room in ("systems", "studies") and other == room and inside:
                own = path.relative_to(PACKAGE / room).parts[0]
                assert inside[0] == own, f"{path} imports another paper's room"


def loaded_by(code):
    script = f"import sys\n{code}\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    return set(printed(sys.executable, "-c", script).splitlines()[-1].split())


@pytest.mark.parametrize("arguments", [["--help"], ["list"], ["flow", "--help"], ["--version"]])
def test_light_commands_import_nothing_heavy(arguments):
    found = loaded_by(f"from saddlescope.cli import run\nrun({arguments!r})")
    assert not HEAVY & found


def test_import_is_light():
    assert not (HEAVY | {"numpy", "rich", "cyclopts"}) & loaded_by("import saddlescope")


def test_predict_needs_numpy_and_scipy_only():
    found = loaded_by("from saddlescope.cli import run\nrun(['predict', 'squares', '--preset', 'tiny', '--json'])")
    assert "scipy" in found
    assert not (HEAVY - {"scipy"}) & found


# ---- public names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("package", [ss, watch], ids=lambda package: package.__name__)
def test_the_stub_is_the_list_of_public_names(package):
    folder = PACKAGE.joinpath(*package.__name__.split(".")[1:])
    listed = {
        alias.name: node.module
        for node in ast.parse((folder / "__init__.pyi").read_text()).body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    assert sorted(package.__all__) == dir(package)
    for name, module in listed.items():
        if name in package.__all__:
            assert getattr(package, name).__name__ == name
        else:  # it is absent with its room, and only then
            group, room, *_ = module.split(".")
            assert group in ("systems", "studies") and not (folder / group / room).exists(), name
    with pytest.raises(AttributeError, match="offers"):
        _ = package.nonsense


def taken_by(thing) -> list[str]:
    """Names of the fields of a dataclass or a named tuple, else of the arguments of a function or a class."""
    if dataclasses.is_dataclass(thing):
        return [field.name for field in dataclasses.fields(thing)]
    if inspect.isclass(thing) and not hasattr(thing, "_fields") and "__init__" not in vars(thing):
        return []  # made as its base is, or never by hand
    return list(inspect.signature(thing).parameters)


def explained_by(thing) -> str:
    """Its docstring, with those of the bases that it extends, and of another thing that it refers to."""
    kinds = inspect.getmro(thing) if inspect.isclass(thing) else [thing]
    words = " ".join(kind.__doc__ or "" for kind in kinds if kind.__module__.startswith("saddlescope"))
    return words + "".join(explained_by(getattr(ss, other)) for other in re.findall(r"those of `(\w+)`", words))


@pytest.mark.parametrize("name", dir(ss))
def test_public_names_say_what_they_take_and_give(name):
    thing = getattr(ss, name)
    assert not thing.__doc__.startswith(f"{name}("), "no docstring"  # but its signature, which a dataclass is given
    assert len(thing.__doc__.split()) > 5
    explained = explained_by(thing)
    assert [word for word in taken_by(thing) if not re.search(rf"\b{word}\b", explained)] == []
