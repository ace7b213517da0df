"""Stored runs that something has happened to: no changed number is ever used, and the run is made again."""

from __future__ import annotations

import json
import os
import random
import shutil
import stat

import pytest

import saddlescope as ss
from saddlescope.lab.request import Request
from saddlescope.lab.run import run
from saddlescope.lab.seal import SEAL, read_sealed, seal
from saddlescope.lab.store import Damaged, Store

TINY = ss.system("squares", "tiny")
ASKED = Request(TINY, "flow", (0,))
OTHER = Request(TINY, "flow", (1,))


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """Two runs, as they were written."""
    store = Store(tmp_path_factory.mktemp("sound") / "runs")
    for asked in (ASKED, OTHER):
        store.save(asked, [run(TINY, "flow", asked.seeds[0])])
    return store


@pytest.fixture
def store(sound, tmp_path):
    """A copy of them, to be damaged."""
    shutil.copytree(sound.root, tmp_path / "runs")
    return Store(tmp_path / "runs")


def files_in(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def some_file(folder, rng, *, filled=False):
    return rng.choice([path for path in files_in(folder) if path.stat().st_size or not filled])


def flipped(content: bytes, place: int, bit: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]


# ---- one damage each -------------------------------------------------------------------------------------


def flip(folder, rng, _):
    path = some_file(folder, rng, filled=True)
    path.write_bytes(flipped(path.read_bytes(), rng.randrange(path.stat().st_size), rng.randrange(8)))


def delete(folder, rng, _):
    some_file(folder, rng).unlink()


def truncate(folder, rng, _):
    path = some_file(folder, rng, filled=True)
    path.write_bytes(path.read_bytes()[: rng.randrange(path.stat().st_size)])


def lengthen(folder, rng, _):
    path = some_file(folder, rng)
    path.write_bytes(path.read_bytes() + rng.randbytes(rng.randrange(1, 9)))


def swap(folder, rng, _):
    first, second = rng.sample(files_in(folder), 2)
    one, two = first.read_bytes(), second.read_bytes()
    first.write_bytes(two)
    second.write_bytes(one)


def take_from_another_run(folder, rng, other):
    """Of the same name, and another content."""
    theirs = {path: (other / path.relative_to(folder)).read_bytes() for path in files_in(folder)}
    path = rng.choice([path for path in theirs if path.read_bytes() != theirs[path]])
    path.write_bytes(theirs[path])


def be_another_run(folder, rng, other):
    shutil.rmtree(folder)
    shutil.copytree(other, folder)


def directory_for_a_file(folder, rng, _):
    path = some_file(folder, rng)
    path.unlink()
    path.mkdir()


def remove_a_directory(folder, rng, _):
    shutil.rmtree(rng.choice([path for path in folder.rglob("*") if path.is_dir()]))


def stray(folder, rng, _):
    """A file, or an empty folder, that nobody wrote."""
    place = rng.choice([folder, *(path for path in folder.rglob("*") if path.is_dir())]) / "stray"
    place.mkdir() if rng.random() < 0.5 else place.write_text("")


def link(folder, rng, _):
    """Even one that leads to the same bytes: it may lead elsewhere tomorrow."""
    path = some_file(folder, rng)
    path.symlink_to(path.rename(folder.with_name(f".{folder.name}-elsewhere")))


def link_to_nowhere(folder, rng, _):
    path = some_file(folder, rng)
    path.unlink()
    path.symlink_to(rng.choice([folder / "nowhere", path]))


def link_the_whole(folder, _, other):
    shutil.rmtree(folder)
    folder.symlink_to(other)


def loop(folder, *_):
    shutil.rmtree(folder)
    folder.symlink_to(folder)


def file_for_the_whole(folder, *_):
    shutil.rmtree(folder)
    folder.write_text("")


def nest(folder, *_):
    """Deeper than Python reads."""
    (folder / SEAL).write_text("[" * 100_000)


def pipe(folder, rng, _):
    """Reading one would wait for ever."""
    path = some_file(folder, rng)
    path.unlink()
    os.mkfifo(path)


DAMAGES = [
    *(flip, delete, truncate, lengthen, swap, take_from_another_run, link, link_to_nowhere, pipe),
    *(be_another_run, directory_for_a_file, remove_a_directory, stray, link_the_whole, loop, file_for_the_whole, nest),
]


def snapshot(folder):
    """Everything that can be seen of a folder, so that a damage that changes nothing is known as such."""
    found = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        mode = path.lstat().st_mode
        kind = stat.S_IFMT(mode)
        found[path.relative_to(folder).as_posix()] = (kind, path.read_bytes() if stat.S_ISREG(mode) else None)
    return found


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damage_is_noticed_and_the_run_made_again(sound, store, damage, seed):
    folder, other = store.folder(ASKED), store.folder(OTHER)
    before, expected = snapshot(folder), sound.load(ASKED)[0].to_dict()
    damage(folder, random.Random(f"{damage.__name__} {seed}"), other)
    if not folder.is_symlink() and snapshot(folder) == before:
        assert store.load(ASKED)[0].to_dict() == expected
        return
    with pytest.raises(Damaged, match="damaged"):
        store.load(ASKED)
    assert ASKED not in store
    store.save(ASKED, sound.load(ASKED))
    assert store.load(ASKED)[0].to_dict() == expected
    assert store.load(OTHER)[0].to_dict() == sound.load(OTHER)[0].to_dict()


def test_what_file_managers_leave_is_no_damage(sound, store):
    (store.folder(ASKED) / ".DS_Store").write_text("")
    (store.folder(ASKED) / "trajectory.zarr" / ".ipynb_checkpoints").mkdir()
    assert store.load(ASKED)[0].to_dict() == sound.load(ASKED)[0].to_dict()


def test_a_seal_is_of_this_folder_alone_and_no_pipe(tmp_path):
    """Reading a pipe would wait for ever."""
    (tmp_path / "file").write_bytes(b"content")
    seal(tmp_path, "a")
    assert read_sealed(tmp_path, "a") == {"file": b"content"}
    assert json.loads((tmp_path / SEAL).read_text())["name"] == "a"
    with pytest.raises(ValueError, match="holds a"):
        read_sealed(tmp_path, "b")
    (tmp_path / SEAL).unlink()
    os.mkfifo(tmp_path / SEAL)
    with pytest.raises(ValueError, match="no plain file"):
        read_sealed(tmp_path, "a")
