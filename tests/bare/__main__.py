"""The packages in bare environments: python -m tests.bare builds the wheel and the sdist, installs each extra into a
virtual environment of its own, and tries there what that extra promises (tried.py).

Without options: the instrument alone and `lab`, at the versions of constraints.txt. --all: every extra; or the names of
some environments. --lowest: at the lower bounds of pyproject.toml instead.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .tried import TRIED, Try, plant

ROOT = Path(__file__).resolve().parents[2]

PROGRAMS = Path(__file__).with_name("programs")

NOT_LOWERED = "torch"
"""Any other version than that of constraints.txt brings gigabytes of CUDA libraries with it."""


class Environment(NamedTuple):
    """extras: those that are installed.  kind: of package that it is installed from.  tried: names in TRIED."""

    name: str
    extras: str
    kind: str
    tried: tuple[str, ...]


BASE = Environment("base", "", "wheel", ("instrument", "without jax", "without torch", "without ruptures"))
LAB = Environment("lab", "lab", "sdist", ("instrument", "lab", "without torch"))
OTHERS = (
    Environment("stages", "stages", "wheel", ("instrument", "stages", "without jax", "without torch")),
    Environment("torch", "torch", "wheel", ("instrument", "torch", "without jax")),
    Environment("vision", "torch,vision", "wheel", ("instrument", "torch", "vision", "without jax")),
    Environment("hf", "hf", "wheel", ("instrument", "torch", "hf", "without jax")),
    Environment("all", "all", "wheel", ("instrument", "lab", "stages", "torch", "vision", "hf", "everything")),
)


def declared() -> dict[str, list[str]]:
    """What pyproject.toml asks for, by extra; "" is what is always installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {"": project["dependencies"], **project["optional-dependencies"]}


def asked_for(extras: str) -> Iterator[str]:
    """The requirements of the package with these extras; an extra may name others, as `all` does."""
    for extra in ["", *filter(None, extras.split(","))]:
        for requirement in declared()[extra]:
            others = re.fullmatch(r"saddlescope\[(.+)\]", requirement)
            yield from asked_for(others[1]) if others else [requirement]


def lower_bounds(extras: str) -> list[str]:
    """What an environment with these extras asks for, each at the oldest version that it allows.

    An extra may ask for a newer version than the instrument does.
    """
    oldest = dict(requirement.split(">=") for requirement in asked_for(extras))
    return [*(f"{name}=={version}" for name, version in oldest.items() if name != NOT_LOWERED), pinned(NOT_LOWERED)]


def pinned(name: str) -> str:
    """The line of constraints.txt for a library."""
    return next(line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith(f"{name}=="))


def run(*command: str | Path, at: Path) -> str:
    done = subprocess.run(command, cwd=at, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{shlex.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def build(folder: Path) -> dict[str, Path]:
    """The wheel and the sdist."""
    run(sys.executable, "-m", "hatchling", "build", "-d", folder, at=ROOT)
    return {"wheel": next(folder.glob("*.whl")), "sdist": next(folder.glob("*.tar.gz"))}


def installed(environment: Environment, packages: dict[str, Path], constraints: Path, folder: Path) -> Path:
    """The bin/ of a new virtual environment that holds the package with its extras and nothing else."""
    run(sys.executable, "-m", "venv", folder, at=ROOT)
    extras = f"[{environment.extras}]" if environment.extras else ""
    pip = (folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, "--constraint", constraints, f"{packages[environment.kind]}{extras}", at=folder)
    return folder / "bin"


def wrong(one: Try, bin: Path, folder: Path) -> str:
    """How what was tried in `folder` differs from what is expected; "" if it does not."""
    python = bin / "python"
    command = {
        "command": [bin / "saddlescope", *shlex.split(one.what)],
        "python": [python, "-c", one.what],
        "program": [python, PROGRAMS / f"{one.what}.py"],
    }[one.kind]
    here = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    kept = {"SADDLESCOPE_CACHE": str(folder.with_name("cache")), "COLUMNS": "100"}
    done = subprocess.run(command, cwd=folder, env={**here, **kept}, capture_output=True, text=True)
    said = done.stdout + done.stderr
    if done.returncode == one.code and one.words in said and "Traceback" not in said:
        return ""
    return f"{one.what}\nended with {done.returncode}, expected {one.code} and {one.words!r}:\n{said}"


def megabytes(folder: Path) -> int:
    return round(sum(file.lstat().st_size for file in folder.rglob("*")) / 1e6)


def main(*options: str) -> int:
    known = {one.name: one for one in (BASE, LAB, *OTHERS)}
    if unknown := set(options) - {"--all", "--lowest", *known}:
        sys.exit(f"unknown: {unknown.pop()}; choose from --all, --lowest, {', '.join(known)}")
    chosen = [one for name, one in known.items() if name in options or "--all" in options] or [BASE, LAB]
    failed = False
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        constraints = ROOT / "constraints.txt"
        packages = build(top / "dist")
        for environment in chosen:
            place, began = top / environment.name, time.monotonic()
            if "--lowest" in options:
                constraints = top / f"{environment.name}.txt"
                constraints.write_text("\n".join(lower_bounds(environment.extras)) + "\n")
            bin = installed(environment, packages, constraints, place / "venv")
            ready = time.monotonic()
            plant(place / "work")
            tries = [one for what in environment.tried for one in TRIED[what]]
            troubles = [trouble for one in tries if (trouble := wrong(one, bin, place / "work"))]
            words = f"{environment.name}: {len(tries) - len(troubles)} of {len(tries)} as expected; "
            words += f"{megabytes(place / 'venv')} MB, {ready - began:.0f} s to install"
            print(f"{words}, {time.monotonic() - ready:.0f} s to try", flush=True)
            for trouble in troubles:
                print(f"\n{environment.name}: {trouble}", flush=True)
            failed |= bool(troubles)
            shutil.rmtree(place)  # one with torch takes more than a gigabyte
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
