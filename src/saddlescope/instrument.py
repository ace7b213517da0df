"""The commands that look at the user's own models: diff and series."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from .console import Json, check_files, print_result
from .core.errors import BadArgument
from .core.progress import progress

Mapping = Annotated[
    Path | None,
    Parameter(help="JSON file that says where attention weights are, for models of unknown names; an error shows how."),
]


def diff(
    base: Annotated[str, Parameter(help="Folder, file or cached hub name of a model; or of an adapter, alone.")],
    tuned: Annotated[
        str | None, Parameter(help="The model after training, or its adapter. Left out, BASE is an adapter.")
    ] = None,
    /,
    *,
    lora: Annotated[
        bool,
        Parameter(negative="", help="Advise the ranks of a LoRA. PEFT's rank_pattern is in --json and in --report."),
    ] = False,
    energy: Annotated[
        float, Parameter(help="Share of the energy above the floor that the advised ranks hold, module by module.")
    ] = 1.0,
    budget: Annotated[
        float | None, Parameter(help="Parameters of the LoRA, e.g. 1e6: the ranks of least squared error that fit.")
    ] = None,
    extract: Annotated[
        Path | None, Parameter(help="Folder for the LoRA adapter itself (of an adapter: a smaller one), for PEFT.")
    ] = None,
    report: Annotated[Path | None, Parameter(help="Write a page with heat maps and spectra (.html).")] = None,
    out: Annotated[Path | None, Parameter(help="Write modules and heads as a table (.csv or .parquet).")] = None,
    mapping: Mapping = None,
    heads: Annotated[bool, Parameter(help="Measure the attention heads too.")] = True,
    exact: Annotated[
        bool, Parameter(negative="", help="All singular values of every matrix, also of those wider than 1024: slow.")
    ] = False,
    exact_base: Annotated[
        bool,
        Parameter(
            negative="", help="Training started from BASE as it is stored: only TUNED was rounded, a lower floor."
        ),
    ] = False,
    full: Annotated[bool, Parameter(negative="", help="A row for every matrix, however many there are.")] = False,
    json: Json = False,
) -> int:
    """How low-rank was a fine-tune: spectra and ranks of the change of every matrix and head, through rounding.

    Folders may hold safetensors (sharded or not) or .bin files; nothing is downloaded and no code in them is run.
    `above floor` counts the directions that rounding of the stored weights cannot explain. A narrow terminal shows
    fewer columns; --json has all. For models in memory, from Python: ss.diff(before, model).

    For example:

    - `saddlescope diff base/ tuned/`: what training changed, matrix by matrix and head by head
    - `saddlescope diff base/ tuned/ --report change.html`: the same as a page, with heat maps and spectra
    - `saddlescope diff base/ tuned/ --energy 0.9`: ranks of a LoRA that holds nine tenths of each change
    - `saddlescope diff base/ tuned/ --budget 1e6 --extract adapter/`: the best LoRA of a million parameters, for PEFT
    - `saddlescope diff adapter/`: how many of its directions an adapter uses
    """
    from .checkpoints.advice import advise, check_wish
    from .checkpoints.diff import diff as compare
    from .checkpoints.extract import check_folder, extract as write_adapter
    from .checkpoints.table import SUFFIXES, check_table, write_table
    from .show import weights

    check_files(("--report", report, (".html",)), ("--out", out, SUFFIXES))
    if out is not None:
        check_table(out)
    if extract is not None:
        check_folder(extract)
    check_wish(energy, budget)
    title = f"diff {Path(base).name}"
    with progress(title) as tick:
        found = compare(
            base, tuned, mapping=_read_mapping(mapping), exact=exact, exact_base=exact_base, heads=heads, tick=tick
        )
    data: dict[str, Any] = {**found.to_dict(), "lora": None}
    if lora or budget is not None or extract is not None or energy < 1:
        advice = advise(found, energy=energy, budget=None if budget is None else int(budget))
        data["lora"] = advice.to_dict()
        if extract is not None:
            with progress(f"extract {extract.name}") as tick:
                data["lora"]["extracted"] = write_adapter(found, advice, extract, tick=tick)
    if out is not None:
        write_table(out, data)
    if report is not None:
        from .show.change import write_change_page

        with progress("report"):
            write_change_page(report, data)
    return print_result(data if json else weights.change(data, full=full, page=report), json)


def series(
    *checkpoints: Annotated[str, Parameter(help="Checkpoints of one run in any order, or the folder that holds them.")],
    steps: Annotated[
        list[int] | None,
        Parameter(help="Their training steps, where names do not tell.", consume_multiple=True, negative=""),
    ] = None,
    mapping: Mapping = None,
    plot: Annotated[
        Path | None, Parameter(help="Draw ranks and singular values over training (.png, .svg, .pdf).")
    ] = None,
    out: Annotated[Path | None, Parameter(help="Write the trajectory of all heads (.nc).")] = None,
    json: Json = False,
) -> int:
    """How the change of every head grew over a run: ranks, singular values, and when each direction was learned.

    The checkpoints are checked on the way: the same content under two steps, jumps, missing tensors, NaN.

    For example:

    - `saddlescope series run/`: all of checkpoint-100, checkpoint-200, ... in one folder, in the order of their steps
    - `saddlescope series base/ run/checkpoint-* --plot growth.png`: from the model that training began with, drawn
    - `saddlescope series early/ late/ --steps 0 5000 --out growth.nc`: where names tell no steps; for xarray
    """
    from .show import weights
    from .show.style import SUFFIXES as PICTURES
    from .watch.series import draw_series, read_series

    check_files(("--plot", plot, PICTURES), ("--out", out, (".nc",)))
    with progress("series") as tick:
        found = read_series(checkpoints, steps=steps, mapping=_read_mapping(mapping), tick=tick)
    if plot is not None:
        draw_series(found, plot)
    if out is not None:
        from .core.files import write_whole

        # The file format has no lists of words.
        attrs = {
            name: value if isinstance(value, str | int | float) else jsonlib.dumps(value)
            for name, value in found.trajectory.attrs.items()
        }
        trajectory = found.trajectory.assign_attrs(attrs)
        write_whole(out, lambda partial: trajectory.to_netcdf(partial, engine="scipy"))
    data = found.to_dict()
    return print_result(data if json else weights.series(data), json)


def _read_mapping(path: Path | None) -> dict[str, Any] | None:
    if path is None:
        return None
    try:
        mapping = jsonlib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadArgument(f"cannot read --mapping {path}: {error.strerror}") from error
    except ValueError as error:
        raise BadArgument(f"--mapping {path} is no JSON: {error}") from error
    if not isinstance(mapping, dict):
        raise BadArgument(f"--mapping {path} must hold a JSON object, got a {type(mapping).__name__}")
    return mapping
