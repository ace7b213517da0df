"""The command line: parse, then one call. Results on stdout, everything else on stderr."""

from __future__ import annotations

import json as jsonlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, CycloptsError, Parameter

from . import __version__, instrument
from .console import Json, check_files, open_streams, print_result as _print, say
from .core.compilation import keep_compiled
from .core.errors import BadArgument, OnlyHelped
from .core.extras import MissingLibrary, needed_by
from .core.files import CannotWrite
from .core.progress import part_of, progress
from .interrupt import Terminated, hear_every_interrupt, leave_at_once

if TYPE_CHECKING:
    from .core.run import Run
    from .core.subject import Face, Subject

Settings = Annotated[
    list[str] | None,
    Parameter(
        name="--set",
        consume_multiple=True,
        negative="",
        help="Fields of the Spec as key=value, read as JSON or as a word; see `saddlescope list SYSTEM`.",
    ),
]
Preset = Annotated[str, Parameter(help="Where fields start from: tiny, quick, paper, or another of the system's.")]
Seed = Annotated[int, Parameter(help="Moves the initial weights only.")]
Seeds = Annotated[
    str | None,
    Parameter(help="Several seeds instead: N for 0..N-1, or A:B, where B is excluded. --json then prints a list."),
]
Out = Annotated[Path | None, Parameter(help="Write the trajectory (.nc or .csv); for predict the stages (.csv).")]
Plot = Annotated[Path | None, Parameter(help="Draw the loss with what theory predicts of it (.png, .svg, .pdf).")]
SystemName = Annotated[
    str,
    Parameter(
        help="A name that `saddlescope list` shows, or MODULE:CLASS for your own.",
        completer=lambda context: _names(context.incomplete),
    ),
]


@dataclass(frozen=True)
class Options:
    """What predict, flow and train have in common."""

    settings: Settings = None
    seed: Seed = 0
    seeds: Seeds = None
    preset: Preset = "quick"
    out: Out = None
    plot: Plot = None
    json: Json = False


Shared = Annotated[Options, Parameter(name="*")]
USUAL = Options()

SEEDS = 2**31
"""All seeds are below."""

INTERRUPTED, TERMINATED = 130, 143
"""Exit codes of a command that Ctrl-C or SIGTERM ended: 128 + the signal's number, as shells have it."""

app = App(
    name="saddlescope",
    version=__version__,
    suppress_keyboard_interrupt=False,
    help="How transformers learn in stages: papers that can be predicted, flowed and trained; and your own models, by "
    "the spectra of their weight changes. Without a command: five things to try.",
)


@app.default
def start() -> int:
    """Five things to try."""
    from .show import tables

    return _print(tables.things_to_try(), False)


@app.command(name="list")
def list_systems(
    system: str | None = None,
    /,
    *,
    coverage: Annotated[bool, Parameter(negative="")] = False,
    json: Json = False,
) -> int:
    """Systems and studies with their faces and claims; with a SYSTEM, the meaning of its fields, and its presets.

    For example:

    - `saddlescope list`: what there is
    - `saddlescope list linear_icl`: what --set takes for this system
    - `saddlescope list --coverage`: how much of each paper is treated

    Parameters
    ----------
    system
        name of one system or study, e.g. linear_icl.
    coverage
        how much of each paper is treated here: lines of its inventory, and what they point to.
    """
    from .core.registry import broken_packages, subject_type
    from .core.room import rooms
    from .show import tables

    if system is not None:
        return _print(tables.fields(subject_type(system)), json)
    _print(tables.coverage() if coverage else tables.systems(), json)
    for package, why in broken_packages().items():
        say("note", f"{package} could not be loaded: {why}")
    for found in rooms().values():
        for words in found.broken:
            say("note", words)
    return 0


@app.command
def reproduce(
    *targets: Annotated[str, Parameter(help="SYSTEM or SYSTEM:FIGURE, e.g. linear_icl:4; by default everything.")],
    full: Annotated[
        bool, Parameter(negative="", help="The papers' own size: longer, and every claim is judged.")
    ] = False,
    out: Annotated[Path, Parameter(help="Folder for report.html, figures and runs; runs found there are kept.")] = Path(
        "out"
    ),
    workers: Annotated[
        int | None, Parameter(help="Runs at a time; by default one for each core. A GPU is shared by all of them.")
    ] = None,
    recorded: Annotated[
        Path | None,
        Parameter(
            help="Folder of recorded runs: what it holds of a study need not be run. `results` means those that come "
            "with saddlescope, unless there is such a folder here."
        ),
    ] = None,
    record: Annotated[
        Path | None,
        Parameter(
            help="Folder that also gets the verdicts, figures and thinned training curves, with their provenance."
        ),
    ] = None,
    figures: Annotated[
        Literal["svg", "pdf", "png"],
        Parameter(help="As pdf or png, figures are drawn for a journal too: one column wide, or two."),
    ] = "svg",
    data: Annotated[
        bool, Parameter(negative="", help="Write the numbers behind every panel too, into OUT/data (.csv).")
    ] = False,
    latex: Annotated[Path | None, Parameter(help="Write all verdicts as LaTeX tables (.tex).")] = None,
    all: Annotated[
        bool, Parameter(negative="", help="Print every claim's verdict, not only those that were refuted.")
    ] = False,
    json: Json = False,
) -> int:
    """Run the papers' experiments, judge their claims, draw their figures, write report.html.

    A run that is already there is not made again, so a call that was interrupted goes on where it stopped; one that is
    not as it was written is set aside and made again. The report shows what this call was asked for; the next one
    writes its own in the same place. Prints the verdicts of each paper in numbers, and the refuted claims. A mistake in
    the code of one claim, figure or experiment costs what depends on it alone, and makes the exit code 1.

    For example:

    - `saddlescope reproduce linear_icl:4 --all`: one figure, and a verdict on every claim that it rests on
    - `saddlescope reproduce linear_icl --full`: one paper at its own size
    - `saddlescope reproduce linear_icl:4 --figures pdf --data --latex verdicts.tex`: for a paper of your own
    - `saddlescope reproduce`: everything, in six to ten minutes on two cores
    """
    from .lab.job import reproduce as do_the_job
    from .show import tables

    if out.is_dir():
        check_files(("--out", out / "report.html", ()))
    check_files(("--latex", latex, (".tex",)))
    with progress("reproduce") as tick:
        asked = {"full": full, "out": out, "workers": workers, "recorded": recorded, "record": record}
        asked |= {"figures": figures, "data": data, "latex": latex}
        found = do_the_job(*targets, **asked, tick=tick, note=tick.note)
    rows = found.verdicts
    _print(rows if json else tables.verdicts(rows, found.seconds, found.page, everything=all), json)
    return _tell(found.mistakes)


@app.command
def errata(system: str | None = None, /, *, json: Json = False) -> int:
    """What the papers got wrong: how far off what is printed is, and what holds instead.

    For example:

    - `saddlescope errata linear_icl`: of one paper
    - `saddlescope errata --json`: of all papers, for a program

    Parameters
    ----------
    system
        name of a system; by default all papers.
    """
    from .core.room import room, rooms
    from .lab.derived import off_by
    from .lab.report import erratum_row
    from .show import tables

    chosen = list(rooms().values()) if system is None else [room(system)]
    found = [(one, erratum) for one in chosen for erratum in one.errata]
    rows: list[dict[str, Any]] = []
    mistakes = [words for one in chosen for words in one.broken if words.startswith(f"{one.package}.evidence.errata")]
    with progress("errata") as tick:
        for number, (place, erratum) in enumerate(found):
            tick(number / len(found), f"{place.name}: {erratum.where}")
            off = off_by(erratum)
            if off["failed"]:
                mistakes.append(f"erratum {erratum.name} of {place.name}: {off['failed']}")
            rows.append({"system": place.name, **erratum_row(place, erratum, off)})
    if json or rows or not mistakes:
        _print(rows if json else tables.errata(rows), json)
    return _tell(mistakes)


@app.command
def cite(system: str | None = None, /, *, json: Json = False) -> int:
    """BibTeX of saddlescope, and of the paper whose system or study you used.

    For example:

    - `saddlescope cite linear_icl`: saddlescope and one paper
    - `saddlescope cite > papers.bib`: saddlescope and all papers, as a file

    Parameters
    ----------
    system
        name of a system or study; by default all papers.
    """
    from .lab.cite import cite as bibtex, entries

    return _print(entries(system) if json else bibtex(system), json)


@app.command
def predict(system: SystemName, /, *, asked: Shared = USUAL) -> int:
    """What theory says of a start: times and losses of the stages, by closed forms and stage algorithms.

    For example:

    - `saddlescope predict linear_icl --set init_scale=0.001 heads=5`: the stages of another start
    - `saddlescope predict linear_icl --plot staircase.png`: as a picture
    - `saddlescope predict linear_icl --seeds 10:20 --out stages.csv`: of ten starts, as a table
    """
    return _face("predict", system, asked)


@app.command
def flow(system: SystemName, /, *, solver: str = "default", asked: Shared = USUAL) -> int:
    """The gradient flow of the exactly reduced state.

    For example:

    - `saddlescope flow linear_icl --set init_scale=0.001 --plot loss.png`: the loss beside its prediction
    - `saddlescope flow linear_icl --seeds 100`: how stages spread over a hundred starts
    - `saddlescope flow linear_icl --out run.nc`: everything that was measured, for xarray

    Parameters
    ----------
    solver
        default, loose, tight, second (another method), explicit or implicit.
    """
    return _face("flow", system, asked, solver=solver)


@app.command
def train(system: SystemName, /, *, save: Path | None = None, asked: Shared = USUAL) -> int:
    """The network by a real optimizer; on the whole problem by exact statistics where the system has them.

    For example:

    - `saddlescope train linear_icl --plot loss.png`: gradient descent beside the predicted drops
    - `saddlescope train linear_icl --set optimizer=adam learning_rate=0.001 steps=5000`: another optimizer
    - `saddlescope train linear_icl --save run.npz`: can be stopped; the same call goes on

    Parameters
    ----------
    save
        a file (of a study: a folder) written while training goes on; the same call with it goes on where it stopped.
    """
    return _face("train", system, asked, save=save)


@app.command
def compare(
    system: SystemName,
    /,
    *,
    settings: Settings = None,
    seed: Seed = 0,
    seeds: Seeds = None,
    preset: Preset = "quick",
    out: Annotated[Path | None, Parameter(help="Write times and losses of the stages in every face (.csv).")] = None,
    plot: Plot = None,
    json: Json = False,
) -> int:
    """All faces of a system from one start, or from several, in one table and one picture.

    For example:

    - `saddlescope compare linear_icl --plot staircase.png`: theory, flow and training laid over one another
    - `saddlescope compare linear_icl --seeds 5:10 --out stages.csv`: from five starts, as a table
    """
    from .lab.compare import compare as compare_faces
    from .show import tables

    chosen = _system(system, preset, settings)
    several = _check_request(seed, seeds, out, plot, None, tables=(".csv",))
    with progress(f"compare {system}") as tick:
        results = [
            compare_faces(chosen, one, tick=part_of(tick, number, len(several), f"seed {one}" if seeds else ""))
            for number, one in enumerate(several)
        ]
    if out is not None:
        from .lab.export import write_comparisons

        write_comparisons(out, results)
    if plot is not None:
        _draw(plot, [run for result in results for run in result.runs.values()])
    if json:
        return _print([result.to_dict() for result in results] if seeds else results[0].to_dict(), True)
    return _print(tables.comparisons(results), False)


@app.command
def judge(
    system: SystemName,
    /,
    *,
    settings: Settings = None,
    seed: Seed = 0,
    preset: Preset = "quick",
    plot: Annotated[
        Path | None, Parameter(help="Draw how far each value is from its bound (.png, .svg, .pdf).")
    ] = None,
    json: Json = False,
) -> int:
    """Verdicts on the claims of a paper at your parameters: all that one gradient flow can decide, in seconds.

    `reproduce` judges the claims by the paper's own experiments; this says where they hold and where they end.

    For example:

    - `saddlescope judge linear_icl`: at the everyday preset
    - `saddlescope judge linear_icl --set init_scale=1e-4 context_length=100`: at parameters of your own
    """
    from .lab.judge import judge as judge_claims
    from .show import tables

    chosen = _system(system, preset, settings)
    _check_request(seed, None, None, plot, None)
    with progress(f"judge {system}") as tick:
        found = judge_claims(chosen, seed, tick=tick)
    if found.run.result != "finished":
        say("note", f"seed {seed}: {found.run.result}")
    if plot is not None:
        from .show.of_verdicts import size
        from .show.style import picture

        with picture(plot) as axes:
            axes.figure.set_size_inches(size(found))
            found.plot(axes)
    shown = tables.verdicts_of_one_run(found)
    return _print(shown, json)


@app.command
def stages(
    file: Path,
    /,
    *,
    time: str | None = None,
    loss: str | None = None,
    count: int | None = None,
    noisy: bool | None = None,
    rising: bool | None = None,
    plot: Annotated[Path | None, Parameter(help="Draw the curve with its stages (.png, .svg, .pdf).")] = None,
    json: Json = False,
) -> int:
    """Stages of any loss or rank curve.

    Reads .csv and .tsv with a header, .jsonl, .json (a list of records, or Hugging Face's trainer_state.json),
    trajectories (.nc), and TensorBoard's events.out.tfevents.* or the folder of a run. Of a run that was resumed the
    later records count.

    For example:

    - `saddlescope stages log.jsonl --loss train.loss --plot stages.png`: a loss by its name, with a picture
    - `saddlescope stages run.nc --count 4`: four drops, since you know that there are four

    Parameters
    ----------
    file
        the curve.
    time
        name of the time column; by default time, step, iteration, epoch or the like, else the first.
    loss
        name of the loss column, or TensorBoard's tag; by default loss, train_loss or the like, else the second. A key
        inside others is written with dots: train.loss.
    count
        number of drops, if you know it.
    noisy
        treat the curve as noisy, or as noise-free; by default it is looked at.
    rising
        look for rises, as of a rank, or for drops; by default the curve's two ends decide.
    """
    from .analysis.stages import detect_stages, looks_rising
    from .lab.curves import read_curve
    from .show import tables

    if count is not None and count < 1:
        raise BadArgument(f"--count must be at least 1, got {count}")
    _check_request(0, None, None, plot, None)
    curve = read_curve(file, time, loss)
    notes = list(curve.notes)
    if rising is None:
        rising = looks_rising(curve.loss)
        if rising:
            notes.append("the curve ends well above its start: rises were looked for; --no-rising looks for drops")
    for words in notes:
        say("note", words)
    try:
        found = detect_stages(curve.time, curve.loss, noisy=noisy, rising=rising, count=count)
    except ValueError as error:
        raise BadArgument(f"{file}: {error}") from error
    if plot is not None:
        from .show.curves import draw_stages
        from .show.style import picture

        with picture(plot) as axes:
            draw_stages(axes, curve, found, file.name or str(file))
    rows = [{"index": index, **stage._asdict()} for index, stage in enumerate(found, start=1)]
    return _print(rows if json else tables.found_stages(rows), json)


@app.command
def where(system: str, statement: str | None = None, /, *, json: Json = False) -> int:
    """File and line that implement a statement of the paper; without one, the whole table.

    For example:

    - `saddlescope where linear_icl "Eq. (5)"`: one equation
    - `saddlescope where linear_icl`: all of them

    Parameters
    ----------
    system
        name of a system.
    statement
        e.g. "Eq. (5)" or "(C3)".
    """
    from .core.registry import subject_type
    from .lab.sources import statements
    from .show import tables

    rows = statements(subject_type(system), statement)
    return _print(rows if json else tables.sources(rows), json)


@app.command
def new(
    name: str,
    /,
    *,
    package: Annotated[bool, Parameter(negative="", help="A package of your own, in the current folder.")] = False,
    json: Json = False,
) -> int:
    """Write a new room: a small example, complete from the Spec to a figure, with its tests, for you to change.

    In a checkout of saddlescope it is a folder among the systems, and one among the tests. With --package it is a
    package of its own, which `pip install --editable NAME` makes known to saddlescope. CONTRIBUTING.md explains what
    was written.

    For example:

    - `saddlescope new deep_linear`: in a checkout of saddlescope
    - `saddlescope new deep_linear --package`: a package of your own

    Parameters
    ----------
    name
        small letters, digits and _; of the folder, and of the system.
    """
    from .lab.new import new_room

    folders = new_room(name, package=package)
    steps = [f"pip install --editable {name}"] if package else []
    steps += [f"saddlescope check {name}", f"saddlescope reproduce {name}"]
    steps.append(f"pytest {name}/tests" if package else f"pytest tests/{name}")
    words = [*(f"wrote {folder}" for folder in folders), "next:", *(f"  {step}" for step in steps)]
    return _print([str(folder) for folder in folders] if json else words, json)


@app.command
def check(system: str, /, *, json: Json = False) -> int:
    """Conformance of a system: every identity that ties its faces together, checked on its tiny presets.

    For example:

    - `saddlescope check linear_icl`: one of ours
    - `saddlescope check mine:MySystem`: the class MySystem in the file mine.py

    Parameters
    ----------
    system
        a name that `saddlescope list` shows, or PACKAGE:CLASS for your own.
    """
    from .core.registry import subject_type
    from .show import tables
    from .testing.conformance import check_system

    kind = subject_type(system)
    with progress(f"check {system}") as tick:
        reports = check_system(kind, tick=tick)
    _print([report.to_dict() for report in reports] if json else tables.checks(reports), json)
    return 1 if any(report.outcome == "failed" for report in reports) else 0


app.command(instrument.diff)
app.command(instrument.series)


@app.command
def completion(
    shell: Annotated[Literal["bash", "zsh", "fish", "powershell"], Parameter(help="Which shell the script is for.")],
    /,
    *,
    install: Annotated[
        bool, Parameter(negative="", help="Put it where the shell finds it, and say so in the shell's start-up file.")
    ] = False,
) -> int:
    """The script by which a shell completes commands, options and names of systems with the Tab key.

    For example:

    - `saddlescope completion bash --install`: for good
    - `saddlescope completion zsh`: only printed
    """
    if install:
        return _print(f"wrote {app.install_completion(shell=shell, add_to_startup=True)}; open a new shell", False)
    print(app.generate_completion(shell=shell))
    return 0


# ---- plumbing --------------------------------------------------------------------------------------------


def _tell(mistakes: Sequence[str]) -> int:
    """Made by the authors of rooms: they cost what depends on them alone, and the exit code."""
    for words in mistakes:
        say("error", words)
    return 1 if mistakes else 0


def _system(name: str, preset: str, settings: list[str] | None) -> Subject:
    from .core.registry import subject

    overrides: dict[str, Any] = {}
    for setting in settings or []:
        key, equals, value = setting.partition("=")
        if not equals:
            raise BadArgument(f"--set takes key=value, got {setting!r}")
        try:
            overrides[key] = jsonlib.loads(value)
        except (ValueError, RecursionError):
            overrides[key] = value
    system = subject(name, preset, **overrides)
    for remark in system.spec.remarks():
        say("note", remark)
    return system


def _names(begun: str) -> list[str]:
    """Systems, for the shell to complete."""
    from .core.registry import subject_types

    return [name for name in subject_types() if name.startswith(begun)]


def _face(face: Face, name: str, asked: Options, solver: str = "default", save: Path | None = None) -> int:
    from .lab.run import run as run_one
    from .show import tables

    system = _system(name, asked.preset, asked.settings)
    system.needs_face(face)
    in_folder = face == "train" and system.training.keeps == "folder"
    seeds = _check_request(asked.seed, asked.seeds, asked.out, asked.plot, save, face, saves_folder=in_folder)
    with progress(f"{face} {name}") as tick:
        if asked.seeds is None:
            runs = [run_one(system, face, asked.seed, solver=solver, save=save, tick=tick)]
        else:
            from .lab.ensemble import run_seeds

            runs = run_seeds(system, face, seeds, solver=solver, tick=tick)
    for one in runs:
        if face != "predict" and one.result != "finished":
            say("note", f"seed {one.seed}: {one.result}")
        for words in one.prediction.notes if one.prediction and face == "predict" else ():
            say("note", words)
    if asked.out is not None:
        from .lab.export import write_runs

        write_runs(asked.out, runs)
    if asked.plot is not None:
        _draw(asked.plot, runs)
    if not asked.json:
        return _print(tables.runs(runs), False)
    return _print(runs[0].to_dict() if asked.seeds is None else [one.to_dict() for one in runs], True)


def _seeds(text: str) -> range:
    """N, or A:B."""
    first, colon, last = text.rpartition(":")
    try:
        found = range(int(first) if colon else 0, int(last))
    except ValueError:
        raise BadArgument(f"--seeds takes N (the seeds 0..N-1) or A:B (B excluded), got {text!r}") from None
    if found.start < 0 or found.stop > SEEDS:
        raise BadArgument(f"--seeds must lie between 0 and {SEEDS}, got {text}")
    if not found:
        raise BadArgument(f"--seeds must name at least 1 seed, got {text}" + (": B is excluded" if colon else ""))
    return found


def _check_request(
    seed: int,
    seeds: str | None,
    out: Path | None,
    plot: Path | None,
    save: Path | None,
    face: str = "",
    saves_folder: bool = False,
    tables: Sequence[str] | None = None,
) -> range:
    """What can be refused is refused before the run, not after it. Returns the seeds.

    saves_folder: --save is a folder, which may be there already, or may appear now: processes of one training share it.
    tables: what --out may end in.
    """
    from .lab.export import SUFFIXES as TABLES
    from .show.style import SUFFIXES as PICTURES

    if not 0 <= seed < SEEDS:
        raise BadArgument(f"--seed must be zero or positive, and below {SEEDS}, got {seed}")
    chosen = range(seed, seed + 1)
    if seeds is not None:
        chosen = _seeds(seeds)
        if seed:
            raise BadArgument(
                f"--seed {seed} and --seeds {seeds} exclude each other: --seeds {seed}:B begins at {seed}"
            )
        if save is not None:
            raise BadArgument("--save keeps one run: use it with --seed, not with --seeds")
        if out is not None and out.suffix == ".nc" and tables is None:
            raise BadArgument(f"cannot write {out}: .nc holds one seed; use .csv for several")
    if out is not None and out.suffix == ".nc" and face == "predict":
        raise BadArgument(f"cannot write {out}: a prediction has no trajectory; use .csv for its stages")
    folders = ["--save"] if saves_folder else []
    check_files(("--out", out, tables or TABLES), ("--plot", plot, PICTURES), ("--save", save, ()), folders=folders)
    return chosen


def _draw(path: Path, runs: list[Run]) -> None:
    from .show.curves import draw_runs
    from .show.style import picture

    with picture(path) as axes:
        draw_runs(axes, runs)


def main(arguments: list[str] | None = None) -> None:
    """Entry point. Exit 0: finished; 1: failed; 2: bad argument; 130: interrupted; 143: terminated.

    SADDLESCOPE_DEBUG=1 in the environment shows the traceback of a failure.
    """
    open_streams()
    hear_every_interrupt()
    keep_compiled()
    code = run(sys.argv[1:] if arguments is None else arguments)
    if code in (INTERRUPTED, TERMINATED):
        leave_at_once(code)
    sys.exit(code)


def _failure(error: Exception) -> str:
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):  # the latter is how XLA says it
        return f"not enough memory: {error}"
    return str(error) if isinstance(error, CannotWrite | MissingLibrary) else f"{type(error).__name__}: {error}"


def run(arguments: list[str]) -> int:
    try:
        with needed_by(arguments[0] if arguments else "saddlescope"):
            result = app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        say("error", error)
        return 2
    except BadArgument as error:
        say("error", error)
        return 2
    except OnlyHelped:
        return 0
    except KeyboardInterrupt as error:
        ended = "terminated" if isinstance(error, Terminated) else "interrupted"
        print(f"{ended}: what was finished is kept, nothing half-written was left behind", file=sys.stderr)
        return TERMINATED if isinstance(error, Terminated) else INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has had enough; the rest of stdout has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (OSError, ImportError, RuntimeError, ValueError, MemoryError) as error:
        if os.environ.get("SADDLESCOPE_DEBUG"):
            raise
        say("error", _failure(error))
        return 1
    return result if isinstance(result, int) else 0
