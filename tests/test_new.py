"""`saddlescope new`: what it writes passes as it stands, as a package of its own and in a checkout."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pytest

from saddlescope.core.errors import BadArgument
from saddlescope.lab import new
from saddlescope.lab.new import LONGEST, new_room

from .conftest import CACHE, ROOT, printed


def saddlescope(*arguments: str, at: Path, python: str | Path = sys.executable, **settings) -> str:
    return printed(python, "-m", "saddlescope", *arguments, at=at, **settings)


# ---- a package of its own --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the package `demo`, and with an environment in which pip has installed it.

    The environment sees the libraries of this one, so that pip needs no network.
    """
    place = tmp_path_factory.mktemp("elsewhere")
    saddlescope("new", "demo", "--package", at=place)
    venv.create(place / "env", symlinks=True)
    (packages,) = (place / "env" / "lib").glob("python*/site-packages")
    (packages / "libraries.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    pip = [sys.executable, "-m", "pip", "--python", place / "env" / "bin" / "python", "install", "--quiet"]
    printed(*pip, "--no-index", "--no-build-isolation", "--editable", "demo", at=place)
    return place


@pytest.fixture
def installed(place):
    """How that environment is called."""
    return {"at": place, "python": place / "env" / "bin" / "python"}


def test_a_package_is_known_once_it_is_installed(installed):
    (demo,) = (row for row in json.loads(saddlescope("list", "--json", **installed)) if row["system"] == "demo")
    assert demo["claims"] >= 2 and demo["figures"] >= 1 and demo["errata"] >= 1
    assert demo["faces"] == ["train", "flow", "predict"] and {"tiny", "quick", "paper"} <= set(demo["presets"])


def test_a_package_passes_check(installed):
    reports = json.loads(saddlescope("check", "demo", "--json", **installed))
    assert "failed" not in {report["outcome"] for report in reports}
    passed = {report["check"] for report in reports if report["outcome"] == "passed"}
    assert {"reduction commutes", "train tends to flow", "supported claims can lose", "room is complete"} <= passed


def test_a_package_is_reproduced(place, installed):
    verdicts = json.loads(saddlescope("reproduce", "demo", "--json", **installed))
    assert [row["verdict"] for row in verdicts] == ["supported", "supported"]
    page = (place / "out" / "report.html").read_text()
    assert "needs --full" not in page and (place / "out" / "figures" / "demo-1.svg").is_file()


def test_the_tests_of_a_package_pass(place, installed):
    printed(installed["python"], "-m", "pytest", "-q", "-p", "no:cacheprovider", "demo/tests", at=place)


def test_the_table_of_equations_is_that_of_the_code(place, installed):
    readme = place / "demo" / "src" / "demo" / "README.md"
    before = readme.read_text()
    readme.write_text(before.replace("network.loss", "network.lost"))
    printed(installed["python"], "-m", "saddlescope.lab.sources", "demo", at=place)
    assert readme.read_text() == before


def test_a_readme_says_how_to_install(place):
    lines = (place / "demo" / "README.md").read_text().splitlines()
    shown = saddlescope("new", "other", "--package", at=place)
    steps = [line.strip().replace("other", "demo") for line in shown.splitlines() if line.startswith("  ")]
    assert steps[0] == "pip install --editable demo"
    shown_in_it = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    assert shown_in_it == [*steps, "python -m saddlescope.lab.sources demo"]


# ---- in a checkout ---------------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path):
    """A copy of the project without its papers."""
    place = tmp_path / "checkout"
    papers = {folder.name for kind in ("systems", "studies") for folder in (ROOT / "src/saddlescope" / kind).glob("*/")}
    without = shutil.ignore_patterns("__pycache__", *papers)
    for folder in ("src", "tests"):
        shutil.copytree(ROOT / folder, place / folder, ignore=without)
    for file in ("pyproject.toml", "CONTRIBUTING.md", "README.md"):
        shutil.copy(ROOT / file, place)
    CACHE.mkdir(exist_ok=True)
    (place / ".cache").symlink_to(CACHE)
    return place


def test_a_room_in_a_checkout_is_two_folders_that_pass(checkout):
    ours: dict[str, Any] = {"env": {**os.environ, "PYTHONPATH": str(checkout / "src")}}
    before = {path for path in checkout.rglob("*") if path.is_file()}
    shown = saddlescope("new", "deep_linear", at=checkout, **ours)
    folders = [checkout / "src/saddlescope/systems/deep_linear", checkout / "tests/deep_linear"]
    assert [line.removeprefix("wrote ") for line in shown.splitlines()[:2]] == list(map(str, folders))
    more = {path for path in checkout.rglob("*") if path.is_file() and "__pycache__" not in path.parts} - before
    assert all(any(path.is_relative_to(folder) for folder in folders) for path in more)
    tests = ["-vv", "-p", "no:cacheprovider", "tests/deep_linear", "tests/test_rooms.py"]
    lines = printed(sys.executable, "-m", "pytest", *tests, at=checkout, **ours).splitlines()
    assert any("tests/test_rooms.py" in line and "[deep_linear]" in line for line in lines)


# ---- names -----------------------------------------------------------------------------------------------

LONG = "long" * LONGEST


@pytest.fixture
def empty(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("squares", "taken by a system"),
        ("numpy", "taken by a Python package"),
        ("random", "taken by a Python package"),
        ("class", "no word of Python"),
        ("none", "class None"),
        ("state", "class State"),  # what the example's own code calls something else
        ("my_claims", "must not end in 'claims'"),
        *((name, "small letters") for name in ("Demo", "deep-linear", "1st", "", ".", "../x", "a/b", "a\nb", "ü")),
        (LONG, f"at most {LONGEST}.*got '{LONG[:LONGEST]}'$"),
    ],
)
def test_a_name_is_refused_and_nothing_written(name, words, empty):
    with pytest.raises(BadArgument, match=words):
        new_room(name, package=True)


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch, lambda path: path.symlink_to("nowhere")])
def test_what_is_there_is_not_touched(make, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make(Path("demo"))
    with pytest.raises(BadArgument, match="demo exists already"):
        new_room("demo", package=True)
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]


def test_a_module_of_the_tests_is_not_hidden(checkout, monkeypatch):
    """A folder tests/conftest would be imported in the place of tests/conftest.py."""
    monkeypatch.setattr(new, "_checkout", lambda: checkout)
    with pytest.raises(BadArgument, match=r"conftest\.py exists already"):
        new_room("conftest", package=False)


def test_outside_a_checkout_a_package_is_asked_for(empty, monkeypatch):
    monkeypatch.setattr(new.saddlescope, "__file__", str(empty / "site-packages" / "saddlescope" / "__init__.py"))
    with pytest.raises(BadArgument, match="add --package"):
        new_room("demo", package=False)


def test_a_full_disk_leaves_nothing_and_is_told_with_the_file(empty, monkeypatch):
    whole = Path.write_text

    def write_text(path, text, **options):
        if path.name == "system.py":
            whole(path, text[:100], **options)
            raise OSError(errno.ENOSPC, "No space left on device")
        return whole(path, text, **options)

    monkeypatch.setattr(Path, "write_text", write_text)
    with pytest.raises(OSError, match=r"No space left on device: 'demo/src/demo/system\.py'"):
        new_room("demo", package=True)


# ---- style -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a", "deep_linear", "n" * LONGEST])
def test_what_is_written_is_in_good_style_under_any_name(name, checkout, monkeypatch):
    """A package by the rules that are written with it, a room in a checkout by those of the checkout."""
    monkeypatch.chdir(checkout.parent)
    monkeypatch.setattr(new, "_checkout", lambda: checkout)
    for package in (True, False):
        folders = new_room(name, package=package)
        written = [path.read_text() for folder in folders for path in folder.rglob("*") if path.is_file()]
        assert len(written) > 15 and "squares" not in "".join(written).lower()
        for command in (["check"], ["format", "--check"]):
            printed(sys.executable, "-m", "ruff", *command, "--no-cache", *folders, at=checkout.parent)
