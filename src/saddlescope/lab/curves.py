"""Reads a loss or rank curve that somebody else recorded."""

from __future__ import annotations

import csv
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from saddlescope.core.errors import BadArgument, unknown

TIMES = (
    *("time", "step", "_step", "global_step", "train_global_step", "trainer_global_step"),
    *("iteration", "iter", "epoch"),
)
LOSSES = ("loss", "train_loss", "training_loss", "eval_loss", "val_loss")
RANKS = ("rank", "stable_rank", "effective_rank")
ENOUGH = 8
"""Points without which no stage can be found: a column with fewer is not chosen where there is another."""

FORMATS = (
    "a .csv or .tsv with a header, .jsonl, .json (a list of records, or trainer_state.json), a trajectory (.nc), "
    "or TensorBoard's events.out.tfevents.*"
)


class Curve(NamedTuple):
    """notes: what the reader had to decide, in words."""

    time: np.ndarray
    loss: np.ndarray
    time_name: str
    loss_name: str
    notes: tuple[str, ...] = ()


class LogRows(NamedTuple):
    """rows: where each stands, and its columns.  log: written by a run that may have been resumed."""

    names: list[str]
    rows: list[tuple[str, dict[str, Any]]]
    log: bool


def read_curve(path: Path, time: str | None = None, loss: str | None = None) -> Curve:
    """The columns `time` and `loss` of a file, guessed where they are None."""
    if not path.exists():
        raise BadArgument(f"there is no file {path}")
    if path.is_dir() or "tfevents" in path.name:
        return _from_tensorboard(path, time, loss)
    suffix = path.suffix.lower()
    if suffix == ".nc":
        return _from_netcdf(path, time or "time", loss or "loss")
    readers: dict[str, Callable[[Path], LogRows]] = {
        ".csv": lambda path: _separated(path, ","),
        ".tsv": lambda path: _separated(path, "\t"),
        ".jsonl": _json_lines,
        ".ndjson": _json_lines,
        ".json": _json_records,
    }
    if suffix not in readers:
        raise BadArgument(f"cannot read {path}: give {FORMATS}")
    return _from_records(path, readers[suffix](path), time, loss)


# ---- formats ---------------------------------------------------------------------------------------------


def _separated(path: Path, delimiter: str) -> LogRows:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, delimiter=delimiter)
            lines = [(reader.line_num, row) for row in reader if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadArgument(f"cannot read {path}: it is no {path.suffix[1:]} ({error})") from error
    if len(lines) < 2 or len(lines[0][1]) < 2:
        raise BadArgument(f"cannot read {path}: it needs a header and two columns, time and loss")
    header = [name.strip() for name in lines[0][1]]
    rows = []
    for line, row in lines[1:]:
        cells = [*row, *[None] * (len(header) - len(row))]  # a row that ends early is an error, an empty cell is not
        # Backwards: of columns with the same name the first counts.
        rows.append((f"line {line}", dict(zip(reversed(header), reversed(cells[: len(header)]), strict=True))))
    return LogRows(list(dict.fromkeys(header)), rows, log=False)


def _json_lines(path: Path) -> LogRows:
    rows = []
    with path.open("rb") as file:
        for line, content in enumerate(file, start=1):
            if not content.strip():
                continue
            try:
                rows.append((f"line {line}", _flat(json.loads(content.decode("utf-8-sig")))))
            except (ValueError, TypeError, RecursionError) as error:
                if rows and content.startswith(b"{") and not content.endswith(b"\n"):
                    break  # half a line at the end: the run is still writing, or was killed
                raise BadArgument(f"{path}, line {line}: expected a JSON object, got {_brief(content[:80])}") from error
    return _records_of_a_log(path, rows)


def _json_records(path: Path) -> LogRows:
    try:
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise BadArgument(
            f"cannot read {path}: it is no JSON ({error}); if it holds one object a line, name it .jsonl"
        ) from error
    if isinstance(found, dict):
        found = found.get("log_history")
    if not isinstance(found, list):
        raise BadArgument(f"cannot read {path}: expected a list of records, or an object with the list `log_history`")
    rows = []
    for number, record in enumerate(found, start=1):
        try:
            rows.append((f"record {number}", _flat(record)))
        except (TypeError, RecursionError) as error:
            raise BadArgument(f"{path}, record {number}: expected a JSON object, got {_brief(record)}") from error
    return _records_of_a_log(path, rows)


def _records_of_a_log(path: Path, rows: list[tuple[str, dict[str, Any]]]) -> LogRows:
    if not rows:
        raise BadArgument(f"cannot read {path}: it holds no records")
    return LogRows(list(dict.fromkeys(name for _, record in rows for name in record)), rows, log=True)


def _flat(record: Any, prefix: str = "") -> dict[str, Any]:
    """Nested keys joined by dots; null is nothing."""
    if not isinstance(record, dict):
        raise TypeError
    flat = {}
    for key, value in record.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        elif value is not None:
            flat[f"{prefix}{key}"] = value
    return flat


def _from_netcdf(path: Path, time: str, loss: str) -> Curve:
    import xarray

    try:
        data = xarray.load_dataset(path, engine="scipy", decode_times=False)  # seconds are numbers too
    except (OSError, ValueError, TypeError, IndexError, AssertionError) as error:
        raise BadArgument(f"cannot read {path}: it is no trajectory written by --out") from error
    for name in (time, loss):
        if name not in data.variables:
            raise unknown("variable", name, [str(known) for known in data.variables])
    if data[loss].ndim != 1:
        raise BadArgument(f"`{loss}` in {path} has the dimensions {data[loss].dims}: name one that has only time")
    return Curve(data[time].values, data[loss].values, time, loss)


def _from_tensorboard(path: Path, time: str | None, loss: str | None) -> Curve:
    from .tensorboard import event_files, read_scalars

    if time not in (None, "step"):
        raise unknown("time of an event file", time, ["step"])
    scalars: dict[str, list[tuple[int, float]]] = {}
    for file in event_files(path):
        for tag, points in read_scalars(file).items():
            scalars.setdefault(tag, []).extend(points)
    if not scalars:
        raise BadArgument(f"cannot read {path}: it holds no scalars")
    if loss is not None and loss not in scalars:
        raise unknown("tag", loss, scalars)
    tag = loss or _only_loss(path, scalars)
    points, notes = _without_superseded(scalars[tag])
    if loss is None:
        notes.insert(0, f"read {tag!r}; another tag is chosen with --loss")
    return Curve(points[:, 0], points[:, 1], "step", tag, tuple(notes))


def _only_loss(path: Path, scalars: dict[str, list[tuple[int, float]]]) -> str:
    """Tags are many and named freely: where two could be meant, neither is taken."""
    long = [tag for tag, points in scalars.items() if len(points) >= ENOUGH] or list(scalars)
    alike = [tag for tag in long if _names_a_loss(tag)] or long
    if len(alike) > 1:
        more = f" and {len(alike) - 20} more" if len(alike) > 20 else ""
        raise BadArgument(f"{path}: choose a tag with --loss: {', '.join(alike[:20])}{more}")
    return alike[0]


# ---- columns ---------------------------------------------------------------------------------------------


def _from_records(path: Path, records: LogRows, time: str | None, loss: str | None) -> Curve:
    for name in (time, loss):
        if name is not None and name not in records.names:
            raise unknown("column", name, records.names)
    chosen_time, chosen_loss, notes = _chosen(path, records, time, loss)
    pairs = []
    for where, record in records.rows:
        cells = [record.get(name, "") for name in (chosen_time, chosen_loss)]
        if "" in cells:
            continue
        values = [_number(cell) for cell in cells]
        if None in values:
            raise BadArgument(
                f"{path}, {where}: expected numbers in {chosen_time!r} and {chosen_loss!r}, got {_brief(cells)}"
            )
        pairs.append(values)
    if not pairs:
        raise BadArgument(f"{path}: no row has both {chosen_time!r} and {chosen_loss!r}; name others: --time, --loss")
    if records.log:
        table, more = _without_superseded(pairs)
        notes += more
    else:
        table = np.array(pairs)
        if np.any(np.diff(table[:, 0]) <= 0):
            raise BadArgument(
                f"{path}: column {chosen_time!r} must increase strictly; "
                "name another with --time, or keep one run per file"
            )
    return Curve(table[:, 0], table[:, 1], chosen_time, chosen_loss, tuple(notes))


def _chosen(path: Path, records: LogRows, time: str | None, loss: str | None) -> tuple[str, str, list[str]]:
    """The first pair of names, by their order of preference, that enough rows hold together; and what was guessed."""
    times = [time] if time else _preferred(TIMES, records.names)
    losses = [loss] if loss else _loss_names(records.names)
    if not times or not losses:
        numeric = [name for name in records.names if any(_together(records, name))]
        times = times or [name for name in numeric if name not in losses][:1]
        losses = losses or [name for name in numeric if name not in times]
    pairs = [(a, b) for b in losses for a in times if a != b]
    if not pairs:
        raise BadArgument(f"cannot read {path}: it needs two columns of numbers, time and loss")
    first = next((pair for pair in pairs if sum(itertools.islice(_together(records, *pair), ENOUGH)) == ENOUGH), None)
    a, b = first or max(pairs, key=lambda pair: sum(_together(records, *pair)))
    plain = (time or a in ("time", "step")) and (loss or b == "loss")
    if plain and len(times) == len(losses) == 1:
        return a, b, []
    rivals = [name for name in (*times, *losses) if name not in (a, b)][:6]
    others = f" (not {', '.join(map(repr, rivals))})" if rivals else ""
    return a, b, [f"read {b!r} over {a!r}{others}; other columns are chosen with --loss and --time"]


def _together(records: LogRows, *names: str) -> Iterator[bool]:
    """One True for each row that has a number in every one of these columns."""
    for _, record in records.rows:
        if all(_number(record.get(name)) is not None for name in names):
            yield True


def _loss_names(names: Iterable[str]) -> list[str]:
    names = list(names)
    alike = [name for name in names if _names_a_loss(name)]
    return list(dict.fromkeys([*_preferred(LOSSES, names), *alike, *_preferred(RANKS, names)]))


def _names_a_loss(name: str) -> bool:
    words = _words(name).split("_")
    return "loss" in words and "scale" not in words  # the loss scale of half-precision training is none


def _preferred(wanted: Sequence[str], names: Iterable[str]) -> list[str]:
    spelled = [(name, _words(name)) for name in names]
    return [name for want in wanted for name, words in spelled if words == want]


def _words(name: str) -> str:
    """train/loss, train.loss and Train Loss are one name."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower())


def _number(cell: Any) -> float | None:
    if isinstance(cell, bool) or not isinstance(cell, (int, float, str)):
        return None
    try:
        return float(cell)
    except (ValueError, OverflowError):
        return None


def _without_superseded(points: Iterable[Sequence[float]]) -> tuple[np.ndarray, list[str]]:
    """(points, 2): a log that goes back in time was resumed there, and what it had written beyond is replaced."""
    kept: list[Sequence[float]] = []
    dropped = 0
    for point in points:
        while kept and kept[-1][0] >= point[0]:
            kept.pop()
            dropped += 1
        kept.append(point)
    words = f"{dropped} records were left out: later ones repeat their time or go back behind it (a resumed run)"
    return np.array(kept, float), [words] if dropped else []


def _brief(value: Any) -> str:
    words = repr(value)
    return words if len(words) <= 80 else f"{words[:77]}..."
