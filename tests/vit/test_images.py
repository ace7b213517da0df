"""Image data: every form is read exactly, and whatever is wrong with it is told by file and row."""

from __future__ import annotations

import io
import os
import pickle
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from saddlescope.core.errors import BadArgument
from saddlescope.studies.vit.images import load_images, missing
from saddlescope.studies.vit.images.decode import FORMATS
from saddlescope.studies.vit.needs import lacking

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


def rows_of(images: list) -> Any:
    return pyarrow.array([{"bytes": image, "path": None} for image in images], IMAGE)


def write_parquet(path: Path, images: Any, labels: Any, **columns) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pyarrow.table({"img": rows_of([*map(encoded, images)]), "label": labels, **columns}), path)


def batch(pixels: np.ndarray, shape=None, kind=b"u1", order: Any = "C", **labels) -> bytes:
    """The opcodes that Python 2 wrote into the original files: strings are bytes, numpy goes by its former names."""
    raw = pixels.reshape(len(pixels), -1).tobytes(order)
    made = b"U\x04dataq\x01cnumpy.core.multiarray\n_reconstruct\nq\x02cnumpy\nndarray\nK\0\x85U\x01b\x87R"
    sizes = b"".join(b"J" + struct.pack("<i", size) for size in shape or (len(pixels), 3072))
    dtype = b"cnumpy\ndtype\nU\x02" + kind + b"K\0K\x01\x87R(K\x03U\x01|NNN" + b"J\xff\xff\xff\xff" * 2 + b"K\0tb"
    state = b"(K\x01" + sizes + b"\x86" + dtype + (b"\x89" if order == "C" else b"\x88")
    lists = [
        b"U" + bytes([len(name)]) + name.encode() + b"](" + b"".join(b"K" + bytes([one]) for one in numbers) + b"e"
        for name, numbers in labels.items()
    ]
    filled = b"T" + struct.pack("<i", len(raw)) + raw + b"tbr\0\1\0\0"
    return b"\x80\x02}q\0(" + made + state + filled + b"".join(lists) + b"u."


TRAIN, TEST = some_pixels(5, 32, 32), some_pixels(2, 32, 32, seed=1)
LABELS = ([0, 1, 2, 1, 0], [2, 0])
# Each maker writes these; image folders have labels of their own: [0, 0, 1, 1, 2] and [0, 2].


def hub_folder(folder: Path) -> None:
    write_parquet(folder / "train-00000-of-00001.parquet", TRAIN, LABELS[0])
    write_parquet(folder / "test-00000-of-00001.parquet", TEST, LABELS[1])


def cifar10_folder(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for row, label in enumerate(LABELS[0]):
        (folder / f"data_batch_{row + 1}").write_bytes(batch(TRAIN[row : row + 1], labels=[label]))
    (folder / "test_batch").write_bytes(batch(TEST, order="F", labels=LABELS[1]))


def cifar100_folder(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "train").write_bytes(batch(TRAIN, coarse_labels=[0, 0, 1, 0, 0], fine_labels=LABELS[0]))
    (folder / "test").write_bytes(batch(TEST, coarse_labels=[1, 0], fine_labels=LABELS[1]))


def image_folder(folder: Path) -> None:
    places = ["train/a/0", "train/a/1", "train/b/0", "train/b/1", "train/c/0", "test/a/0", "test/c/0"]
    for place, image in zip(places, [*TRAIN, *TEST], strict=True):
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / f"{place}.png").write_bytes(encoded(image))


MAKERS = [hub_folder, cifar10_folder, cifar100_folder, image_folder]


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
    labels = ([0, 0, 1, 1, 2], [0, 2]) if make is image_folder else LABELS
    assert (images.train_labels.tolist(), images.test_labels.tolist()) == labels
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
    assert "is one of 3" in missing(str(tmp_path))


def test_labels_can_be_chosen(tmp_path):
    cifar100_folder(tmp_path / "cifar")
    image_folder(tmp_path / "files")
    for split in ("train", "test"):
        write_parquet(tmp_path / f"{split}.parquet", some_pixels(2), [3, 4], coarse_label=[1, 0])
    assert load_images(str(tmp_path)).train_labels.tolist() == [3, 4]
    assert load_images(str(tmp_path), labels="coarse_label").train_labels.tolist() == [1, 0]
    assert load_images(str(tmp_path / "cifar"), labels="coarse_labels").test_labels.tolist() == [1, 0]
    refused(tmp_path, "no column coarse; its columns are img, label, coarse_label", labels="coarse")
    refused(tmp_path / "cifar", "'coarse_label'", "did you mean 'coarse_labels'?", labels="coarse_label")
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
    monkeypatch.setattr("saddlescope.studies.vit.images.decode.MEMORY_MAX", TEST.nbytes)
    images = load_images(str(tmp_path / "here"))
    assert isinstance(images.train_pixels, np.memmap) and not isinstance(images.test_pixels, np.memmap)
    assert np.array_equal(images.train_pixels, TRAIN)
    assert list(cache.iterdir()) == []
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(100, 100, 0))  # pyright: ignore
    refused(tmp_path / "here", cache, "SADDLESCOPE_CACHE", "image_size")


def test_import_is_light():
    code = "import saddlescope.studies.vit.images, sys; print({'PIL', 'pyarrow', 'sklearn'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


# ---- what becomes of an image ----------------------------------------------------------------------------


def load_these(folder: Path, *images: bytes, size: int | None = None) -> np.ndarray:
    for split, some in (("train", images), ("test", images[:1])):
        table = pyarrow.table({"img": rows_of([*some]), "label": [0] * len(some)})
        parquet.write_table(table, folder / f"{split}.parquet")
    return load_images(str(folder), size).train_pixels


@pytest.mark.filterwarnings("error")
def test_images_are_brought_to_the_mode_of_the_first(tmp_path):
    gray, bits, colour = some_pixels(1, channels=1)[0], np.eye(6, dtype=bool), some_pixels(1)[0]
    found = load_these(tmp_path, encoded(gray), saved(bits), encoded(colour))
    assert np.array_equal(found[:2], [gray, [bits * 255]])
    luma = np.array([299, 587, 114]) @ colour.reshape(3, -1) / 1000
    assert np.abs(found[2].reshape(-1) - luma).max() <= 1  # Pillow rounds in fixed point
    rows = colour.transpose(1, 2, 0)
    palette = Image.fromarray(rows).quantize(256)
    seen = np.asarray(palette.convert("RGB")).transpose(2, 0, 1)
    palette.info["transparency"] = bytes(3)
    found = load_these(tmp_path, saved(np.dstack([rows, rows[..., :1]])), encoded(gray), saved(palette))
    assert np.array_equal(found, [colour, np.broadcast_to(gray, (3, 6, 6)), seen])


def test_the_centre_square_is_brought_to_size(tmp_path):
    wide = np.zeros((3, 8, 21), np.uint8)
    wide[:, :, 6:14] = some_pixels(1, 8, 8)[0]
    assert np.array_equal(load_these(tmp_path, encoded(wide), size=8)[0], wide[:, :, 6:14])  # cut, not blurred
    flat = np.full((3, 40, 20), 77, np.uint8)
    found = load_these(tmp_path, encoded(wide), encoded(flat), encoded(some_pixels(1, 3, 300)[0]), size=5)
    assert found.shape == (3, 3, 5, 5) and (found[1] == 77).all()
    board = (np.indices((128, 128)).sum(0) % 2 * 255).astype(np.uint8)[None]
    small = load_these(tmp_path, encoded(board), size=4)
    assert np.abs(small - 127.5).max() < 1  # every pixel counts: one that only samples would see 0 or 255


def test_large_images_are_decoded_side_by_side_and_stay_in_order(tmp_path):
    pixels = some_pixels(300, 96, 96)
    pixels[:, :, 8:] = 0  # the rest is only there to make them large
    images = [encoded(image) for image in pixels]
    assert np.array_equal(load_these(tmp_path, *images), pixels)
    with pytest.raises(BadArgument, match=r"train\.parquet: row 270 "):
        load_these(tmp_path, *images[:270], b"no image", *images[271:])


def test_sizes_must_agree_unless_one_is_asked_for(tmp_path):
    with pytest.raises(BadArgument, match=r"train.parquet: row 1: the image is 7 x 5 .* is 6 x 6: give `image_size`"):
        load_these(tmp_path, encoded(some_pixels(1)[0]), encoded(some_pixels(1, 5, 7)[0]))
    assert load_these(tmp_path, encoded(some_pixels(1, 5, 7)[0])).shape == (1, 3, 5, 7)


# ---- what is refused -------------------------------------------------------------------------------------

BAD_IMAGES = {
    "empty": (b"", "cannot identify"),
    "text": (b"no image at all", "cannot identify"),
    "postscript": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 6 6\n%%EndComments\nshowpage\n", "cannot identify"),
    "deep": (saved(np.ones((32, 32), np.uint16)), "more than 8 bits"),
    "deeper": (saved(np.ones((32, 32), np.int32), "TIFF"), "more than 8 bits"),
    "real": (saved(np.ones((32, 32), np.float32), "TIFF"), "more than 8 bits"),
    "bomb": (b"P6 60000 60000 255\n", "exceeds limit"),
    "large": (b"P6 10000 10000 255\n", "exceeds limit"),
}


@pytest.mark.parametrize("case", BAD_IMAGES)
def test_a_bad_image_is_named_by_row_or_by_file(tmp_path, case):
    bad, reason = BAD_IMAGES[case]
    for row in (0, 17):
        rows = [encoded(image) for image in some_pixels(20, 32, 32)]
        rows[row] = bad
        with pytest.raises(BadArgument, match=rf"train\.parquet: row {row}\b.*{reason}"):
            load_these(tmp_path, *rows)
    image_folder(tmp_path / "files")
    (tmp_path / "files/train/a/0.png").write_bytes(bad)
    refused(tmp_path / "files", tmp_path / "files/train/a/0.png", reason)


@pytest.mark.parametrize("kind", FORMATS)
def test_an_image_cut_short_is_refused_in_every_format(tmp_path, kind):
    whole = encoded(some_pixels(1, 32, 32)[0], kind)
    assert load_these(tmp_path, whole).shape == (1, 3, 32, 32)
    for share in (0.1, 0.5, 0.8):
        with pytest.raises(BadArgument, match=r"train\.parquet: row 0 "):
            load_these(tmp_path, whole[: int(share * len(whole))])


GOOD = rows_of([*map(encoded, TEST)])
EMBEDDED = "column img holds no encoded image"
BAD_COLUMNS = [
    ("train", {"picture": [b"x"], "label": [0]}, "no column img or image; its columns are picture, label"),
    ("train", {"y" * 10**6: [b"x"]}, "no column img or image; its columns are yyy"),
    ("test", {"img": GOOD, "kind": [0, 1]}, "no column label or labels"),
    ("train", {"img": [b"x"], "label": [2]}, f"row 0: {EMBEDDED}"),
    ("train", {"img": [{"bytes": "x"}], "label": [2]}, f"row 0: {EMBEDDED}"),
    ("test", {"img": [{"path": "near.png"}], "label": [2]}, f"row 0: {EMBEDDED}"),
    ("test", {"img": pyarrow.array([*GOOD, None], IMAGE), "label": [0, 1, 2]}, f"row 2: {EMBEDDED}"),
    ("test", {"img": GOOD, "label": [0, -1]}, "row 1: label -1 is none of 0 to 2: number classes from 0"),
    ("test", {"img": GOOD, "label": [0, 3]}, "row 1: label 3 is none of 0 to 2"),
    ("train", {"img": GOOD, "label": [2**40, 1]}, f"row 0: label {2**40} is none of 0 to"),
    ("train", {"img": GOOD, "label": [0, None]}, "column label holds int64 and 1 nulls: labels must be integers"),
    ("train", {"img": GOOD, "label": ["cat", "dog"]}, "column label holds string and 0 nulls"),
    ("train", {"img": GOOD, "label": [0.0, 1.0]}, "column label holds double"),
    ("train", {"img": GOOD, "label": [[0], [1]]}, "column label holds list"),
    ("train", {"img": GOOD, "label": [True, False]}, "column label holds bool"),
    ("test", {"img": GOOD, "label": pyarrow.array([0, 2**64 - 1], pyarrow.uint64())}, "cannot be read"),
    ("train", {"img": GOOD[:0], "label": pyarrow.array([], pyarrow.int64())}, "holds no images"),
    ("test", {"img": GOOD[:0], "label": pyarrow.array([], pyarrow.int64())}, "holds no images"),
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
    for path in tmp_path.glob("data_batch_*" if (make, split) == (cifar10_folder, "train") else f"{split}*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    message = refused(tmp_path, f"{tmp_path} has nothing to {split} on: looked for ")
    assert missing(str(tmp_path)) == message


def test_folders_that_hold_nothing_or_too_much(tmp_path):
    message = refused(tmp_path, "train*.parquet", "CIFAR", "train/")
    assert missing(str(tmp_path)) == message
    (tmp_path / "file").write_text("x")
    refused(tmp_path / "file", "is a file")
    assert "SADDLESCOPE_DATA" in missing("a\0b")
    assert "cannot be read" in missing("x" * 5000)
    hub_folder(tmp_path / "one")
    cifar10_folder(tmp_path / "two")
    refused(tmp_path, "several data sets", tmp_path / "one", tmp_path / "two")
    (tmp_path / "two" / "data_batch_3").unlink()
    refused(tmp_path / "two", "holds 4 files data_batch_[1-5], but data_batch_1 is one of 5")


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


class Hostile:
    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("key", ["data", "labels"])
def test_a_pickle_never_runs_code(tmp_path, protocol, key):
    cifar10_folder(tmp_path)
    path, trace = tmp_path / "data_batch_2", tmp_path / "was_run"
    for call in ((os.system, (f"touch {trace}",)), (eval, (f"open({str(trace)!r}, 'w')",))):
        path.write_bytes(pickle.dumps({key: Hostile(*call)}, protocol))
        refused(tmp_path, path, "cannot be read")
    assert not trace.exists()


NO_ARRAY, NO_LABELS = "`data` is no array uint8", "no list of one number for each image"
BAD_PICKLES = {
    "objects": (batch(TEST, kind=b"O8", labels=[0, 1]), NO_ARRAY),
    "other shape": (batch(TEST, (3072, 2), labels=[0, 1]), NO_ARRAY),
    "hostile shape": (batch(TEST, (2**31 - 1, 3072), labels=[0, 1]), "cannot reshape"),
    "no array": (b"\x80\x02}(U\x04data]U\x06labels](K\x00eu.", NO_ARRAY),
    "no labels": (batch(TEST, names=[0, 1]), NO_LABELS),
    "few labels": (batch(TEST, labels=[0]), NO_LABELS),
    "text": (batch(TEST, labels=[0, 97]).replace(b"K\x61e", b"U\x01ae"), NO_LABELS),
    "large label": (batch(TEST, labels=[0, 97]).replace(b"K\x61e", b"\x8a\x09" + b"\1" * 9 + b"e"), "cannot be read"),
    "negative label": (batch(TEST, labels=[0, 97]).replace(b"K\x61e", b"J\xff\xff\xff\xffe"), "row 1: label -1"),
    "saved again": (pickle.dumps({"data": TEST}, 4), "opcode MEMOIZE"),
    "no dict": (pickle.dumps([1], 2), "cannot be read"),
    "surrogate": (b"\x80\x02}X\x03\0\0\0\xed\xb2\x80K\0s.", NO_ARRAY),
    "bytes": (b"\x80\x05\x8e" + struct.pack("<Q", 2**40) + b".", "cannot be read"),
    "memo": (b"\x80\x02}r\xff\xff\xff\xff.", NO_ARRAY),
    "deep": (b"\x80\x02}K\0" + b"\x85" * 900_000 + b"Ns.", NO_ARRAY),  # the hash of this key would end the process
    "long": (b"\x80\x02" + b"]" * 1_000_000 + b".", "far longer than any"),
}


@pytest.mark.parametrize("case", BAD_PICKLES)
def test_a_bad_batch_is_named(tmp_path, case):
    contents, reason = BAD_PICKLES[case]
    cifar10_folder(tmp_path)
    path = tmp_path / "data_batch_4"
    path.write_bytes(contents)
    refused(tmp_path, path, reason)


def test_a_batch_of_any_size_is_not_read_into_memory(tmp_path):
    cifar10_folder(tmp_path)
    os.truncate(tmp_path / "data_batch_4", 2**29 + 1)  # a hole: nothing is written
    refused(tmp_path, tmp_path / "data_batch_4", "far larger than any")


def test_a_file_that_may_not_be_read_is_named(tmp_path, monkeypatch):
    def forbidden(self):  # by hand: real permissions do not bind the superuser
        raise PermissionError(13, "Permission denied", str(self))

    cifar10_folder(tmp_path)
    monkeypatch.setattr(Path, "read_bytes", forbidden)
    refused(tmp_path, tmp_path / "data_batch_1", "Permission denied", "check its permissions")


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


@pytest.mark.parametrize("library", ["PIL", "pyarrow", "sklearn"])
def test_missing_libraries_are_named(monkeypatch, library):
    assert lacking("digits") == ""
    monkeypatch.setitem(sys.modules, library, None)
    assert lacking("digits") == f"it needs {library}: pip install 'saddlescope[torch]'"
