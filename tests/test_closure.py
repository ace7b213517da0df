"""What a stored run depends on: the code that makes it, all of it, and no other."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import saddlescope as ss
from saddlescope.core.registry import subject_types
from saddlescope.core.study import Study
from saddlescope.core.system import System
from saddlescope.lab import closure as closures
from saddlescope.lab.closure import OURS, closure, files_of, hash_of, sources
from saddlescope.lab.run import all_at_once, run_face


def places(kind):
    return {file.relative_to(OURS).as_posix() for file in files_of(kind)}


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """The package's sources, to be edited."""
    place = tmp_path / "saddlescope"
    shutil.copytree(OURS, place, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(closures, "OURS", place)
    return place


ROOTS = {
    "system": ("systems/linear_icl/system.py", "lab/run.py"),
    "study": ("studies/vit/study.py", "lab/outcome.py"),
}

EDITS = {
    # file: whether runs of linear_icl and of vit change with it
    "analysis/stages.py": (True, True),
    "lab/run.py": (True, False),
    "lab/outcome.py": (True, True),
    "core/precision.py": (True, False),
    "core/spec.py": (True, True),
    "core/trajectory.py": (True, True),
    "numerics/lanes.py": (True, False),
    "dynamics/train.py": (True, False),
    "dynamics/diffrax_backend.py": (True, False),
    "systems/linear_icl/escape.py": (True, False),
    "systems/linear_icl/network.py": (True, False),
    "studies/vit/training.py": (False, True),
    "studies/vit/images/decode.py": (False, True),
    "watch/measure.py": (False, True),
    "spectra/factored.py": (False, True),
    "systems/linear_icl/claims.py": (False, False),
    "systems/linear_icl/measures.py": (False, False),
    "systems/linear_icl/evidence.py": (False, False),
    "systems/linear_icl/errata.py": (False, False),
    "systems/linear_icl/figures.py": (False, False),
    "systems/linear_icl/experiments.py": (False, False),
    "systems/cooccurrence/reduction.py": (False, False),
    "studies/vit/claims.py": (False, False),
    "studies/vit/figures.py": (False, False),
    "watch/report.py": (False, False),
    "show/page.py": (False, False),
    "show/style.py": (False, False),
    "lab/store.py": (False, False),
    "lab/report.py": (False, False),
    "core/claim.py": (False, False),
    "testing/checks.py": (False, False),
    "cli.py": (False, False),
    "__init__.py": (False, False),
}


def test_edits_change_the_runs_that_they_may_change_and_no_others(copy):
    def digests():
        return [hash_of(closure([copy / root for root in roots])) for roots in ROOTS.values()]

    before = digests()
    for place, expected in EDITS.items():
        file = copy / place
        text = file.read_text()
        file.write_text(text + "\n# edited\n")
        changed = tuple(now != then for now, then in zip(digests(), before, strict=True))
        file.write_text(text)
        assert changed == expected, place
    assert digests() == before


def test_a_new_import_inside_a_function_counts(copy):
    roots = [copy / root for root in ROOTS["system"]]
    file, extra = copy / "systems" / "linear_icl" / "escape.py", copy / "numerics" / "novel.py"
    extra.write_text("VALUE = 1\n")
    before = hash_of(closure(roots))
    file.write_text(file.read_text() + "\n\ndef later():\n    from saddlescope.numerics.novel import VALUE\n")
    with_import = hash_of(closure(roots))
    extra.write_text("VALUE = 2\n")
    assert len({before, with_import, hash_of(closure(roots))}) == 3
    file.write_text(file.read_text().replace("    from saddlescope", "    if TYPE_CHECKING:\n        from saddlescope"))
    assert extra not in closure(roots)


@pytest.mark.parametrize("name", subject_types())
def test_analysis_modules_do_not_count(name):
    kind = subject_types()[name]
    last = {Path(place).stem.rpartition("_")[2] for place in places(kind)}
    assert not last & {"claims", "experiments", "figures", "errata", "evidence", "report", "page"}


CASES = [
    ("linear_icl", "flow"),
    ("linear_icl", "train"),
    ("linear_icl", "predict"),
    ("gradual_rank", "flow"),
    ("sparse_attention", "flow"),
    ("sparse_attention/minimal", "train"),
    ("cooccurrence", "flow"),
    ("vit", "train"),
]


@pytest.mark.parametrize(("name", "face"), CASES)
def test_everything_that_is_executed_counts(name, face):
    """Not what is imported: every function of ours that really runs lies in a file of the closure."""
    system = ss.subject(name, "tiny")
    executed = set()

    def listen(frame, event, _):
        if event == "call" and frame.f_code.co_name != "<module>":
            executed.add(frame.f_code.co_filename)

    sys.setprofile(listen)
    try:
        run_face(system, face, 0)
        if isinstance(system, System) and (name, face) == ("linear_icl", "flow"):
            all_at_once(system, "default", (0, 1))
    finally:
        sys.setprofile(None)
    ours = {Path(file).relative_to(OURS).as_posix() for file in executed if Path(file).is_relative_to(OURS)}
    # Counts compilations where it has been imported; finds names, once, in the __init__ of packages.
    ours -= {"testing/checks.py", "core/lazy.py"}
    if isinstance(system, Study):
        ours -= {"lab/run.py"}  # hands over to the study's own loop
    assert len(ours) > 8
    assert ours <= places(type(system))


def test_a_plug_in_counts_with_its_package_and_no_library(tmp_path, monkeypatch):
    place = tmp_path / "site-packages" / "mylab"
    place.mkdir(parents=True)
    (place / "__init__.py").write_text("")
    (place / "system.py").write_text(
        "import numpy\nimport mylab.helper\nfrom saddlescope.systems.linear_icl import LinearICL\n"
        "from . import claims\n\n\nclass Mine(LinearICL):\n    name = 'mine'\n"
    )
    (place / "helper.py").write_text("")
    (place / "claims.py").write_text("")
    (tmp_path / "site-packages" / "numpy.py").write_text("")
    files = closure([place / "system.py"])
    assert {file for file in files if not file.is_relative_to(OURS)} == {place / "system.py", place / "helper.py"}
    assert OURS / "systems" / "linear_icl" / "system.py" in closure([*files, *files_of(type(ss.system("linear_icl")))])


@pytest.mark.parametrize("name", ["mylab", "rank_experiments"])
def test_what_is_imported_from_a_package_itself_counts(tmp_path, name):
    """Whatever the package is called: one's own project may well end in a word for analysis."""
    place = tmp_path / name
    place.mkdir()
    (place / "__init__.py").write_text("RATE = 1\n")
    (place / "theory.py").write_text("X = 1\n")
    (place / "my_figures.py").write_text("")
    system = place / "system.py"

    def found():
        return {file.name for file in closure([system])}

    system.write_text(f"from {name}.theory import X\n")
    assert found() == {"system.py", "theory.py"}
    system.write_text("from . import theory, my_figures\n")
    assert found() == {"system.py", "theory.py"}
    system.write_text("from . import theory, RATE\n")
    assert found() == {"system.py", "theory.py", "__init__.py"}


def test_the_way_to_the_package_does_not_matter(tmp_path):
    """A link to a checkout, say: the runs of one are those of the other."""
    (tmp_path / "saddlescope").symlink_to(OURS)
    code = "from saddlescope.lab.closure import sources\nimport saddlescope as ss\n"
    code += "print(sources(type(ss.system('linear_icl'))))"
    run = [sys.executable, "-c", code]
    through_the_link = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(run, env=through_the_link, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.strip() == sources(type(ss.system("linear_icl"))), done.stderr
