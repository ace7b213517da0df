"""What is installed, and what is said of what is not: extras, versions, citations, and what the packages hold."""

from __future__ import annotations

import ast
import json
import re
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import yaml

import saddlescope
from saddlescope.core.errors import BadArgument
from saddlescope.core.extras import EXTRAS, MissingLibrary, absent, check_installed, needed_by
from saddlescope.core.lazy import lazy_names
from saddlescope.core.room import rooms
from saddlescope.lab.records import RESULTS, Records

from .bare.__main__ import BASE, LAB, OTHERS, declared, lower_bounds
from .bare.tried import TRIED, plant
from .conftest import ROOT, printed
from .packages import write

SOURCES = ROOT / "src" / "saddlescope"

MAY_USE = {
    "core": {"lab"},
    "analysis": {"stages"},
    "spectra": {"lab"},
    "checkpoints": {"torch", "vision"},
    "systems": {"lab"},
    "studies": {"torch", "hf", "vision"},
    "dynamics": {"lab"},
    "lab": {"stages"},
    "watch": {"lab", "torch", "hf"},
    "testing": {"lab"},
}
"""Extras whose libraries a room may import. All rooms may import what the instrument has."""


def name_of(requirement: str) -> str:
    return re.split(r"[><=\[ ]", requirement)[0]


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def imported(file: Path) -> Iterator[str]:
    """Packages that a file imports at run time; what only type checkers read does not count."""
    tree = ast.parse(file.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.partition(".")[0]


def test_every_import_is_declared_where_its_room_may_use_it():
    wanted = {extra: {plain(name_of(one)) for one in group} for extra, group in declared().items()}
    packages = packages_distributions()
    ours = {*sys.stdlib_module_names, "saddlescope"}
    wrong = []
    for file in SOURCES.rglob("*.py"):
        room = file.relative_to(SOURCES).parts[0]
        if room == "templates" and file.name.startswith("test_"):
            continue  # what `saddlescope new` writes as tests may use what tests use
        allowed = {name for extra in ("", *MAY_USE.get(room, ())) for name in wanted[extra]}
        for library in {*imported(file)} - ours:
            if not allowed & {plain(name) for name in packages.get(library, [library])}:
                wrong.append(f"{file.relative_to(ROOT)} imports {library}")
    assert wrong == []


# ---- what is declared ------------------------------------------------------------------------------------


def test_extras_are_those_of_the_project():
    packages = packages_distributions()
    known: dict[str, set[str]] = {}
    for library, extra in EXTRAS.items():
        known.setdefault(extra, set()).update(map(plain, packages.get(library, [library])))
    groups = {extra: {plain(name_of(one)) for one in group} for extra, group in declared().items()}
    assert {extra: group - groups[""] for extra, group in groups.items() if extra not in ("", "all", "dev")} == known
    assert declared()["all"] == [f"saddlescope[{','.join(known)}]"]


def test_each_extra_is_tried_in_an_environment_of_its_own():
    environments = (BASE, LAB, *OTHERS)
    assert {extra for one in environments for extra in one.extras.split(",")} == set(declared()) - {"dev"}
    assert {what for one in environments for what in one.tried} == set(TRIED)


def test_each_library_has_a_lower_bound_and_a_pin():
    bounds = dict(one.split("==") for one in lower_bounds("all"))
    wanted = {name_of(one) for extra, group in declared().items() if extra not in ("all", "dev") for one in group}
    assert set(bounds) == wanted
    pins = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines()[1:]:
        name, pin = line.split("==")
        pins[plain(name)] = pin
    for name, bound in bounds.items():
        assert numbers(bound) <= numbers(pins[plain(name)]), name
    assert {plain(name_of(one)) for one in declared()["dev"]} <= set(pins)


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def test_the_version_stands_in_one_place():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"] and project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/saddlescope/__init__.py"
    assert CITATION["version"] == saddlescope.__version__


def test_the_changelog_has_a_place_for_this_version():
    sections = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert sections[0] == "Unreleased" or sections[0] == saddlescope.__version__
    assert len(sections) == len(set(sections))


CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())


OURS = [room for room in rooms().values() if room.package.startswith(("saddlescope.systems.", "saddlescope.studies."))]


@pytest.mark.parametrize("room", OURS, ids=lambda room: room.name)
def test_each_room_has_its_paper_among_the_references(room):
    (paper,) = [one for one in CITATION["references"] if one["title"] == room.cited.title]
    authors = [f"{author['family-names']}, {author['given-names']}" for author in paper["authors"]]
    assert (tuple(authors), paper["year"]) == (room.cited.authors, room.cited.year)
    assert paper["doi"] == f"10.48550/arXiv.{room.cited.eprint}"
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"].values()
    assert f"https://arxiv.org/abs/{room.cited.eprint}" in urls


# ---- what is said of what is missing ---------------------------------------------------------------------


def test_a_failed_import_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "optax", None)
    words = r"^inner needs optax, which is not installed: pip install 'saddlescope\[lab\]'$"
    with pytest.raises(MissingLibrary, match=words), needed_by("outer"), needed_by("inner"):
        import optax  # noqa: F401
    with pytest.raises(ModuleNotFoundError), needed_by("this"):
        import a_library_of_somebody_else  # noqa: F401  # pyright: ignore[reportMissingImports]


def test_all_missing_libraries_are_named_at_once(monkeypatch):
    for name in ("ruptures", "sklearn", "PIL"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingLibrary) as said:
        check_installed("it", ("numpy", "ruptures", "sklearn", "PIL", "their_library"))
    assert str(said.value) == (
        "it needs ruptures, sklearn, PIL and their_library, which are not installed: "
        "pip install 'saddlescope[stages,vision]' their_library"
    )
    assert absent(["numpy"]) == []
    check_installed("it", ["numpy"])


def test_names_that_cannot_be_had_are_passed_over_by_a_star(site, monkeypatch):
    write(
        site / "offers",
        {
            "__init__.py": "",
            "__init__.pyi": "from .near import here\nfrom .far import there\nfrom .of_an_absent_room import nothing\n",
            "near.py": "here = 1\n",
            "far.py": "import optax\n\nthere = 2\n",
        },
    )
    find, offered = lazy_names("offers", str(site / "offers" / "__init__.py"))
    monkeypatch.setitem(sys.modules, "optax", None)
    assert offered() == ["here", "there"] and find("HOMES") == {"here": "near", "there": "far"}
    assert find("__all__") == ["here"] and find("here") == 1
    with pytest.raises(MissingLibrary, match=r"^there needs optax"):
        find("there")
    monkeypatch.setitem(sys.modules, "offers.near", None)
    with pytest.raises(ModuleNotFoundError):  # a mistake of ours is not a library that is missing
        find("__all__")


HIDDEN = [*(name for name in EXTRAS if name != "PIL"), "pytorch_lightning"]  # matplotlib needs PIL

BARE = f"""
import contextlib, io, json, sys

class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HIDDEN}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Nothing())

from saddlescope.cli import run
import saddlescope as ss

def said(arguments):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = run(arguments)
    return code, out.getvalue(), err.getvalue()

def raised(expression):
    try:
        eval(expression)
    except ImportError as error:
        return f"{{type(error).__name__}}: {{error}}"

commands, expressions = json.loads(sys.stdin.read())
print(json.dumps([[said(one) for one in commands], [raised(one) for one in expressions]]))
"""

WORK = [
    ["list"],
    ["list", "--coverage"],
    ["errata", "squares"],
    ["where", "squares"],
    ["diff", "base", "tuned"],
    ["series", "run"],
    ["stages", "smooth.csv"],
    ["predict", "squares", "--preset", "tiny"],
    ["flow", "squares", "--preset", "tiny"],
]

REFUSED = {
    "train squares": "train needs jax, which is not installed: pip install 'saddlescope[lab]'",
    "check squares": "check needs jax, which is not installed: pip install 'saddlescope[lab]'",
    "compare squares": "train needs jax, which is not installed: pip install 'saddlescope[lab]'",
    "stages noisy.csv": (
        "finding the stages of a noisy curve needs ruptures, which is not installed: pip install 'saddlescope[stages]'"
    ),
    "stages events.out.tfevents.1": (
        "reading TensorBoard's events needs google_crc32c, which is not installed: pip install 'saddlescope[stages]'"
    ),
    "diff pickled tuned": (
        "reading pickled/pytorch_model.bin needs torch, which is not installed: pip install 'saddlescope[torch]'"
    ),
    "diff base tuned --out rows.parquet": (
        "writing rows.parquet needs pyarrow, which is not installed: pip install 'saddlescope[vision]', or use .csv"
    ),
}

NOT_OFFERED = {
    "ss.train('squares')": "train needs jax, which is not installed: pip install 'saddlescope[lab]'",
    "ss.check_system('squares')": "check needs jax, which is not installed: pip install 'saddlescope[lab]'",
    "ss.TreeWatch": "TreeWatch needs jax, which is not installed: pip install 'saddlescope[lab]'",
    "ss.Watch": "Watch needs torch, which is not installed: pip install 'saddlescope[torch]'",
    "ss.SaddleCallback": "SaddleCallback needs transformers, which is not installed: pip install 'saddlescope[hf]'",
    "ss.LightningCallback": "LightningCallback needs lightning, which is not installed: pip install 'saddlescope[hf]'",
}


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """What commands and expressions say in a process without the extras' libraries. In one, which imports once."""
    place = tmp_path_factory.mktemp("bare") / "work"
    plant(place)
    (place / "events.out.tfevents.1").write_bytes(b"")
    asked = json.dumps([[*WORK, *(line.split() for line in REFUSED)], list(NOT_OFFERED)])
    return json.loads(printed(sys.executable, "-c", BARE, at=place, input=asked))


def test_the_instrument_and_what_needs_no_jax_work_without_the_extras(bare):
    for arguments, (code, _, told) in zip(WORK, bare[0], strict=False):
        assert code == 0, f"{arguments}: {told}"


def test_commands_say_which_extra_they_lack(bare):
    for (command, words), (code, out, told) in zip(REFUSED.items(), bare[0][len(WORK) :], strict=True):
        assert (code, out, told) == (1, "", f"error: {words}\n"), command


def test_functions_and_classes_say_which_extra_they_lack(bare):
    assert bare[1] == [f"MissingLibrary: {words}" for words in NOT_OFFERED.values()]


# ---- what the packages hold ------------------------------------------------------------------------------


def test_recorded_results_are_found_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Records.found(RESULTS).folder == ROOT / "results"
    with pytest.raises(BadArgument, match="`results` means"):
        Records.found(tmp_path / "results")
    (tmp_path / "results").mkdir()
    assert Records.found(RESULTS).folder == RESULTS  # the one that is here


def test_the_wheel_and_the_sdist_hold_what_they_should(tmp_path):
    printed(sys.executable, "-m", "hatchling", "build", "-d", tmp_path, at=ROOT)
    (wheel,), (sdist,) = tmp_path.glob("*.whl"), tmp_path.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as file:
        inside = set(file.namelist())
    assert all(
        name.startswith(("saddlescope/", f"saddlescope-{saddlescope.__version__}.dist-info/")) for name in inside
    )
    kept = [file.relative_to(SOURCES).as_posix() for file in SOURCES.rglob("*") if "__pycache__" not in file.parts]
    records = [file.relative_to(ROOT).as_posix() for file in (ROOT / "results").glob("*/runs/*")]
    for name in [*(name for name in kept if "." in Path(name).name), *records, "py.typed"]:
        assert f"saddlescope/{name}" in inside, name
    assert not any("/figures/" in name for name in inside)
    with tarfile.open(sdist) as file:
        sizes = {entry.name.partition("/")[2]: entry.size for entry in file.getmembers()}
    assert {"pyproject.toml", "CHANGELOG.md", "CITATION.cff", "Makefile", ".ci/run", "tests/conftest.py"} <= set(sizes)
    assert set(records) <= set(sizes)
    assert sum(sizes.values()) < 12e6 and wheel.stat().st_size < 5e6
