"""Training by a loop of the subject's own: what it is given, and what its answer must hold."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saddlescope.core.errors import BadArgument, CannotGoOn, OnlyHelped
from saddlescope.core.files import owned, write_once
from saddlescope.core.progress import Tick, silent
from saddlescope.core.subject import Subject
from saddlescope.core.trajectory import check_trained

if TYPE_CHECKING:
    import xarray


def train(
    subject: Subject,
    seed: int = 0,
    *,
    start: Any = None,
    prediction: Any = None,
    save: Path | None = None,
    tick: Tick = silent,
    **options: object,
) -> xarray.Dataset:
    """The trajectory of a whole training.

    start, prediction: not needed here: the loop draws its own start, and stages are found afterwards.  save: a folder,
    from which the same call goes on.
    """
    if options:
        raise BadArgument(f"`{next(iter(options))}` means nothing to {subject.name}: it takes `save` and `tick`")
    if lacking := subject.training.lacks():
        raise BadArgument(f"{subject.name} cannot run here: {lacking}")
    with nullcontext() if save is None else _folder_of(save, subject, seed):
        trajectory = subject.training.train(seed, save, tick)
    if trajectory is None:
        raise OnlyHelped
    check_trained(trajectory)
    return trajectory


@contextmanager
def _folder_of(folder: Path, subject: Subject, seed: int) -> Iterator[None]:
    """The folder belongs to this training, and no other writes to it meanwhile."""
    folder.absolute().parent.mkdir(parents=True, exist_ok=True)
    # Processes that torchrun has started share the folder: the first of them answers for all.
    first = os.environ.get("RANK", "0") == "0"
    with owned(folder) if first else nullcontext():
        take_folder(folder, subject, seed)
        yield


def take_folder(folder: Path, subject: Subject, seed: int) -> None:
    """Make it this run's own, or make sure that it is."""
    note = folder / "run.json"
    about = json.dumps({"system": subject.name, "seed": seed, "spec": subject.spec.to_dict()})
    if os.path.lexists(folder) and not folder.is_dir():
        raise CannotGoOn(f"cannot keep {subject.name} in {folder}: it is a file, and a study needs a folder")
    # A kill while the note was written leaves a hidden file.
    strangers = folder.exists() and any(not path.name.startswith(".") for path in folder.iterdir())
    if strangers and not note.is_file():
        raise CannotGoOn(f"cannot go on from {folder}: it holds no run; name another folder, or an empty one")
    folder.mkdir(parents=True, exist_ok=True)
    # Under torchrun only the first process holds the lock, so another run may write its note at the same moment: the
    # first note stays.
    if not write_once(note, about) and note.read_bytes() != about.encode():
        raise CannotGoOn(f"cannot go on from {folder}: it holds another run, see {note}; name another folder")
