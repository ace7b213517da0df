"""Compiled code that is kept: where, how much, and what is thrown away."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from saddlescope.core import compilation
from saddlescope.core.compilation import FOLDER, cache_folder, compilation_settings, keep_compiled


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    """As in a user's shell; what is set here is set back afterwards."""
    for name in [name for name in os.environ if name.startswith(("JAX_COMPILATION_CACHE", "JAX_PERSISTENT_CACHE"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(os, "environ", os.environ.copy())


def test_the_folder_is_the_users_own(monkeypatch):
    monkeypatch.delenv(FOLDER)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    assert cache_folder() == Path("/home/me/.cache/saddlescope")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache_folder() == Path("/caches/saddlescope")
    monkeypatch.setenv(FOLDER, "~/scratch")
    assert cache_folder() == Path("/home/me/scratch")
    monkeypatch.setenv(FOLDER, "")
    assert cache_folder() is None and compilation_settings() == {}


def test_a_users_own_settings_stay(monkeypatch, tmp_path):
    monkeypatch.setenv(FOLDER, str(tmp_path))
    assert str(tmp_path) in compilation_settings()["JAX_COMPILATION_CACHE_DIR"]
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "/mine")
    assert compilation_settings() == {}


@pytest.mark.parametrize(("largest", "left"), [(1000, 10), (999, 4)])
def test_the_oldest_code_makes_room(monkeypatch, tmp_path, largest, left):
    monkeypatch.setenv(FOLDER, str(tmp_path))
    folder = Path(compilation_settings()["JAX_COMPILATION_CACHE_DIR"])
    folder.mkdir()
    for age in range(10):
        file = folder / f"{age}-cache"
        file.write_bytes(bytes(100))
        os.utime(file, (2e9 - age, 2e9 - age))
    (folder / "of XLA").mkdir()
    os.utime(folder / "of XLA", (1e9, 1e9))
    monkeypatch.setattr(compilation, "LARGEST", largest)
    keep_compiled()
    assert {file.name for file in folder.iterdir()} == {"of XLA", *(f"{age}-cache" for age in range(left))}
    assert "JAX_COMPILATION_CACHE_DIR" in os.environ


def test_what_a_full_disk_left_empty_is_removed(monkeypatch, tmp_path):
    """jax never writes again what is there."""
    monkeypatch.setenv(FOLDER, str(tmp_path))
    folder = Path(compilation_settings()["JAX_COMPILATION_CACHE_DIR"])
    folder.mkdir()
    for name in ("old", "new"):
        (folder / name).touch()
    os.utime(folder / "old", (1e9, 1e9))
    keep_compiled()
    assert [file.name for file in folder.iterdir()] == ["new"]


def test_a_file_in_the_folders_place_does_no_harm(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv(FOLDER, str(tmp_path / "file"))
    keep_compiled()
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ
