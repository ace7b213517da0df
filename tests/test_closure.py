"""What a stored run depends on: the code that makes it, all of it, and no other."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from saddlescope.core.registry import subject_types
from saddlescope.core.room import rooms
from saddlescope.core.subject import Subject
from saddlescope.lab import closure as closures
from saddlescope.lab.closure import OURS, closure, files_of, hash_of, sources
from saddlescope.lab.ensemble import _together
from saddlescope.lab.run import all_at_once, run
from saddlescope.templates.squares import Squares

from .conftest import printed
from .packages import write

TINY: dict[str, Any] = {name: kind(kind.preset("tiny")) for name, kind in subject_types().items()}


def below(folder, files):
    return {file.relative_to(folder).as_posix() for file in files if file.is_relative_to(folder)}


# ---- of the package --------------------------------------------------------------------------------------

ROOTS = {
    "system": (
        "templates/squares/system.py",
        "lab/run.py",
        *(f"dynamics/{one}.py" for one in ("train", "flow", "ensemble")),
    ),
    "study": ("studies/stroll.py", "lab/run.py", "dynamics/own_loop.py"),
}

STROLL = """
from saddlescope.core.parts import OwnLoop
from saddlescope.core.spec import Parameters
from saddlescope.core.trajectory import build_trajectory


class Strolling(OwnLoop):
    def train(self, seed, folder, tick):
        from saddlescope.watch import measure
"""

EDITS = {
    "runs of squares and of a study": """
        analysis/stages.py lab/run.py lab/stages.py core/spec.py core/trajectory.py""",
    "runs of squares": """
        core/precision.py numerics/lanes.py dynamics/train.py dynamics/diffrax_backend.py templates/squares/data.py
        templates/squares/network.py templates/squares/prediction.py""",
    "runs of a study": "dynamics/own_loop.py watch/measure.py spectra/factored.py",
    "nothing": """
        templates/squares/evidence/claims.py templates/squares/evidence/measures.py
        templates/squares/evidence/errata.py templates/squares/evidence/figures.py
        templates/squares/evidence/experiments.py templates/squares/inventory.tsv watch/report.py show/page.py
        show/style.py lab/store.py lab/report.py core/claim.py testing/checks.py cli.py __init__.py""",
}
"""What changes with an edit of which files."""


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """The package's sources, to be edited."""
    place = tmp_path / "saddlescope"
    shutil.copytree(OURS, place, ignore=shutil.ignore_patterns("__pycache__"))
    (place / "studies" / "stroll.py").write_text(STROLL)
    monkeypatch.setattr(closures, "OURS", place)
    return place


def test_the_roots_are_those_of_a_system():
    assert files_of(Squares()) == closure([OURS / root for root in ROOTS["system"]])


def test_edits_change_the_runs_that_they_may_change_and_no_others(copy):
    def digests():
        return [hash_of(closure([copy / root for root in roots])) for roots in ROOTS.values()]

    before = digests()
    for changing, files in EDITS.items():
        for file in map(copy.joinpath, files.split()):
            text = file.read_text()
            file.write_text(text + "\n# edited\n")
            changed = [now != then for now, then in zip(digests(), before, strict=True)]
            file.write_text(text)
            assert changed == ["squares" in changing, "study" in changing], file
    assert digests() == before


def test_a_new_import_inside_a_function_counts(copy):
    roots = [copy / root for root in ROOTS["system"]]
    file, extra = copy / "templates" / "squares" / "reduction.py", copy / "numerics" / "novel.py"
    extra.write_text("VALUE = 1\n")
    before = hash_of(closure(roots))
    file.write_text(file.read_text() + "\n\ndef later():\n    from saddlescope.numerics.novel import VALUE\n")
    with_import = hash_of(closure(roots))
    extra.write_text("VALUE = 2\n")
    assert len({before, with_import, hash_of(closure(roots))}) == 3
    file.write_text(
        file.read_text().replace("    from saddlescope.num", "    if TYPE_CHECKING:\n        from saddlescope.num")
    )
    assert extra not in closure(roots)


def test_the_way_to_the_package_does_not_matter(tmp_path):
    """A link to a checkout, say: the runs of one are those of the other."""
    (tmp_path / "saddlescope").symlink_to(OURS)
    code = "from saddlescope.lab.closure import sources\nfrom saddlescope.templates.squares import Squares\n"
    code += "print(sources(Squares()))"
    through_the_link = {**os.environ, "PYTHONPATH": str(tmp_path)}
    assert printed(sys.executable, "-c", code, at=tmp_path, env=through_the_link).strip() == sources(Squares())


# ---- of every room ---------------------------------------------------------------------------------------


def classes_in(package, kind=Subject):
    """Those that it lists, and those that it makes systems of when it is asked to."""
    here = [kind] if kind.__module__.startswith(f"{package}.") else []
    return here + [found for other in kind.__subclasses__() for found in classes_in(package, other)]


@pytest.mark.parametrize("name", rooms())
def test_of_a_room_all_counts_but_what_judges_its_runs(name):
    """Each file beside `evidence` is one of those that a system of the room depends on, and none inside it is."""
    room = rooms()[name]
    folder = room.folder
    assert folder is not None
    counted = closure([file for kind in classes_in(room.package) if (file := closures.home(kind))])
    counted |= {file for kind in room.subjects for file in files_of(kind())}
    beside = {place for place in below(folder, folder.rglob("*.py")) if not place.startswith("evidence/")}
    modules = {place for place in beside if not place.endswith("__init__.py")}
    assert modules <= below(folder, counted) <= beside
    last = {Path(place).stem.rpartition("_")[2] for place in below(OURS, counted)}
    assert not last & {"claims", "experiments", "figures", "errata", "report", "page"}


CASES = [(name, face) for name, system in TINY.items() for face in system.faces]


@pytest.mark.parametrize(("name", "face"), CASES)
def test_everything_that_is_executed_counts(name, face):
    """Not what is imported: every function of ours that really runs lies in a file of the closure."""
    system = TINY[name]
    if face == "train" and (lacking := system.training.lacks()):
        pytest.skip(lacking)
    executed, as_one = set(), face == "flow" and _together(system)

    def listen(frame, event, _):
        if event == "call" and frame.f_code.co_name != "<module>":
            executed.add(frame.f_code.co_filename)

    sys.setprofile(listen)
    try:
        run(system, face, 0)
        if as_one:
            all_at_once(system, "default", (0, 1))
    finally:
        sys.setprofile(None)
    ours = below(OURS, map(Path, executed))
    # Counts compilations where it has been imported; finds names, once, in the __init__ of packages.
    ours -= {"testing/checks.py", "core/lazy.py"}
    assert len(ours) > 8
    assert ours <= below(OURS, files_of(system))


# ---- of anybody's ----------------------------------------------------------------------------------------


def test_a_plug_in_counts_with_its_package_and_no_library(tmp_path):
    place = tmp_path / "site-packages" / "mylab"
    system = (
        "import numpy\nimport mylab.helper\nfrom saddlescope.templates.squares import Squares\n"
        "from . import claims\n\n\nclass Mine(Squares):\n    name = 'mine'\n"
    )
    write(place, {"__init__.py": "", "system.py": system, "helper.py": "", "claims.py": "", "../numpy.py": ""})
    files = closure([place / "system.py"])
    assert {file for file in files if not file.is_relative_to(OURS)} == {place / "system.py", place / "helper.py"}
    assert OURS / "templates" / "squares" / "system.py" in files


@pytest.mark.parametrize("name", ["mylab", "rank_experiments"])
def test_what_is_imported_from_a_package_itself_counts(tmp_path, name):
    """Whatever the package is called: one's own project may well end in a word for analysis."""
    place = tmp_path / name
    write(place, {"__init__.py": "RATE = 1\n", "theory.py": "X = 1\n", "my_figures.py": ""})
    write(place / "evidence", {"__init__.py": "", "tables.py": "Y = 1\n"})
    system = place / "system.py"

    def found():
        return {file.name for file in closure([system])}

    system.write_text(f"from {name}.theory import X\n")
    assert found() == {"system.py", "theory.py"}
    system.write_text("from . import theory, my_figures\nfrom .evidence.tables import Y\n")
    assert found() == {"system.py", "theory.py"}
    system.write_text("from . import theory, RATE\n")
    assert found() == {"system.py", "theory.py", "__init__.py"}
