"""The command line: parse, then one call. Results on stdout, everything else on stderr."""

from __future__ import annotations

import json as jsonlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, CycloptsError, Parameter

from . import __version__, instrument
from .console import Json, check_files, open_streams, print_result as _print, say
from .core.compilation import keep_compiled
from .core.errors import BadArgument, OnlyHelped
from .core.files import CannotWrite
from .core.progress import progress
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
Seeds = Annotated[int | None, Parameter(help="Run seeds 0..N-1 instead; --json then prints a list.")]
Out = Annotated[Path | None, Parameter(help="Write the trajectory (.nc or .csv); for predict the stages (.csv).")]
Plot = Annotated[Path | None, Parameter(help="Draw the loss with the predicted plateaus (.png, .svg, .pdf).")]
SystemName = Annotated[str, Parameter(help="A name that `saddlescope list` shows, or MODULE:CLASS for your own.")]


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

INTERRUPTED, TERMINATED = 130, 143
"""Exit codes of a command that Ctrl-C or SIGTERM ended: 128 + the signal's number, as shells have it."""

app = App(
    name="saddlescope",
    version=__version__,
    suppress_keyboard_interrupt=False,
    help="How transformers learn in stages: papers that can be predicted, flowed and trained; and your own models, by "
    "the spectra of their weight changes.\n\nStart with: saddlescope reproduce, or saddlescope diff BASE TUNED",
)


@app.command(name="list")
def list_systems(system: str | None = None, /, *, coverage: bool = False, json: Json = False) -> int:
    """Systems and studies with their faces and claims; with a SYSTEM, the meaning of its fields, and its presets.

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
        Parameter(help="Folder of recorded runs (results): what it holds of a study need not be run."),
    ] = None,
    record: Annotated[
        Path | None,
        Parameter(
            help="Folder that also gets the verdicts, figures and thinned training curves, with their provenance."
        ),
    ] = None,
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

    Example: saddlescope reproduce linear_icl --full
    """
    from .lab.job import reproduce as do_the_job
    from .show import tables

    if out.is_dir():
        check_files(("--out", out / "report.html", ()))
    with progress("reproduce") as tick:
        asked = {"full": full, "out": out, "workers": workers, "recorded": recorded, "record": record}
        found = do_the_job(*targets, **asked, tick=tick, note=tick.note)
    rows = found.verdicts
    _print(rows if json else tables.verdicts(rows, found.seconds, found.page, everything=all), json)
    return _tell(found.mistakes)


@app.command
def errata(system: str | None = None, /, *, json: Json = False) -> int:
    """What the papers got wrong: how far off what is printed is, and what holds instead.

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
def predict(system: SystemName, /, *, asked: Shared = USUAL) -> int:
    """What theory says of a start: times and losses of the stages, by closed forms and stage algorithms.

    Example: saddlescope predict linear_icl --set init_scale=0.001 heads=5
    """
    return _face("predict", system, asked)


@app.command
def flow(system: SystemName, /, *, solver: str = "default", asked: Shared = USUAL) -> int:
    """The gradient flow of the exactly reduced state.

    Example: saddlescope flow linear_icl --set init_scale=0.001 --seeds 6 --plot loss.png

    Parameters
    ----------
    solver
        default, loose, tight, second (another method), explicit or implicit.
    """
    return _face("flow", system, asked, solver=solver)


@app.command
def train(system: SystemName, /, *, save: Path | None = None, asked: Shared = USUAL) -> int:
    """The network by a real optimizer; on the whole problem by exact statistics where the system has them.

    Example: saddlescope train linear_icl --set optimizer=adam learning_rate=0.001 steps=5000

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
    preset: Preset = "quick",
    plot: Plot = None,
    json: Json = False,
) -> int:
    """All faces of a system from one start, in one table and one picture."""
    from .lab.compare import compare as compare_faces
    from .show import tables

    chosen = _system(system, preset, settings)
    _check_request(seed, None, None, plot, None)
    with progress(f"compare {system}") as tick:
        result = compare_faces(chosen, seed, tick=tick)
    if plot is not None:
        _draw(plot, list(result.runs.values()))
    return _print(result.to_dict() if json else tables.comparison(result), json)


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

    Example: saddlescope stages log.jsonl --loss train.loss --plot stages.png

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

    Example: saddlescope where linear_icl "Eq. (5)"

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

    Example: saddlescope new deep_linear --package

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


def _face(face: Face, name: str, asked: Options, solver: str = "default", save: Path | None = None) -> int:
    from .lab.run import run as run_one
    from .show import tables

    system = _system(name, asked.preset, asked.settings)
    system.needs_face(face)
    in_folder = face == "train" and system.training.keeps == "folder"
    _check_request(asked.seed, asked.seeds, asked.out, asked.plot, save, face, saves_folder=in_folder)
    with progress(f"{face} {name}") as tick:
        if asked.seeds is None:
            runs = [run_one(system, face, asked.seed, solver=solver, save=save, tick=tick)]
        else:
            from .lab.ensemble import run_seeds

            runs = run_seeds(system, face, range(asked.seeds), solver=solver, tick=tick)
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


def _check_request(
    seed: int,
    seeds: int | None,
    out: Path | None,
    plot: Path | None,
    save: Path | None,
    face: str = "",
    saves_folder: bool = False,
) -> None:
    """What can be refused is refused before the run, not after it.

    saves_folder: --save is a folder, which may be there already, or may appear now: processes of one training share it.
    """
    from .lab.export import SUFFIXES as TABLES
    from .show.style import SUFFIXES as PICTURES

    if not 0 <= seed < 2**31:
        raise BadArgument(f"--seed must be zero or positive, and below {2**31}, got {seed}")
    if seeds is not None:
        if seeds < 1:
            raise BadArgument(f"--seeds must be at least 1, got {seeds}")
        if seed:
            raise BadArgument(f"--seed {seed} and --seeds {seeds} exclude each other: --seeds N runs the seeds 0..N-1")
        if save is not None:
            raise BadArgument("--save keeps one run: use it with --seed, not with --seeds")
        if out is not None and out.suffix == ".nc":
            raise BadArgument(f"cannot write {out}: .nc holds one seed; use .csv for several")
    if out is not None and out.suffix == ".nc" and face == "predict":
        raise BadArgument(f"cannot write {out}: a prediction has no trajectory; use .csv for its stages")
    folders = ["--save"] if saves_folder else []
    check_files(("--out", out, TABLES), ("--plot", plot, PICTURES), ("--save", save, ()), folders=folders)


def _draw(path: Path, runs: list[Run]) -> None:
    from .show.curves import draw_losses
    from .show.style import picture

    with picture(path) as axes:
        curves = [
            (o.face, o.trajectory["time"].values, o.trajectory["loss"].values) for o in runs if o.trajectory is not None
        ]
        prediction = next((o.prediction for o in runs if o.prediction is not None), None)
        several = len({o.seed for o in runs}) > 1
        draw_losses(axes, curves, prediction, runs[0].system.name, drops=not several)


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
    return str(error) if isinstance(error, CannotWrite) else f"{type(error).__name__}: {error}"


def run(arguments: list[str]) -> int:
    try:
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
