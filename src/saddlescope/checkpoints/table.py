"""A difference as a table that other programs read: a row for each module, then one for each head and circuit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from saddlescope.core.extras import MissingLibrary, absent, missing
from saddlescope.core.files import write_csv, write_whole

SUFFIXES = (".csv", ".parquet")

COLUMNS = 16
"""Singular values that become columns of a .csv; a .parquet keeps the whole list."""


def check_table(path: Path) -> None:
    """What would fail after the measurement fails before it."""
    if path.suffix == ".parquet" and absent(["pyarrow"]):
        raise MissingLibrary(f"{missing(f'writing {path}', 'pyarrow')}, or use .csv")


def write_table(path: Path, found: Mapping[str, Any]) -> None:
    """found: what `Difference.to_dict` gives."""
    rows = [{"row": "module", **module} for module in found["modules"]]
    rows += [{"row": "head", **head} for head in found["heads"]]
    if path.suffix == ".parquet":
        import pyarrow
        import pyarrow.parquet

        columns = list(dict.fromkeys(name for row in rows for name in row))
        table = pyarrow.table({name: [row.get(name) for row in rows] for name in columns})
        write_whole(path, lambda partial: pyarrow.parquet.write_table(table, partial))
    else:
        write_whole(path, lambda partial: write_csv(partial, [_flat(row) for row in rows]))


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    flat = {name: value for name, value in row.items() if not isinstance(value, list)}
    if "shape" in row:
        flat["rows"], flat["columns"] = row["shape"]
    values = row["singular_values"][:COLUMNS]
    return flat | {f"singular_value_{number}": value for number, value in enumerate(values, start=1)}
