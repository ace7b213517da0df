"""A watched run on disk: what it began with, and one file for each measured step.

    folder/meta.json            what was watched and how; written last, so a folder with it is a run
    folder/start.safetensors    head weights of the start, in the model's own precision
    folder/steps/0000000100.npz

A file is written under a temporary name and renamed: a step that has its name is whole, whatever was killed when.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from saddlescope.core.errors import BadArgument
from saddlescope.core.files import write_whole

if TYPE_CHECKING:
    import xarray

SCHEMA = 1
_STEP = re.compile(r"(\d{10,})\.npz")


class Record(NamedTuple):
    """One measured step; arrays as in `Measurement`."""

    step: int
    loss: float
    note: str
    singular_values: np.ndarray
    energy: np.ndarray
    entropy_rank: np.ndarray
    lora_singular_values: np.ndarray


class WatchFolder:
    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self.start, self._meta, self._steps = (
            self.folder / name for name in ("start.safetensors", "meta.json", "steps")
        )

    def holds_run(self) -> bool:
        return self._meta.is_file()

    def create(self, meta: dict[str, Any], start: dict[str, np.ndarray]) -> None:
        from safetensors.numpy import save_file

        self._steps.mkdir(parents=True, exist_ok=True)
        write_whole(self.start, lambda partial: save_file(start, partial))
        self.write_meta(meta)

    def write_meta(self, meta: dict[str, Any]) -> None:
        text = json.dumps({"schema": SCHEMA, **meta}, indent=1, allow_nan=False) + "\n"
        write_whole(self._meta, lambda partial: partial.write_text(text, encoding="utf-8"))

    def meta(self) -> dict[str, Any]:
        try:
            meta = json.loads(self._meta.read_text(encoding="utf-8"))
            schema = meta["schema"]
        except FileNotFoundError:
            raise BadArgument(f"{self.folder} holds no watched run: it has no meta.json") from None
        except (ValueError, KeyError, TypeError) as error:
            raise BadArgument(
                f"{self._meta} cannot be read ({error}): it is damaged or not from a watch; move {self.folder} away"
            ) from error
        if schema != SCHEMA:
            raise BadArgument(
                f"{self._meta} has schema {schema}, this version reads {SCHEMA}: use the one that wrote it"
            )
        return meta

    def steps(self) -> list[int]:
        """Committed steps, ascending."""
        names = (_STEP.fullmatch(path.name) for path in self._steps.glob("*.npz"))
        return sorted(int(name[1]) for name in names if name)

    def write(self, record: Record) -> None:
        self._steps.mkdir(parents=True, exist_ok=True)
        write_whole(self._file(record.step), lambda partial: np.savez(partial, **record._asdict()))

    def read(self, step: int) -> Record:
        path = self._file(step)
        try:
            with np.load(path, allow_pickle=False) as stored:
                record = Record(*(stored[name] for name in Record._fields))
            return record._replace(step=int(record.step), loss=float(record.loss), note=str(record.note))
        except Exception as error:  # a damaged archive may raise anything, from a missing key to a decoder's error
            raise BadArgument(
                f"{path} cannot be read ({type(error).__name__}: {error}): it is damaged or not from a watch; "
                f"delete it to read the run without step {step}"
            ) from error

    def drop_from(self, step: int) -> list[int]:
        """Remove every step from this one on."""
        dropped = [stored for stored in self.steps() if stored >= step]
        # The last first: were this killed half-way, what remains is still a run without holes.
        for stored in reversed(dropped):
            self._file(stored).unlink(missing_ok=True)
        return dropped

    def sweep(self) -> None:
        """Remove what a killed process left half-written."""
        for folder in (self.folder, self._steps):
            for partial in folder.glob(".*.partial.*"):
                partial.unlink(missing_ok=True)

    def clear(self) -> None:
        """Forget the run; files of others stay."""
        self._meta.unlink(missing_ok=True)
        self.sweep()
        self.drop_from(0)
        self.start.unlink(missing_ok=True)

    def set_aside(self) -> Path | None:
        """Rename the folder of an earlier run to the first free of name-1, name-2, ...; None if there is none."""
        if not self.holds_run():
            return None
        number = 1
        while (aside := self.folder.with_name(f"{self.folder.name}-{number}")).exists():
            number += 1
        return self.folder.rename(aside)

    def _file(self, step: int) -> Path:
        return self._steps / f"{step:010d}.npz"


def read_watched(folder: str | Path) -> xarray.Dataset:
    """The trajectory of a watched run, finished or not, from its folder alone."""
    from .trajectory import trajectory

    store = WatchFolder(folder)
    return trajectory(store.meta(), [store.read(step) for step in store.steps()], where=str(folder))
