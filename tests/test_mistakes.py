"""Mistakes of a room's author cost only themselves: each is made here as an author would, in a copy of the example."""

from __future__ import annotations

import ast
import itertools
import json
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

import saddlescope as ss
import saddlescope.systems
from saddlescope import cli
from saddlescope.core import registry
from saddlescope.core.errors import BadArgument
from saddlescope.core.files import write_whole
from saddlescope.core.room import room, rooms
from saddlescope.lab.new import new_room
from saddlescope.testing import checks

from .conftest import ROOT, example_code, printed
from .packages import install, write

NUMBERS = itertools.count(1)
"""Names are used once: Python keeps what it has imported."""

PASSED = {"drop_times": "supported", "one_after_the_other": "supported"}


@pytest.fixture
def author(site, tmp_path, monkeypatch):
    """author({"evidence/claims": code, ...}) -> name of an installed copy of the example, with code added to its files.

    In it NAME and TITLE stand for those of the copy.
    """

    monkeypatch.chdir(tmp_path)
    site.mkdir()

    def copy(added: Mapping[str, str]) -> str:
        name = f"room{next(NUMBERS)}"
        new_room(name, package=True)
        (Path(name) / "src" / name).rename(site / name)
        for file, code in added.items():
            path = site / name / f"{file}.py"
            code = code.replace("NAME", name).replace("TITLE", name.capitalize())
            path.write_text(f"{path.read_text()}\n\n{code}\n")
        install(site, name)
        return name

    return copy


@pytest.fixture
def reproduce(call):
    """Exit code, verdicts and reasons of the claims, and what was told, of the whole job in this process."""

    def run(*targets: str) -> tuple[int, dict[str, str], dict[str, str], str]:
        code, out, told = call("reproduce", *targets, "--workers", "1", "--json")
        rows = json.loads(out)
        assert Path("out/report.html").is_file()
        return code, {r["claim"]: r["verdict"] for r in rows}, {r["claim"]: r["reason"] for r in rows}, told

    return run


def drawn(name: str) -> set[str]:
    return {path.stem.removeprefix(f"{name}-") for path in Path("out/figures").glob(f"{name}-*.svg")}


FIGURES = set(rooms()["squares"].figures)


# ---- packages that cannot be loaded ----------------------------------------------------------------------

LACKING = """
import saddlescope as ss

class Mine(ss.System):
    {}

SYSTEMS = (Mine,)
"""
STATED = "name = 'mine'; paper = 'p'; summary = 's'; spec_type = ss.Spec; presets = {'quick': {}}; observables = {}"


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import nowhere_at_all", "No module named 'nowhere_at_all'"),
        ("def (", "SyntaxError"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("class Rude(BaseException): ...\nraise Rude('not an Exception')", "Rude: not an Exception"),
        ("", "has no attribute 'SYSTEMS'"),
        ("SYSTEMS = 5", "not iterable"),
        ("SYSTEMS = (5,)", "5 is not a System"),
        (LACKING.format("paper = 'p'"), "Mine states no `name`"),
        (LACKING.format(STATED.replace("presets", "presents")), "Mine states no `presets`"),
        (LACKING.format(STATED.replace("'mine'", "5")), "`name` of Mine must be a str, got 5"),
        (LACKING.format(STATED.replace("quick", "quik")), "a preset 'quick'"),
        (LACKING.format(STATED), "Mine lacks measure, start, view"),
        (LACKING.format("observables = {'p': ('mode',)}"), "Observable('what it is, in a few words', 'mode'), got"),
        (LACKING.format("observables = {'p': ss.Once(('mode',))}"), "Once('what it is', 'first_dimension', ...), got"),
        (LACKING.format("observables = {'p': ss.Observable('p', 'p')}"), "'p' is the name of a dimension too: rename"),
        (
            "from saddlescope.templates.squares.system import Squares\nclass Mine(Squares): ...\nSYSTEMS = (Mine,)",
            "'squares' is taken",
        ),
    ],
)
def test_a_package_that_cannot_be_loaded_is_told_by_name_and_stops_nothing(code, why, site, call):
    name = f"package{next(NUMBERS)}"
    install(site, name, {f"{name}.py": code})
    exit_code, out, told = call("list")
    assert exit_code == 0 and "squares" in out
    assert f"{name} could not be loaded: " in told and why in told
    assert call("predict", "squares")[0] == 0
    exit_code, _, told = call("predict", name)
    assert exit_code == 2 and why in told


def test_a_room_in_the_current_folder_is_to_be_installed(author, call):
    name = f"room{next(NUMBERS)}"
    author({})
    new_room(name, package=True)
    code, _, told = call("predict", name)
    assert code == 2 and f"the folder {name!r} here is not installed: pip install --editable {name}" in told


def test_a_room_of_the_checkout_is_treated_the_same(site, call, monkeypatch):
    write(site, {"fallen.py": "SYSTEMS = (Fallen,)"})
    monkeypatch.setattr(saddlescope.systems, "__path__", [*saddlescope.systems.__path__, str(site)])
    registry.forget()
    code, out, told = call("list")
    assert (code, "squares" in out) == (0, True) and "saddlescope.systems.fallen could not be loaded: NameError" in told


def test_an_interrupt_goes_through(site, call):
    name = f"package{next(NUMBERS)}"
    install(site, name, {f"{name}.py": "raise KeyboardInterrupt"})
    assert call("list")[0] == cli.INTERRUPTED


def test_no_room_here_is_broken():
    assert registry.broken_packages() == {}
    assert [words for room in rooms().values() for words in room.adrift()] == []


# ---- claims, figures, errata and experiments -------------------------------------------------------------


def one_more(listed: str, changes: str) -> str:
    """Code that lists a copy of the first claim, figure, erratum or experiment, called `mistaken`."""
    return f"from dataclasses import replace\n\n{listed} += (replace({listed}[0], name='mistaken', {changes}),)"


def on_a_mistaken_experiment(changes: str) -> dict[str, str]:
    return {
        "evidence/experiments": one_more("EXPERIMENTS", changes),
        "evidence/claims": one_more("CLAIMS", "experiment='mistaken'"),
    }


FALLING = """
class Falling(TITLE):
    name = "NAME/falling"

    @part
    class training(TITLETraining):
        def descend(self, state, frame, learning_rate):
            raise KeyError("descend")


class Unfinished(TITLE):
    name = "NAME/unfinished"
    training = part(ExactDescent)
"""
VARIANTS = {"system": FALLING, "__init__": "from .system import Falling, Unfinished\nSYSTEMS += (Falling, Unfinished)"}


@pytest.mark.parametrize(
    ("added", "words"),
    [
        ({"evidence/claims": one_more("CLAIMS", "experiment='staircas'")}, "did you mean 'staircase'?"),
        ({"evidence/claims": one_more("CLAIMS", "measured=lambda run: 1 / 0")}, "ZeroDivisionError"),
        ({"evidence/claims": one_more("CLAIMS", "measured=lambda run: 'much'")}, "ValueError"),
        ({"evidence/claims": one_more("CLAIMS", "measured=lambda run: open('/nowhere')")}, "directory: '/nowhere'"),
        ({"evidence/claims": one_more("CLAIMS", "expected=lambda run: exit(3)")}, "SystemExit: 3"),
        ({"evidence/figures": one_more("FIGURES", "experiments=('staircas',)")}, "did you mean 'staircase'?"),
        ({"evidence/figures": one_more("FIGURES", "draw=lambda axes, results: axes['z']")}, "KeyError: 'z'"),
        ({"evidence/figures": one_more("FIGURES", "panels=('aab', 'c')")}, "same length"),
        ({"evidence/errata": one_more("ERRATA", "shows=lambda: 1 / 0")}, "ZeroDivisionError"),
        ({"evidence/errata": one_more("ERRATA", "shows=lambda: 1.0")}, "TypeError"),
        (on_a_mistaken_experiment("system='sqares'"), "did you mean 'squares'?"),
        (on_a_mistaken_experiment("face='flwo'"), "no face 'flwo'"),
        (on_a_mistaken_experiment("solver='tihgt'"), "did you mean 'tight'?"),
        (on_a_mistaken_experiment("fields={'init_scle': 1e-3}"), "did you mean 'init_scale'?"),
        (on_a_mistaken_experiment("fields={'init_scale': -1.0}"), "`init_scale` must be positive"),
        ({**VARIANTS, **on_a_mistaken_experiment("system='NAME/falling', face='train'")}, "KeyError: 'descend'"),
        ({**VARIANTS, **on_a_mistaken_experiment("system='NAME/unfinished'")}, "abstract"),
    ],
)
def test_one_mistake_costs_itself_alone(added, words, author, reproduce):
    name = author(added)
    code, verdicts, reasons, told = reproduce(name)
    assert code == 1
    assert told.startswith(f"error: {name}: ")
    assert all("mistaken" in line and words in line for line in told.splitlines())
    assert verdicts.pop("mistaken", "undecided") == "undecided" and words in reasons.get("mistaken", words)
    assert verdicts == PASSED and drawn(name) == FIGURES


def test_a_figure_that_is_asked_for_alone_does_not_stop_another(author, reproduce):
    name = author({"evidence/figures": one_more("FIGURES", "experiments=('staircas',)")})
    code, _, _, told = reproduce(f"{name}:mistaken", f"{name}:1", "squares:1")
    assert code == 1 and "figure mistaken draws on unknown experiment 'staircas'" in told
    assert drawn(name) == {"1"} == drawn("squares")


@pytest.mark.parametrize("file", ["claims", "figures", "errata", "experiments"])
@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("(", "SyntaxError"),
        ("{0}S = {0}S[0]", "not iterable"),
        ("{0}S += ('x',)", "holds 'x'"),
        ("{0}S += {0}S[:1]", "2 are called"),
        ("del {0}S", "has no attribute"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_told(file, code, words, author, call):
    listed = "ERRATA" if file == "errata" else file.upper()
    name = author({f"evidence/{file}": code.replace("{0}S", listed)})
    exit_code, out, told = call("list", "--json")
    assert exit_code == 0 and {"squares", name} <= {row["system"] for row in json.loads(out)}
    assert f"{name}.evidence.{file}: " in told and words in told
    reports = {report.check: report for report in ss.check_system(name)}
    assert reports["room is complete"].outcome == "failed" and words in reports["room is complete"].reason


@pytest.mark.parametrize("file", ["claims", "figures", "errata", "experiments"])
def test_a_file_that_cannot_be_loaded_costs_itself_alone(file, author, reproduce):
    name = author({f"evidence/{file}": "("})
    code, _, _, told = reproduce(name, "squares:2")
    assert code == 1 and f"error: {name}: {name}.evidence.{file}: SyntaxError" in told
    assert drawn("squares") == {"2"}
    if file == "experiments":
        assert not drawn(name) and "unknown experiment 'staircase'" in told
    else:
        assert drawn(name) == (set() if file == "figures" else FIGURES)


def test_errata_of_other_rooms_are_shown(author, call):
    name = author({"evidence/errata": one_more("ERRATA", "shows=lambda: 1 / 0")})
    code, out, told = call("errata", name, "--json")
    shown = {row["name"]: row["off_printed"] for row in json.loads(out)}
    assert code == 1 and shown["mistaken"] is None and shown["eq3"] > 0.9
    assert told.startswith(f"error: erratum mistaken of {name}: ZeroDivisionError")
    code, out, told = call("errata", author({"evidence/errata": "("}))
    assert (code, out) == (1, "") and "evidence.errata: SyntaxError" in told


def test_where_passes_over_what_cannot_be_loaded(author, answer):
    rows = answer("where", author({"evidence/claims": "raise SystemExit"}))
    assert {row["statement"] for row in rows} == {"Eq. (1)", "Eq. (2)", "Eq. (3)"}


def test_an_inventory_that_cannot_be_read_is_told(author, site, reproduce):
    name = author({})
    file = site / name / "inventory.tsv"
    file.write_text(file.read_text().replace("points_to", "leads_to"))
    code, verdicts, _, told = reproduce(name)
    assert (code, verdicts) == (1, PASSED) and told == f"error: {name}: {name}/inventory.tsv: KeyError: 'points_to'\n"


def test_a_table_of_misprints_that_lacks_a_column_is_told(author, site, call):
    listed = "from pathlib import Path\nERRATA += misprints(Path(__file__).with_name('misprints.tsv'))"
    name = author({"evidence/errata": f"from saddlescope import misprints\n{listed}"})
    table = site / name / "evidence" / "misprints.tsv"
    for text, words in (
        ("name\twhere\tprinted\ttrue\trepair\na\tEq. (1)\tx\ty\n", "line 2: expected name, where, printed, true"),
        ("name\twhere\tprinted\ttrue\trepair\n\na\tEq. (1)\tx\ty\n", "line 3: expected name"),
        ("name\twhere\n", "line 1: expected name, where, printed, true, repair"),
    ):
        table.write_text(text)
        registry.forget()
        code, _, told = call("errata", name)
        assert code == 1 and f"{name}.evidence.errata: ValueError" in told and "misprints.tsv" in told and words in told


UNBUILT = {
    "preset other of NAME": {"system": "TITLE.presets = {**TITLE.presets, 'other': {'target': (1.0,)}}"},
    "experiment mistaken": {"evidence/experiments": one_more("EXPERIMENTS", "full=Size(variants=({'x': 1},))")},
}


@pytest.mark.parametrize("words", UNBUILT)
def test_a_preset_or_a_full_size_that_cannot_be_built_is_told_before_it_runs(words, author, call):
    name = author(UNBUILT[words])
    told = {report.check: report.reason for report in ss.check_system(name)}["room is complete"]
    assert words.replace("NAME", name) in told and "unknown field" in told


def test_what_no_inventory_points_to_is_listed(author):
    name = author({"evidence/claims": one_more("CLAIMS", "says='More.'")})
    assert room(name).left_out() == ["no line of inventory.tsv points to claim:mistaken"]


def test_the_rooms_own_line_is_named(author, reproduce):
    """Not that of the library in which it fell."""
    name = author({"evidence/claims": one_more("CLAIMS", "measured=lambda run: run.series('lss')")})
    told = reproduce(name)[-1]
    assert "unknown observable 'lss': did you mean 'loss'?" in told and "evidence/claims.py line " in told


# ---- check -----------------------------------------------------------------------------------------------


def failed(reports: list) -> dict[str, str]:
    return {report.check: report.reason for report in reports if report.outcome == "failed"}


def test_cheap_algebra_speaks_first_of_a_sign_error(author, monkeypatch):
    wrong = "_right = velocity\n\n\ndef velocity(state, targets):\n    return State(-_right(state, targets).p)"
    name, said = author({"reduction": wrong}), []
    for what in ("integrate", "flow", "run"):
        monkeypatch.setattr(checks, what, lambda *_, **__: pytest.fail("it integrates"))
    reports = ss.check_system(name, tick=lambda share, words: said.append((share, words)))
    assert set(failed(reports)) == {"reduction commutes", "energy falls by the squared gradient"}
    waiting = {report.check for report in reports if report.reason == "waits for: reduction commutes"}
    assert {"plateaus are stationary and all but the last can be left", "train tends to flow"} < waiting
    assert [share for share, _ in said] == sorted(share for share, _ in said) and said[0][0] == 0 < said[-1][0] < 1
    assert [words for _, words in said] == [f"tiny: {report.check}" for report in reports]


@pytest.mark.parametrize(
    ("presets", "words"),
    [
        ("{'quick': {}}", "no preset whose name begins with 'tiny'"),
        ("{'quick': {}, 'tiny': {'target': (1.0,)}}", "unknown field 'target': did you mean 'targets'?"),
    ],
)
def test_check_without_a_tiny_preset_says_so(presets, words, author, call):
    code, out, told = call("check", author({"system": f"TITLE.presets = {presets}"}))
    assert (code, out) == (2, "") and words in told


PREDICT = """
from dataclasses import replace

_right = TITLETheory.predict
TITLETheory.predict = lambda self, start: replace(found := _right(self, start), {})
"""


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ("marks=found.marks[1:]", "one mark for each stage: 1 marks, 2 stages"),
        ("plateaus=found.plateaus[1:]", "one before each stage and one after the last: 2 plateaus, 2 stages"),
    ],
)
def test_a_mark_or_plateau_too_few_is_counted(changes, words, author, call):
    name = author({"system": PREDICT.format(changes)})
    reports = ss.check_system(name)
    assert any(words in reason for reason in failed(reports).values())
    code, _, told = call("predict", name, "--preset", "tiny")
    assert code == 1 and words in told


def test_a_method_that_is_missing_is_named(author):
    name = author(VARIANTS)
    reasons = failed(ss.check_system(f"{name}/unfinished"))
    assert reasons and all("descend" in why and "loss" in why for why in reasons.values())


LISTS = """
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class ListSpec(TITLESpec):
    widths: list[int] = field(default_factory=lambda: [3, 2])
    pair: tuple[int, ...] = (1, 2)


TITLE.spec_type = ListSpec
"""


def test_a_field_may_be_a_list(author, answer):
    name = author({"system": LISTS})
    assert failed(ss.check_system(name)) == {}
    given = [ss.system(name, widths=[4, 5], pair=[6]), ss.system(name, widths=(4, 5), pair=(6,))]
    assert given[0] == given[1] and given[0].spec.widths == (4, 5)
    assert given[0].spec.digest == given[1].spec.digest
    assert answer("predict", name, "--set", "widths=[4,5]")["spec"]["widths"] == [4, 5]


def test_a_field_of_another_kind_is_refused_in_words(author, call):
    given = LISTS.replace("list[int] = field(default_factory=lambda: [3, 2])", "dict[str, int] | None = None")
    name = author({"system": given})
    code, _, told = call("flow", name, "--set", "widths={}")
    assert code == 2 and "field `widths` has type dict[str, int], which no Spec may have" in told


NOISE = """
TITLE.observables = {**TITLE.observables, "noise": TITLE.observables["p"]}
_measure = TITLE.measure
TITLE.measure = lambda self, view, frame: {**_measure(self, view, frame), "noise": (view.p + 1) - view.p - 1}
"""


def test_an_observable_may_be_rounding_noise(author):
    """A difference of equal numbers: that training tends to the flow cannot be seen in it."""
    assert failed(ss.check_system(author({"system": NOISE}))) == {}


def test_the_observable_in_which_training_does_not_tend_to_the_flow_is_named(author, monkeypatch):
    whole = checks.train

    def off(system, *arguments, **options):
        found = whole(system, *arguments, **options)
        return found.assign(p=1.01 * found["p"]) if system.spec.steps > 1000 else found

    monkeypatch.setattr(checks, "train", off)
    ((check, reason),) = failed(ss.check_system(author({"system": NOISE}))).items()
    assert check == "train tends to flow" and reason.endswith("the largest is that of p")


# ---- names, seeds, files ---------------------------------------------------------------------------------


def test_functions_take_names():
    system = ss.system("squares")
    assert ss.predict("squares").stages == ss.predict(system).stages
    assert ss.flow("squares", 1)["loss"].equals(ss.flow(system, 1)["loss"])
    assert ss.train("squares", 1)["loss"].equals(ss.train(system, 1)["loss"])
    assert ss.run("squares", "flow").stages == ss.run(system, "flow").stages
    assert ss.compare("squares").rows() == ss.compare(system).rows()
    assert [verdict.value for verdict in ss.judge("squares")] == [verdict.value for verdict in ss.judge(system)]
    assert [run.stages for run in ss.run_seeds("squares", "predict", range(2))] == [
        ss.run(system, "predict", seed).stages for seed in range(2)
    ]


@pytest.mark.parametrize("function", [ss.predict, ss.flow, ss.train, ss.compare, ss.judge])
def test_functions_say_what_they_take(function):
    with pytest.raises(BadArgument, match="did you mean 'squares'"):
        function("sqares")
    with pytest.raises(BadArgument, match="must be a system or the name of one, got 5"):
        function(5)


SCRIPT = """
print("once")
import saddlescope as ss
from saddlescope.templates.squares.system import Squares

factor = 1.0
class Mine(Squares):
    name = "mine"
    correct = staticmethod(lambda value: factor * value)

for system in "squares", Squares(), Mine():
    print([run.stages[0].time for run in ss.run_seeds(system, "flow", range(4))])
"""


def test_seeds_in_a_plain_script(tmp_path):
    """On several cores without a main guard; a class that is defined in the script is not known to other processes."""
    (tmp_path / "script.py").write_text(SCRIPT)
    first, *times = printed(sys.executable, "script.py", at=tmp_path).splitlines()
    assert first == "once" and len(times) == 3 and len(set(times)) == 1


def test_two_threads_write_one_file_at_once(tmp_path):
    path, together = tmp_path / "file.txt", threading.Barrier(2)

    def slowly(unfinished: Path, letter: str) -> None:
        unfinished.write_text(letter * 1000)
        together.wait(10)

    with ThreadPoolExecutor() as threads:
        list(threads.map(lambda letter: write_whole(path, partial(slowly, letter=letter)), "ab"))
    assert path.read_text() in {"a" * 1000, "b" * 1000}
    assert list(tmp_path.iterdir()) == [path]


def test_library_code_does_not_exit():
    """It raises errors; only the program itself and its worker processes end."""
    ends = set()
    for file in (ROOT / "src" / "saddlescope").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            raised = node.exc if isinstance(node, ast.Raise) else None
            called = node.func if isinstance(node, ast.Call) else None
            words = ast.unparse(raised or called or ast.Constant(None)).partition("(")[0]
            if words in {"SystemExit", "sys.exit", "exit", "quit", "os._exit"}:
                ends.add(file.relative_to(ROOT / "src" / "saddlescope").as_posix())
    assert ends == {"cli.py", "interrupt.py", "lab/pool.py"}


# ---- classes that are not installed ----------------------------------------------------------------------


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The address of a system in the current folder, which is not installed."""
    name = f"room{next(NUMBERS)}"
    monkeypatch.chdir(tmp_path)
    new_room(name, package=True)
    monkeypatch.chdir(tmp_path / name / "src")
    return f"{name}:{name.capitalize()}"


@pytest.mark.parametrize(
    "command",
    [
        *("list", "predict", "check", "where 1", "errata", "flow --seeds 4"),
        *("flow --preset tiny", "train --preset tiny", "compare --preset tiny"),
        *("reproduce --workers 1", "reproduce --workers 2 --out other"),
    ],
)
def test_every_command_takes_a_class_of_the_current_folder(command, here, answer):
    name, *options = command.split()
    assert answer(name, here, *options)


def test_the_program_finds_the_example_of_contributing(tmp_path):
    """Beside the file, where Python itself does not look when it starts the program."""
    (tmp_path / "yourmodule.py").write_text(example_code())
    program = Path(sys.executable).with_name("saddlescope")
    reports = json.loads(printed(program, "check", "yourmodule:Squares", "--json", at=tmp_path))
    assert "passed" in {report["outcome"] for report in reports}


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("nowhere:Mine", "No module named 'nowhere'"),
        ("saddlescope:Mine", "has no attribute 'Mine'"),
        ("json.tool:", "is not an address"),
    ],
)
def test_an_address_that_leads_nowhere_is_refused(address, words, call):
    code, _, told = call("flow", address)
    assert code == 2 and words in told


def test_a_class_that_has_the_name_of_another_system_is_not_mistaken_for_it(here, call, answer):
    package, _, title = here.partition(":")
    with Path(package, "system.py").open("a") as file:
        file.write(f'\n\n{title}.name = "squares"\n')
    assert answer("predict", here)["system"] == "squares"
    code, _, told = call("reproduce", here)
    assert code == 2 and f"{here} has the name of another system, 'squares'" in told
