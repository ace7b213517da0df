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


def files_in(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


# ---- one damage each -------------------------------------------------------------------------------------


def flip(folder, rng, _):
    path = rng.choice([path for path in files_in(folder) if path.stat().st_size])
    content = bytearray(path.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def delete(folder, rng, _):
    rng.choice(files_in(folder)).unlink()


def truncate(folder, rng, _):
    path = rng.choice([path for path in files_in(folder) if path.stat().st_size])
    path.write_bytes(path.read_bytes()[: rng.randrange(path.stat().st_size)])


def lengthen(folder, rng, _):
    path = rng.choice(files_in(folder))
    path.write_bytes(path.read_bytes() + rng.randbytes(rng.randrange(1, 9)))


def swap(folder, rng, _):
    first, second = rng.sample(files_in(folder), 2)
    one, two = first.read_bytes(), second.read_bytes()
    first.write_bytes(two)
    second.write_bytes(one)


def take_from_another_run(folder, rng, other):
    """Of the same name, and another content."""
    theirs = {path: other / path.relative_to(folder) for path in files_in(folder)}
    differ = [path for path in theirs if path.read_bytes() != theirs[path].read_bytes()]
    path = rng.choice(differ)
    path.write_bytes(theirs[path].read_bytes())


def be_another_run(folder, rng, other):
    shutil.rmtree(folder)
    shutil.copytree(other, folder)


def directory_for_a_file(folder, rng, _):
    path = rng.choice(files_in(folder))
    path.unlink()
    path.mkdir()


def remove_a_directory(folder, rng, _):
    shutil.rmtree(rng.choice([path for path in folder.rglob("*") if path.is_dir()]))


def stray(folder, rng, _):
    """A file, or an empty folder, that nobody wrote."""
    place = rng.choice([folder, *(path for path in folder.rglob("*") if path.is_dir())]) / "stray"
    place.mkdir() if rng.random() < 0.5 else place.write_text("")


def link(folder, rng, other):
    """Even one that leads to the same bytes: it may lead elsewhere tomorrow."""
    path = rng.choice(files_in(folder))
    path.unlink()
    path.symlink_to(rng.choice([other / path.relative_to(folder), folder / "nowhere", path]))


def link_the_whole(folder, rng, other):
    shutil.rmtree(folder)
    folder.symlink_to(rng.choice([other, folder, folder.parent]))


def pipe(folder, rng, _):
    """Reading one would wait for ever."""
    path = rng.choice(files_in(folder))
    path.unlink()
    os.mkfifo(path)


DAMAGES = [
    flip,
    delete,
    truncate,
    lengthen,
    swap,
    take_from_another_run,
    be_another_run,
    directory_for_a_file,
    remove_a_directory,
    stray,
    link,
    link_the_whole,
    pipe,
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
def test_damage_is_noticed_and_the_run_made_again(sound, tmp_path, damage, seed):
    store = Store(tmp_path / "runs")
    shutil.copytree(sound.root, store.root)
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


def test_checksums_that_are_a_pipe_are_not_waited_for(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    seal(tmp_path, "a")
    (tmp_path / SEAL).unlink()
    os.mkfifo(tmp_path / SEAL)
    with pytest.raises(ValueError, match="no plain file"):
        read_sealed(tmp_path, "a")


def test_what_file_managers_leave_is_no_damage(sound, tmp_path):
    store = Store(tmp_path / "runs")
    shutil.copytree(sound.root, store.root)
    (store.folder(ASKED) / ".DS_Store").write_text("")
    (store.folder(ASKED) / "trajectory.zarr" / ".ipynb_checkpoints").mkdir()
    assert store.load(ASKED)[0].to_dict() == sound.load(ASKED)[0].to_dict()


def test_a_seal_is_of_this_folder_alone(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_bytes(b"content")
    seal(tmp_path / "a", "a")
    assert read_sealed(tmp_path / "a", "a") == {"file": b"content"}
    assert json.loads((tmp_path / "a" / SEAL).read_text())["name"] == "a"
    with pytest.raises(ValueError, match="holds a"):
        read_sealed(tmp_path / "a", "b")
