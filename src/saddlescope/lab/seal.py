"""A folder that is read back as it was written, or not at all: checksums of all its files in one more file."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

SEAL = "checksums.json"


def seal(folder: Path, name: str) -> None:
    """Write the checksums of all files, and see to it that everything is on the disk.

    name: what the folder is, so that the content of another one is not taken for its own.
    """
    files = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    sums = {place: checksum(path.read_bytes()) for place, path in files.items()}
    (folder / SEAL).write_text(json.dumps({"name": name, "files": sums}, indent=1) + "\n")
    for path in (*files.values(), folder / SEAL):
        sync(path)
    for path in (*(path for path in folder.rglob("*") if path.is_dir()), folder):
        sync(path)


def read_sealed(folder: Path, name: str) -> dict[str, bytes]:
    """The content of every file by its place in the folder; ValueError or OSError where anything is not as it was.

    What is returned is what was checked: nothing is read a second time.
    """
    paths = _walk(folder)  # before anything is opened: reading a pipe would wait for ever
    about = json.loads((folder / SEAL).read_text())
    if about["name"] != name:
        raise ValueError(f"it holds {about['name']}")
    found: dict[str, bytes] = {}
    for path in paths:
        place = path.relative_to(folder).as_posix()
        if place != SEAL:
            content = path.read_bytes()
            if place not in about["files"]:
                raise ValueError(f"{place} does not belong to it")
            if about["files"][place] != checksum(content):
                raise ValueError(f"{place} is not as it was written")
            found[place] = content
    if missing := sorted(set(about["files"]) - set(found)):
        raise ValueError(f"{missing[0]} is missing")
    return found


def sync(path: Path) -> None:
    """Wait until a file, or what a folder lists, has reached the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _walk(folder: Path) -> list[Path]:
    """All files below a folder. Links and empty folders are never written, so one that is there is damage; nor is
    anything hidden, which file managers and notebooks leave behind, and which is not read.
    """
    if folder.is_symlink():
        raise ValueError("it is a link")
    found = []
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda one: one.name):
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                inside = _walk(Path(entry.path))
                if not inside:
                    raise ValueError(f"{entry.path} is empty")
                found += inside
            elif entry.is_file(follow_symlinks=False):
                found.append(Path(entry.path))
            else:
                raise ValueError(f"{entry.path} is no plain file")
    return found


def checksum(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
