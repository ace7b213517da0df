"""Hugging Face model names, looked up in the local cache only: nothing is ever downloaded."""

from __future__ import annotations

import os
import re
from pathlib import Path

from saddlescope.core.errors import BadArgument

PART = r"[A-Za-z0-9_][\w.-]*"
MODEL_ID = re.compile(rf"(?P<name>{PART}(/{PART})?)(@(?P<revision>\w[\w./-]*))?", re.ASCII)
COMMIT = re.compile(r"[\w-]+", re.ASCII)


def locate(where: str | Path) -> Path:
    """The file or folder that `where` names: a local path if it exists, else a model in the Hugging Face cache."""
    if not isinstance(where, str | Path) or not str(where).strip():
        raise BadArgument(f"a checkpoint must be a path or a hub name such as 'org/name', got {where!r}")
    try:
        path = Path(where).expanduser()
        if path.exists():
            return path
    except (OSError, RuntimeError, ValueError) as error:
        raise BadArgument(f"{str(where)!r} cannot be looked up ({error}): give the path of a file or folder") from error
    return cached(str(where))


def cached(where: str) -> Path:
    """The snapshot folder of the model `where`, "org/name" or "org/name@revision"."""
    given = MODEL_ID.fullmatch(where)
    if given is None or ".." in where or "--" in given["name"]:
        raise BadArgument(f"no file or folder {where!r}: check the path, looked for {Path.cwd() / where}")
    model = cache_folder() / f"models--{given['name'].replace('/', '--')}"
    if not model.is_dir():
        raise BadArgument(
            f"no file or folder {where!r}, and no such model in the Hugging Face cache (looked for {model}). Nothing "
            f"is downloaded here: fetch it first, 'hf download {given['name']}', or give a path"
        )
    snapshot = model / "snapshots" / commit(model, given["revision"])
    if not snapshot.is_dir() or not snapshot.resolve().is_relative_to(model.resolve()):
        held = sorted(entry.name for entry in (model / "snapshots").glob("*"))
        raise BadArgument(
            f"the Hugging Face cache holds no revision {given['revision'] or 'main'!r} of {given['name']!r} (looked in "
            f"{model}, which has {', '.join(held) or 'none'}). Nothing is downloaded here: fetch it first, or name "
            f"one that is there, '{given['name']}@REVISION'"
        )
    return snapshot


def commit(model: Path, revision: str | None) -> str:
    """The commit that `revision` stands for: a ref ("main", "refs/pr/1"), or already a commit."""
    ref = model / "refs" / (revision or "main")
    if ref.is_file():
        with ref.open(encoding="utf-8", errors="replace") as text:
            named = text.read(200).strip()
        if not COMMIT.fullmatch(named):
            raise BadArgument(f"{ref} must hold the name of a commit, got {named[:80]!r}: delete it and fetch again")
        return named
    held = [entry.name for entry in (model / "snapshots").glob("*")]
    if revision is None and len(held) == 1:
        return held[0]
    return revision if revision and COMMIT.fullmatch(revision) else "main"


def cache_folder() -> Path:
    """Where huggingface_hub keeps models, by its own order of precedence."""
    for variable, below in (("HF_HUB_CACHE", ""), ("HF_HOME", "hub"), ("XDG_CACHE_HOME", "huggingface/hub")):
        if os.environ.get(variable):
            return Path(os.environ[variable]).expanduser() / below
    return Path.home() / ".cache" / "huggingface" / "hub"


def check_link(path: Path, folder: Path) -> None:
    """Refuse a link out of a hub snapshot. In a folder of the user's own a link is the user's choice."""
    real = folder.resolve()
    for inside in (real, *real.parents):
        if inside.parent.name == "snapshots" and inside.parent.parent.name.startswith("models--"):
            blobs = inside.parent.parent / "blobs"
            target = path.resolve()
            if not (target.is_relative_to(blobs) or target.is_relative_to(inside)):
                raise BadArgument(
                    f"{path} links to {target}, outside its model in the Hugging Face cache: delete {inside} and fetch "
                    "it again"
                )
            return
