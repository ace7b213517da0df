"""Packages as pip installs them: found by their entry point, in this process and in others."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path

from saddlescope.core import registry
from saddlescope.core.files import write_whole


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Each whole: other processes may be reading."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_whole(folder / name, lambda partial, text=text: partial.write_text(text))


def install(site: Path, package: str, files: Mapping[str, str] | None = None, *, module="", kind="systems") -> None:
    """files: those of the package, unless they are there. module: its own, unless it has the package's name."""
    about = {
        "METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n",
        "entry_points.txt": f"[saddlescope.{kind}]\n{package} = {module or package}\n",
    }
    write(site, {**(files or {}), **{f"{package}-1.dist-info/{name}": text for name, text in about.items()}})
    importlib.invalidate_caches()
    registry.forget()
