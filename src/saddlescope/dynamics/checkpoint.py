"""A training run on disk: arrays only, written whole or not at all, read without executing anything."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from saddlescope.core.errors import CannotGoOn
from saddlescope.core.files import may_be_sound, write_whole


def store(path: Path, identity: str, carry: Any, rows: dict, crossed: set[int]) -> None:
    arrays = {f"carry{number}": np.asarray(leaf) for number, leaf in enumerate(jax.tree.leaves(carry))}
    steps = sorted(rows)
    for name in rows[steps[0]][1]:
        arrays[f"row_{name}"] = np.stack([rows[step][1][name] for step in steps])
    arrays["steps"] = np.array(steps)
    arrays["elapsed"] = np.array([rows[step][0] for step in steps])
    arrays["about"] = np.array(json.dumps({"identity": identity, "crossed": sorted(crossed)}))
    write_whole(path, lambda partial: _savez(partial, arrays))


def _savez(path: Path, arrays: dict[str, np.ndarray]) -> None:
    # A file handle keeps np.savez from appending its own suffix; fsync, so that the rename never outruns the data.
    with path.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
        file.flush()
        os.fsync(file.fileno())


def load(path: Path, identity: str, like: Any) -> tuple[Any, dict, set[int]]:
    """Carry, rows and passages of a stored run; `like` gives the carry's structure."""
    if not path.is_file():  # reading a pipe would wait for ever
        raise CannotGoOn(f"cannot go on from {path}: it is no file; remove it to start anew, or name another one")
    try:
        with np.load(path, allow_pickle=False) as file:
            # NumPy reads no further than an array's header says: one made shorter would not be checked to its end.
            if (damaged := file.zip.testzip()) is not None:
                raise ValueError(f"{damaged} is not as it was written")
            arrays = {name: file[name] for name in file.files}
        about = json.loads(str(arrays["about"]))
        leaves, structure = jax.tree.flatten(like)
        stored = [jnp.asarray(arrays[f"carry{number}"]) for number in range(len(leaves))]
        steps, elapsed = arrays["steps"], arrays["elapsed"]
        names = [name for name in arrays if name.startswith("row_")]
        identity_found, crossed = str(about["identity"]), {int(number) for number in about["crossed"]}
    except Exception as error:  # a damaged file may raise anything
        if may_be_sound(error):
            raise
        raise CannotGoOn(f"cannot go on from {path}: it is no saved run ({error}); remove it to start anew") from error
    if identity_found != identity:
        raise CannotGoOn(f"cannot go on from {path}: it holds {identity_found}, not {identity}; name another file")
    for old, new in zip(stored, leaves, strict=True):
        if old.shape != new.shape:
            raise CannotGoOn(f"cannot go on from {path}: a weight has shape {old.shape}, expected {new.shape}")
    rows = {
        int(step): (float(elapsed[number]), {name[4:]: arrays[name][number] for name in names})
        for number, step in enumerate(steps)
    }
    return jax.tree.unflatten(structure, stored), rows, crossed
