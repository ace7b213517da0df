"""The suite without a room: python -m tests.without ROOM copies the project, deletes the room's two folders, and runs
the tests there. What is left must be green: nothing but a paper's own folders knows the paper."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KINDS = ("systems", "studies")


def copy_without(room: str, place: Path) -> None:
    """The files that git knows or would add, without the room's; runs and compiled code that are kept are shared."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    gone = [*(f"src/saddlescope/{kind}/{room}/" for kind in KINDS), f"tests/{room}/"]
    if not any((ROOT / folder).is_dir() for folder in gone):
        sys.exit(f"no room is called {room}")
    for name in listed.stdout.splitlines():
        if not name.startswith(tuple(gone)) and (ROOT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, place / name)
    (ROOT / ".cache").mkdir(exist_ok=True)
    (place / ".cache").symlink_to(ROOT / ".cache")


def main(room: str, *options: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "project"
        copy_without(room, place)
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
        return subprocess.run(command, cwd=place, env={**os.environ, "PYTHONPATH": str(place / "src")}).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
