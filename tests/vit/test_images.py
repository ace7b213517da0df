"""Image data: every form is read exactly, and whatever is wrong with it is told by file and row."""

from __future__ import annotations

import io
import os
import pickle
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from saddlescope.core.errors import BadArgument
from saddlescope.studies.vit.decode import FORMATS
from saddlescope.studies.vit.images import load_images, missing
from saddlescope.studies.vit.needs import lacking

from ..test_checkpoints import Bomb
from ..test_imports import loaded_by

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
Image = pytest.importorskip("PIL.Image")

IMAGE = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])


def some_pixels(count: int, height: int = 6, width: int = 6, channels: int = 3, seed: int = 0) -> np.ndarray:
    """uint8 [count, channels, height, width]"""
    return np.random.default_rng(seed).integers(0, 256, (count, channels, height, width), np.uint8)


def saved(array: Any, kind: str = "PNG") -> bytes:
    """An encoded image; PNG loses nothing."""
    file = io.BytesIO()
    (array if isinstance(array, Image.Image) else Image.fromarray(array)).save(file, kind)
    return file.getvalue()


def encoded(pixels: np.ndarray, kind: str = "PNG") -> bytes:
    return saved(pixels[0] if len(pixels) == 1 else np.ascontiguousarray(pixels.transpose(1, 2, 0)), kind)


def rows_of(images: Any) -> Any:
    rows = [image if isinstance(image, bytes) else encoded(image) for image in images]
    return pyarrow.array([{"bytes": row, "path": None} for row in rows], IMAGE)


def write_parquet(path: Path, images: Any, labels: Any, **columns) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pyarrow.table({"img": rows_of(images), "label": labels, **columns}), path)


TRAIN, TEST = some_pixels(5, 32, 32), some_pixels(2, 32, 32, seed=1)


def hub_folder(folder: Path) -> None:
    write_parquet(folder / "train-00000-of-00001.parquet", TRAIN, [0, 1, 2, 1, 0])
    write_parquet(folder / "test-00000-of-00001.parquet", TEST, [2, 0])


def image_folder(folder: Path) -> None:
    places = ["train/a/0", "train/a/1", "train/b/0", "train/b/1", "train/c/0", "test/a/0", "test/c/0"]
    for place, image in zip(places, [*TRAIN, *TEST], strict=True):
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / f"{place}.png").write_bytes(encoded(image))


MAKERS = {hub_folder: ([0, 1, 2, 1, 0], [2, 0]), image_folder: ([0, 0, 1, 1, 2], [0, 2])}
"""With the labels of each."""


def load_these(folder: Path, *images: Any, size: int | None = None) -> np.ndarray:
    write_parquet(folder / "train.parquet", images, [0] * len(images))
    write_parquet(folder / "test.parquet", images[:1], [0])
    return load_images(str(folder), size).train_pixels


def refused(where, *words: object, **options) -> str:
    with pytest.raises(BadArgument) as caught:
        load_images(str(where), **options)
    message = str(caught.value)
    message.encode()  # whatever a file holds, the message can be printed
    assert len(message) < 1500
    assert all(str(word) in message for word in words), message
    return message


# ---- what is read ----------------------------------------------------------------------------------------


def test_digits_are_scaled_and_split_once():
    from sklearn.datasets import load_digits

    known: Any = load_digits()
    order = np.random.default_rng(0).permutation(1797)
    images = load_images("digits")
    assert (images.train_pixels.shape, images.test_pixels.shape) == ((1437, 1, 8, 8), (360, 1, 8, 8))
    assert (images.classes, images.source, images.train_pixels.dtype) == (10, "digits", np.uint8)
    assert np.array_equal(np.concatenate([images.train_labels, images.test_labels]), known.target[order])
    pixels = np.concatenate([images.train_pixels, images.test_pixels])[:, 0]
    assert np.array_equal(pixels, np.rint(known.images[order] * 255 / 16))


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("inside", ["", "data"])
def test_every_form_is_read_exactly(tmp_path, make, inside):
    make(tmp_path / inside)
    images = load_images(str(tmp_path))
    assert np.array_equal(images.train_pixels, TRAIN) and np.array_equal(images.test_pixels, TEST)
    assert (images.train_labels.tolist(), images.test_labels.tolist()) == MAKERS[make]
    assert (images.train_pixels.dtype, images.train_labels.dtype) == (np.uint8, np.int64)
    assert (images.classes, images.source) == (3, str(tmp_path))


def test_shards_are_read_in_order_and_none_may_be_missing(tmp_path):
    pixels = some_pixels(300)  # more than one chunk
    for shard in range(3):
        part = slice(100 * shard, 100 * shard + 100)
        write_parquet(tmp_path / f"train-0000{shard}-of-00003.parquet", pixels[part], [shard] * 100)
    write_parquet(tmp_path / "validation.parquet", pixels[:1], [1])
    ticks = []
    images = load_images(str(tmp_path), tick=lambda share, words: ticks.append((share, words)))
    assert np.array_equal(images.train_pixels, pixels)
    assert images.train_labels.tolist() == [0] * 100 + [1] * 100 + [2] * 100
    assert ticks == sorted(ticks) and ticks[-1] == (1.0, "301 of 301 images decoded")
    write_parquet(tmp_path / "test.parquet", pixels[:2], [1, 0])
    assert len(load_images(str(tmp_path)).test_labels) == 2  # preferred to validation
    (tmp_path / "train-00001-of-00003.parquet").unlink()
    assert "holds 2 files train*.parquet, and by their names there should be 3" in missing(str(tmp_path))


def test_labels_can_be_chosen(tmp_path):
    image_folder(tmp_path / "files")
    for split in ("train", "test"):
        write_parquet(tmp_path / f"{split}.parquet", some_pixels(2), [3, 4], coarse_label=[1, 0])
    assert load_images(str(tmp_path)).train_labels.tolist() == [3, 4]
    assert load_images(str(tmp_path), labels="coarse_label").train_labels.tolist() == [1, 0]
    refused(tmp_path, "no column coarse; its columns are img, label, coarse_label", labels="coarse")
    for source in (tmp_path / "files", "digits"):
        refused(source, "`labels` is 'fine'", labels="fine")


@pytest.mark.parametrize("test", ["val", "validation"])
def test_image_folders_are_read_by_class_name(tmp_path, test):
    image_folder(tmp_path)
    (tmp_path / "test").rename(tmp_path / test)
    for other in (".DS_Store", "notes.txt", "._0.png"):
        (tmp_path / "train" / "a" / other).write_text("no image")
    (tmp_path / "train" / "bee").mkdir()  # a class without images is a class still
    images = load_images(str(tmp_path))
    assert np.array_equal(images.train_pixels, TRAIN)
    assert (images.train_labels.tolist(), images.test_labels.tolist()) == ([0, 0, 1, 1, 3], [0, 3])


def test_a_bare_name_is_looked_up(tmp_path, monkeypatch):
    hub_folder(tmp_path / "data" / "tiny")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SADDLESCOPE_DATA", raising=False)
    assert missing("tiny") == ""
    assert load_images("tiny").classes == 3
    monkeypatch.setenv("SADDLESCOPE_DATA", str(tmp_path / "elsewhere"))
    message = refused("tiny", tmp_path / "elsewhere" / "tiny", tmp_path / "tiny", "SADDLESCOPE_DATA")
    assert missing("tiny") == message
    (tmp_path / "data" / "tiny").rename(tmp_path / "tiny")
    assert missing("tiny") == ""


def test_large_pixels_are_mapped_from_a_file_that_vanishes(tmp_path, monkeypatch):
    hub_folder(tmp_path / "here")
    cache = tmp_path / "deep" / "cache"
    monkeypatch.setenv("SADDLESCOPE_CACHE", str(cache))
    monkeypatch.setattr("saddlescope.studies.vit.decode.MEMORY_MAX", TEST.nbytes)
    images = load_images(str(tmp_path / "here"))
    assert isinstance(images.train_pixels, np.memmap) and not isinstance(images.test_pixels, np.memmap)
    assert np.array_equal(images.train_pixels, TRAIN)
    assert list(cache.iterdir()) == []

    def full(*file):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    refused(tmp_path / "here", cache, "No space left", "SADDLESCOPE_CACHE", "image_size")
    monkeypatch.setenv("SADDLESCOPE_CACHE", __file__)  # no folder
    refused(tmp_path / "here", __file__, "SADDLESCOPE_CACHE")


def test_import_is_light():
    assert not {"PIL", "pyarrow", "sklearn"} & loaded_by("import saddlescope.studies.vit.images")


@pytest.mark.parametrize("library", ["PIL", "pyarrow", "sklearn"])
def test_missing_libraries_are_named(monkeypatch, library):
    assert lacking("digits") == ""
    monkeypatch.setitem(sys.modules, library, None)
    assert lacking("digits") == f"it needs {library}, which is not installed: pip install 'saddlescope[vision]'"


# ---- what becomes of an image ----------------------------------------------------------------------------


@pytest.mark.filterwarnings("error")
def test_images_are_brought_to_the_mode_of_the_first(tmp_path):
    gray, bits, colour = some_pixels(1, channels=1)[0], np.eye(6, dtype=bool), some_pixels(1)[0]
    found = load_these(tmp_path, gray, saved(bits), colour)
    assert np.array_equal(found[:2], [gray, [bits * 255]])
    luma = np.array([299, 587, 114]) @ colour.reshape(3, -1) / 1000
    assert np.abs(found[2].reshape(-1) - luma).max() <= 1  # Pillow rounds in fixed point
    rows = colour.transpose(1, 2, 0)
    palette = Image.fromarray(rows).quantize(256)
    seen = np.asarray(palette.convert("RGB")).transpose(2, 0, 1)
    palette.info["transparency"] = bytes(3)
    found = load_these(tmp_path, saved(np.dstack([rows, rows[..., :1]])), gray, saved(palette))
    assert np.array_equal(found, [colour, np.broadcast_to(gray, (3, 6, 6)), seen])


def test_the_centre_square_is_brought_to_size(tmp_path):
    wide = np.zeros((3, 8, 21), np.uint8)
    wide[:, :, 6:14] = some_pixels(1, 8, 8)[0]
    assert np.array_equal(load_these(tmp_path, wide, size=8)[0], wide[:, :, 6:14])  # cut, not blurred
    flat = np.full((3, 40, 20), 77, np.uint8)
    found = load_these(tmp_path, wide, flat, some_pixels(1, 3, 300)[0], size=5)
    assert found.shape == (3, 3, 5, 5) and (found[1] == 77).all()
    board = (np.indices((128, 128)).sum(0) % 2 * 255).astype(np.uint8)[None]
    # Every pixel counts: one that only samples would see 0 or 255.
    assert np.abs(load_these(tmp_path, board, size=4) - 127.5).max() < 1


def test_large_images_are_decoded_side_by_side_and_stay_in_order(tmp_path):
    pixels = some_pixels(300, 96, 96)
    pixels[:, :, 8:] = 0  # the rest is only there to make them large
    images = [encoded(image) for image in pixels]
    assert np.array_equal(load_these(tmp_path, *images), pixels)
    with pytest.raises(BadArgument, match=r"train\.parquet: row 270 "):
        load_these(tmp_path, *images[:270], b"no image", *images[271:])


def test_every_format_is_read(tmp_path):
    assert load_these(tmp_path, *WHOLE.values()).shape == (len(FORMATS), 3, 32, 32)


def test_sizes_must_agree_unless_one_is_asked_for(tmp_path):
    with pytest.raises(BadArgument, match=r"train.parquet: row 1: the image is 7 x 5 .* is 6 x 6: give `image_size`"):
        load_these(tmp_path, some_pixels(1)[0], some_pixels(1, 5, 7)[0])
    assert load_these(tmp_path, some_pixels(1, 5, 7)[0]).shape == (1, 3, 5, 7)


# ---- what is refused -------------------------------------------------------------------------------------

WHOLE = {kind: encoded(TRAIN[0], kind) for kind in FORMATS}
CUT = (0.1, 0.5, 0.8)
BAD_IMAGES = {
    "empty": (b"", "cannot identify"),
    "text": (b"no image at all", "cannot identify"),
    "postscript": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 6 6\n%%EndComments\nshowpage\n", "cannot identify"),
    "deep": (saved(np.ones((32, 32), np.uint16)), "more than 8 bits"),
    "deeper": (saved(np.ones((32, 32), np.int32), "TIFF"), "more than 8 bits"),
    "real": (saved(np.ones((32, 32), np.float32), "TIFF"), "more than 8 bits"),
    "bomb": (b"P6 60000 60000 255\n", "exceeds limit"),
    "large": (b"P6 10000 10000 255\n", "exceeds limit"),
    **{
        f"part of a {kind}, {share}": (whole[: int(share * len(whole))], "")
        for kind, whole in WHOLE.items()
        for share in CUT
    },
}


@pytest.mark.parametrize(("bad", "reason"), BAD_IMAGES.values(), ids=BAD_IMAGES)
def test_a_bad_image_is_named_by_row_or_by_file(tmp_path, bad, reason):
    images = some_pixels(20, 32, 32)
    for row in (0, 17):
        with pytest.raises(BadArgument, match=rf"train\.parquet: row {row}\b.*{reason}"):
            load_these(tmp_path, *images[:row], bad, *images[row + 1 :])
    image_folder(tmp_path / "files")
    (tmp_path / "files/train/a/0.png").write_bytes(bad)
    refused(tmp_path / "files", tmp_path / "files/train/a/0.png", reason)


GOOD = rows_of(TEST)
EMBEDDED = "column img holds no encoded image"
NO_IMAGES, NO_NUMBERS = (b"x", {"bytes": "x"}, {"path": "near.png"}), pyarrow.array([], pyarrow.int64())
NO_LABELS = {"string and 0 nulls": ["cat", "dog"], "double": [0.0, 1.0], "list": [[0], [1]], "bool": [True, False]}
NO_LABELS |= {"int64 and 1 nulls: labels must be integers": [0, None]}
BAD_COLUMNS = [
    ("train", {"picture": [b"x"], "label": [0]}, "no column img or image; its columns are picture, label"),
    ("train", {"y" * 10**6: [b"x"]}, "no column img or image; its columns are yyy"),
    ("test", {"img": GOOD, "kind": [0, 1]}, "no column label or labels"),
    *(("train", {"img": [odd], "label": [2]}, f"row 0: {EMBEDDED}") for odd in NO_IMAGES),
    ("test", {"img": pyarrow.array([*GOOD, None], IMAGE), "label": [0, 1, 2]}, f"row 2: {EMBEDDED}"),
    ("test", {"img": GOOD, "label": [0, -1]}, "row 1: label -1 is none of 0 to 2: number classes from 0"),
    ("test", {"img": GOOD, "label": [0, 3]}, "row 1: label 3 is none of 0 to 2"),
    ("train", {"img": GOOD, "label": [2**40, 1]}, f"row 0: label {2**40} is none of 0 to"),
    ("test", {"img": GOOD, "label": pyarrow.array([0, 2**64 - 1], pyarrow.uint64())}, "cannot be read"),
    *((split, {"img": GOOD[:0], "label": NO_NUMBERS}, "holds no images") for split in ("train", "test")),
    *(("train", {"img": GOOD, "label": labels}, f"column label holds {kind}") for kind, labels in NO_LABELS.items()),
]


@pytest.mark.parametrize(("split", "columns", "reason"), BAD_COLUMNS)
def test_columns_are_checked(tmp_path, split, columns, reason):
    hub_folder(tmp_path)
    path = tmp_path / f"{split}-00000-of-00001.parquet"
    parquet.write_table(pyarrow.table(columns), path)
    refused(tmp_path, path, reason)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("split", ["train", "test"])
def test_a_split_may_not_be_missing(tmp_path, make, split):
    make(tmp_path)
    for path in tmp_path.glob(f"{split}*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    message = refused(tmp_path, f"{tmp_path} has nothing to {split} on: looked for ")
    assert missing(str(tmp_path)) == message


def test_folders_that_hold_nothing_or_too_much(tmp_path):
    (tmp_path / "file").write_text("x")
    refused(tmp_path / "file", "is a file")
    assert "SADDLESCOPE_DATA" in missing("a\0b")
    assert "cannot be read" in missing("x" * 5000)
    image_folder(tmp_path / "one")
    for number in range(200):
        (tmp_path / f"copy-{number}").symlink_to(tmp_path / "one")
    refused(tmp_path, "several data sets (copy-0, copy-1, ")


@pytest.mark.parametrize("names", [[], ["data_batch_1", "test_batch", "batches.meta"], ["train", "test", "meta"]])
def test_pickled_batches_are_not_read(tmp_path, names):
    """Nor is an empty folder: both are told what would be."""
    folder = tmp_path / "cifar" / "inside"
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_bytes(pickle.dumps({"data": Bomb(tmp_path / "was_run")}))
    for place in (folder, folder.parent):
        message = refused(place, f"{place} holds no images", "*.parquet", "train/CLASS/", "a pickle can run code")
        assert missing(str(place)) == message
    assert not (tmp_path / "was_run").exists()


def test_image_folders_that_make_no_sense(tmp_path):
    image_folder(tmp_path)
    (tmp_path / "test" / "zoo").mkdir()
    refused(tmp_path, tmp_path / "test" / "zoo", "is a class that train/ lacks")
    (tmp_path / "train" / "zoo").mkdir()
    shutil.copy(tmp_path / "test" / "a" / "0.png", tmp_path / "test" / "zoo")
    refused(tmp_path, tmp_path / "test", "row 2: label 3 is none of 0 to 2")
    for name in ("a", "c", "zoo"):
        shutil.rmtree(tmp_path / "test" / name)
    refused(tmp_path, tmp_path / "test", "holds no images")


@pytest.mark.parametrize("make", MAKERS)
def test_a_file_that_cannot_be_opened_is_named(tmp_path, make):
    make(tmp_path)
    path = next(path for path in sorted(tmp_path.rglob("*")) if path.is_file())
    path.unlink()
    path.symlink_to(tmp_path / "nowhere")
    refused(tmp_path, f"{path} cannot be read", "No such file")


@pytest.mark.parametrize("closed", ["", "train/a"])
def test_a_folder_that_may_not_be_read_is_named(tmp_path, closed, monkeypatch):
    image_folder(tmp_path)
    known = Path.is_dir

    def is_dir(path):  # by hand: real permissions do not bind the superuser
        if path == tmp_path / closed:
            raise PermissionError(13, "Permission denied", str(path))
        return known(path)

    monkeypatch.setattr(Path, "is_dir", is_dir)
    refused(tmp_path, f"Permission denied: '{tmp_path / closed}'", "check the path and its permissions")


@pytest.mark.parametrize("make", MAKERS)
def test_files_cut_short_or_changed_are_read_or_refused(tmp_path, make):
    random = np.random.default_rng(0)
    make(tmp_path)
    expected = load_images(str(tmp_path))

    def found(contents: bytes) -> Any:
        path.write_bytes(contents)
        try:
            return load_images(str(tmp_path))
        except BadArgument as error:
            assert str(path) in str(error) or "is none of 0 to" in str(error)

    for path in [path for path in tmp_path.rglob("*") if path.is_file()]:
        whole = path.read_bytes()
        for length in {0, 1, 7, len(whole) // 3, len(whole) // 2, len(whole) * 9 // 10, len(whole) - 20}:
            # What was cut off a PNG may be its last checksum alone.
            if images := found(whole[:length]):
                assert path.suffix == ".png"
                assert all(np.array_equal(one, other) for one, other in zip(images, expected, strict=True))
        for _ in range(20):
            changed = np.frombuffer(whole, np.uint8).copy()
            # Headers and footers hold what can go wrong: half of the changes are there.
            places = random.integers(-300, random.choice([300, len(whole)]), 3) % len(whole)
            changed[places] = random.integers(0, 256, 3)
            found(changed.tobytes())
        path.write_bytes(whole)
