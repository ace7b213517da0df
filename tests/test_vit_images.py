"""Image data: every format is read exactly, and whatever is wrong with it is told by file and row."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from saddlescope.core.errors import BadArgument
from saddlescope.studies.vit.images import load_images, missing, storage

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
Image = pytest.importorskip("PIL.Image")

IMAGE = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])


def some_pixels(count: int, height: int = 6, width: int = 6, channels: int = 3, seed: int = 0) -> np.ndarray:
    """uint8 [count, channels, height, width]"""
    return np.random.default_rng(seed).integers(0, 256, (count, channels, height, width), np.uint8)


def encoded(pixels: np.ndarray, kind: str = "PNG", **options) -> bytes:
    """One image [channels, height, width], encoded; PNG loses nothing."""
    image = Image.fromarray(np.ascontiguousarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)))
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def rows_of(pixels: np.ndarray) -> list:
    return [{"bytes": encoded(image), "path": None} for image in pixels]


def write_parquet(path: Path, images: list, labels: list, names: dict | None = None, **columns) -> None:
    """`images`: rows of the column img. `names`: class names by column, as the hub describes them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pyarrow.table({"img": pyarrow.array(images, IMAGE), "label": labels, **columns})
    if names:
        features = {column: {"names": known, "_type": "ClassLabel"} for column, known in names.items()}
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    parquet.write_table(table, path)


def hub_folder(folder: Path) -> Path:
    """Five training images and two to test on, in three classes."""
    write_parquet(folder / "train-00000-of-00001.parquet", rows_of(some_pixels(5)), [0, 1, 2, 1, 0])
    write_parquet(folder / "test-00000-of-00001.parquet", rows_of(some_pixels(2, seed=1)), [2, 0])
    return folder


def write_batch(path: Path, pixels: np.ndarray, protocol: int = 4, **entries) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps({"data": pixels.reshape(len(pixels), -1), **entries}, protocol))


def cifar10_folder(folder: Path, protocol: int = 4) -> Path:
    for number in range(1, 6):
        write_batch(folder / f"data_batch_{number}", cifar_pixels(number), protocol, labels=[number, 0])
    write_batch(folder / "test_batch", cifar_pixels(6), protocol, labels=[3, 4])
    return folder


def cifar_pixels(seed: int) -> np.ndarray:
    return some_pixels(2, 32, 32, seed=seed)


def image_folder(folder: Path) -> Path:
    for split, counts in {"train": {"cat": 2, "ant": 3}, "test": {"cat": 1}}.items():
        for name, count in counts.items():
            (folder / split / name).mkdir(parents=True)
            for index, pixels in enumerate(some_pixels(count, seed=len(split) + len(name))):
                (folder / split / name / f"{index}.png").write_bytes(encoded(pixels))
    return folder


def refused(where, *words: object, **options) -> str:
    with pytest.raises(BadArgument) as caught:
        load_images(str(where), **options)
    for word in words:
        assert str(word) in str(caught.value)
    return str(caught.value)


# What is read


def test_digits_are_scaled_and_split_once():
    from sklearn.datasets import load_digits

    known: Any = load_digits()
    order = np.random.default_rng(0).permutation(1797)
    images = load_images("digits")
    assert (images.train_pixels.shape, images.test_pixels.shape) == ((1437, 1, 8, 8), (360, 1, 8, 8))
    assert (images.classes, images.source, images.train_pixels.dtype) == (10, "digits", np.uint8)
    assert images.train_labels.dtype == np.int64
    assert np.array_equal(np.concatenate([images.train_labels, images.test_labels]), known.target[order])
    pixels = np.concatenate([images.train_pixels, images.test_pixels])[:, 0]
    assert np.array_equal(pixels, np.rint(known.images[order] * 255 / 16))
    assert load_images("digits", size=16).train_pixels.shape == (1437, 1, 16, 16)


@pytest.mark.parametrize("inside", ["", "data", "plain_text"])
def test_parquet_is_read_exactly(tmp_path, inside):
    hub_folder(tmp_path / inside)
    images = load_images(str(tmp_path))
    assert np.array_equal(images.train_pixels, some_pixels(5))
    assert np.array_equal(images.test_pixels, some_pixels(2, seed=1))
    assert images.train_labels.tolist() == [0, 1, 2, 1, 0]
    assert images.test_labels.tolist() == [2, 0]
    assert (images.classes, images.source) == (3, str(tmp_path))
    assert images.train_labels.dtype == images.test_labels.dtype == np.int64


def test_shards_are_read_in_order_and_none_may_be_missing(tmp_path):
    pixels = some_pixels(150)  # more than one chunk per thread
    for shard in range(3):
        part = slice(50 * shard, 50 * shard + 50)
        write_parquet(tmp_path / f"train-0000{shard}-of-00003.parquet", rows_of(pixels[part]), [shard] * 50)
    write_parquet(tmp_path / "validation.parquet", rows_of(pixels[:1]), [1])
    ticks = []
    images = load_images(str(tmp_path), tick=lambda share, words: ticks.append((share, words)))
    assert np.array_equal(images.train_pixels, pixels)
    assert images.train_labels.tolist() == [0] * 50 + [1] * 50 + [2] * 50
    assert [share for share, _ in ticks] == sorted(share for share, _ in ticks)
    assert ticks[-1] == (1.0, "151 of 151 images decoded")
    (tmp_path / "train-00001-of-00003.parquet").unlink()
    assert "is one of 3" in missing(str(tmp_path))


def test_a_test_split_is_preferred_to_validation(tmp_path):
    hub_folder(tmp_path)
    write_parquet(tmp_path / "val.parquet", rows_of(some_pixels(1)), [0])
    assert len(load_images(str(tmp_path)).test_labels) == 2
    (tmp_path / "test-00000-of-00001.parquet").unlink()
    assert len(load_images(str(tmp_path)).test_labels) == 1


def test_the_hub_names_the_classes_and_labels_can_be_chosen(tmp_path):
    names = {"fine_label": [f"kind {index}" for index in range(7)], "coarse_label": ["a", "b"]}
    for split in ("train", "test"):
        columns = {"image": pyarrow.array(rows_of(some_pixels(2)), IMAGE), "fine_label": [3, 4], "coarse_label": [0, 1]}
        table = pyarrow.table(columns).replace_schema_metadata(
            {"huggingface": json.dumps({"info": {"features": {key: {"names": names[key]} for key in names}}})}
        )
        parquet.write_table(table, tmp_path / f"{split}.parquet")
    fine, coarse = load_images(str(tmp_path)), load_images(str(tmp_path), labels="coarse_label")
    assert (fine.classes, fine.train_labels.tolist()) == (7, [3, 4])
    assert (coarse.classes, coarse.train_labels.tolist()) == (2, [0, 1])
    refused(tmp_path, "column", "'coarse'", "did you mean 'coarse_label'?", labels="coarse")


@pytest.mark.parametrize("described", ["{", "[]", '{"info": {"features": {"label": {"names": 3}}}}', "[" * 10**5])
def test_a_strange_description_is_ignored(tmp_path, described):
    hub_folder(tmp_path)
    path = tmp_path / "train-00000-of-00001.parquet"
    parquet.write_table(parquet.read_table(path).replace_schema_metadata({"huggingface": described}), path)
    assert load_images(str(tmp_path)).classes == 3


def test_a_number_of_classes_beyond_all_reason_is_refused(tmp_path):
    hub_folder(tmp_path)
    path = tmp_path / "train-00000-of-00001.parquet"
    described = json.dumps({"info": {"features": {"label": {"num_classes": 2**45, "_type": "ClassLabel"}}}})
    parquet.write_table(parquet.read_table(path).replace_schema_metadata({"huggingface": described}), path)
    refused(tmp_path, "classes", "at most")


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize("inside", ["", "cifar-10-batches-py"])
def test_cifar10_is_read_exactly(tmp_path, inside, protocol):
    folder = cifar10_folder(tmp_path / inside, protocol)
    images = load_images(str(tmp_path))
    assert np.array_equal(images.train_pixels, np.concatenate([cifar_pixels(number) for number in range(1, 6)]))
    assert np.array_equal(images.test_pixels, cifar_pixels(6))
    assert images.train_labels.tolist() == [1, 0, 2, 0, 3, 0, 4, 0, 5, 0]
    assert (images.test_labels.tolist(), images.classes) == ([3, 4], 6)
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": ["name"] * 10}, 0))
    assert load_images(str(tmp_path)).classes == 10


def python2_batch(pixels: np.ndarray, labels: list[int], shape: tuple[int, int] | None = None, kind=b"u1") -> bytes:
    """The opcodes that Python 2 wrote into the original files: strings are bytes, numpy goes by its former names."""
    raw = pixels.tobytes()
    rows, columns = shape or (len(pixels), pixels[0].size)
    return b"".join(
        [
            b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R",
            b"(K\x01" + b"J" + struct.pack("<i", rows) + b"J" + struct.pack("<i", columns) + b"\x86",
            b"cnumpy\ndtype\nU" + bytes([len(kind)]) + kind + b"K\x00K\x01\x87R",
            b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb",
            b"\x89T" + struct.pack("<i", len(raw)) + raw + b"tb",
            b"U\x06labels](" + b"".join(b"K" + bytes([label]) for label in labels) + b"eu.",
        ]
    )


def test_files_of_python_2_are_read_exactly(tmp_path):
    cifar10_folder(tmp_path)
    (tmp_path / "test_batch").write_bytes(python2_batch(cifar_pixels(9), [3, 1]))
    images = load_images(str(tmp_path))
    assert np.array_equal(images.test_pixels, cifar_pixels(9))
    assert images.test_labels.tolist() == [3, 1]


@pytest.mark.parametrize("inside", ["", "cifar-100-python"])
def test_cifar100_has_two_kinds_of_labels(tmp_path, inside):
    folder = tmp_path / inside
    for seed, split in enumerate(["train", "test"]):
        labels = {"fine_labels": np.array([9, 4], ">i4"), "coarse_labels": [1, 0]}
        write_batch(folder / split, np.asfortranarray(cifar_pixels(seed).reshape(2, -1)), **labels)
    fine, coarse = load_images(str(tmp_path)), load_images(str(tmp_path), labels="coarse_labels")
    assert (fine.train_labels.tolist(), fine.classes) == ([9, 4], 10)
    assert (coarse.train_labels.tolist(), coarse.classes) == ([1, 0], 2)
    assert np.array_equal(fine.train_pixels, cifar_pixels(0))
    assert np.array_equal(fine.test_pixels, cifar_pixels(1))
    (folder / "meta").write_bytes(pickle.dumps({b"fine_label_names": [b"x"] * 100}))
    assert load_images(str(tmp_path)).classes == 100
    refused(tmp_path, "'coarse_label'", "did you mean 'coarse_labels'?", labels="coarse_label")


@pytest.mark.parametrize("test", ["test", "val", "validation"])
def test_image_folders_are_read_by_class_name(tmp_path, test):
    image_folder(tmp_path)
    (tmp_path / "test").rename(tmp_path / test)
    for other in (".DS_Store", "notes.txt", "._0.png"):
        (tmp_path / "train" / "ant" / other).write_text("no image")
    (tmp_path / "train" / "bee").mkdir()  # a class without images is a class still
    images = load_images(str(tmp_path))
    assert np.array_equal(images.train_pixels, np.concatenate([some_pixels(3, seed=8), some_pixels(2, seed=8)]))
    assert np.array_equal(images.test_pixels, some_pixels(1, seed=7))
    assert images.train_labels.tolist() == [0, 0, 0, 2, 2]
    assert (images.test_labels.tolist(), images.classes) == ([2], 3)


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
    refused(tmp_path / "nowhere" / "at all", tmp_path / "nowhere" / "at all", "SADDLESCOPE_DATA")


def test_large_pixels_are_mapped_from_a_file_that_vanishes(tmp_path, monkeypatch):
    hub_folder(tmp_path / "here")
    cache = tmp_path / "deep" / "cache"
    monkeypatch.setenv("SADDLESCOPE_CACHE", str(cache))
    monkeypatch.setattr(storage, "MEMORY_MAX", 300)
    images = load_images(str(tmp_path / "here"))
    assert isinstance(images.train_pixels, np.memmap)
    assert not isinstance(images.test_pixels, np.memmap)
    assert np.array_equal(images.train_pixels, some_pixels(5))
    if os.name == "posix":
        assert list(cache.iterdir()) == []
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(100, 100, 0))  # pyright: ignore
    refused(tmp_path / "here", cache, "SADDLESCOPE_CACHE", "image_size")


def test_import_is_light():
    code = "import saddlescope.studies.vit.images, sys; print({'PIL', 'pyarrow', 'sklearn'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


# What becomes of an image


def load_one(tmp_path: Path, *encoded_images: bytes, size: int | None = None) -> np.ndarray:
    rows = [{"bytes": each, "path": None} for each in encoded_images]
    write_parquet(tmp_path / "train.parquet", rows, [0] * len(rows))
    write_parquet(tmp_path / "test.parquet", rows[:1], [0])
    return load_images(str(tmp_path), size).train_pixels


def saved(image, kind: str = "PNG", **options) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def test_the_first_image_decides_between_gray_and_colour(tmp_path):
    gray, colour = some_pixels(1, channels=1)[0], some_pixels(1)[0]
    found = load_one(tmp_path, encoded(gray), encoded(colour))
    assert found.shape == (2, 1, 6, 6)
    assert np.array_equal(found[0], gray)
    luma = np.array([299, 587, 114]) @ colour.reshape(3, -1) / 1000
    assert np.abs(found[1].reshape(-1) - luma).max() <= 1  # Pillow rounds in fixed point
    found = load_one(tmp_path, encoded(colour), encoded(gray))
    assert np.array_equal(found, [colour, np.broadcast_to(gray, (3, 6, 6))])


def test_modes_are_brought_to_eight_bits(tmp_path):
    deep = np.arange(36, dtype=np.uint16).reshape(6, 6) * 1800
    bits = np.eye(6, dtype=bool)
    found = load_one(tmp_path, saved(Image.fromarray(deep)), saved(Image.fromarray(bits)))
    assert np.array_equal(found, [[deep >> 8], [bits * 255]])
    colour = some_pixels(1)[0].transpose(1, 2, 0)
    alpha = np.dstack([colour, np.full((6, 6), 9, np.uint8)])
    palette = Image.fromarray(colour).quantize(256)
    assert np.array_equal(
        load_one(tmp_path, saved(Image.fromarray(alpha)), saved(palette), saved(palette, transparency=bytes(3))),
        np.array([colour, palette.convert("RGB"), palette.convert("RGB")]).transpose(0, 3, 1, 2),
    )
    with pytest.raises(BadArgument, match=r"row 0.*floating point"):
        load_one(tmp_path, saved(Image.fromarray(np.ones((6, 6), np.float32)), "TIFF"))
    with pytest.raises(BadArgument, match=r"row 0.*outside 0\.\.65535"):
        load_one(tmp_path, saved(Image.fromarray(np.full((6, 6), 10**6, np.int32)), "TIFF"))


def test_the_centre_square_is_brought_to_size(tmp_path):
    wide = np.zeros((3, 8, 21), np.uint8)
    wide[:, :, 6:14] = some_pixels(1, 8, 8)[0]
    assert np.array_equal(load_one(tmp_path, encoded(wide), size=8)[0], some_pixels(1, 8, 8)[0])  # cut, not blurred
    flat = np.full((3, 40, 20), 77, np.uint8)
    found = load_one(tmp_path, encoded(wide), encoded(flat), encoded(some_pixels(1, 3, 300)[0]), size=5)
    assert found.shape == (3, 3, 5, 5)
    assert (found[1] == 77).all()
    board = (np.indices((128, 128)).sum(0) % 2 * 255).astype(np.uint8)[None]
    small = load_one(tmp_path, encoded(board), size=4)
    assert np.abs(small - 127.5).max() < 1  # every pixel counts: one that only samples would see 0 or 255


def test_large_images_are_decoded_side_by_side_and_stay_in_order(tmp_path):
    pixels = some_pixels(200, 96, 96)
    pixels[:, :, 8:] = 0  # the rest is only there to make them large
    assert np.array_equal(load_one(tmp_path, *map(encoded, pixels)), pixels)
    with pytest.raises(BadArgument, match=r"train\.parquet: row 130: "):
        load_one(tmp_path, *map(encoded, pixels[:130]), b"no image", *map(encoded, pixels[131:]))


def test_sizes_must_agree_unless_one_is_asked_for(tmp_path):
    with pytest.raises(BadArgument, match=r"train.parquet: row 1: the image is 7 x 5 .* is 6 x 6: give `image_size`"):
        load_one(tmp_path, encoded(some_pixels(1)[0]), encoded(some_pixels(1, 5, 7)[0]))
    assert load_one(tmp_path, encoded(some_pixels(1, 5, 7)[0])).shape == (1, 3, 5, 7)
    image_folder(tmp_path / "files")
    odd = tmp_path / "files" / "test" / "cat" / "0.png"
    odd.write_bytes(encoded(some_pixels(1, 9, 9)[0]))
    refused(tmp_path / "files", odd, "9 x 9", "6 x 6", "image_size")
    assert load_images(str(tmp_path / "files"), size=6).test_pixels.shape == (1, 3, 6, 6)


@pytest.mark.parametrize("size", [0, -3, 2.5, True, "32", 10**6])
def test_size_is_a_sensible_integer(size):
    refused("digits", "`image_size` must be an integer", repr(size), size=size)


# What is refused


def huge_png(width: int, height: int) -> bytes:
    """A header of a few bytes that claims to be an image of any size."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    pieces = [header, b"IDAT" + zlib.compress(bytes(1000)), b"IEND"]
    framed = (struct.pack(">I", len(piece) - 4) + piece + struct.pack(">I", zlib.crc32(piece)) for piece in pieces)
    return b"\x89PNG\r\n\x1a\n" + b"".join(framed)


POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 6 6\n%%EndComments\nshowpage\n"
BAD_IMAGES = {
    "text": (b"no image at all", "not an image"),
    "empty": (b"", "not an image"),
    "postscript": (POSTSCRIPT, "not an image"),
    "cut": (encoded(some_pixels(1, 32, 32)[0], "JPEG")[:400], "cannot be decoded"),
    "bomb": (huge_png(60000, 60000), "more pixels than Pillow takes"),
    "large": (huge_png(10000, 10000), "more pixels than Pillow takes"),
}


@pytest.mark.parametrize("case", BAD_IMAGES)
@pytest.mark.parametrize("row", [0, 17])
def test_a_bad_image_is_named_by_row(tmp_path, case, row):
    hub_folder(tmp_path)
    (tmp_path / "train-00000-of-00001.parquet").unlink()
    rows = rows_of(some_pixels(20))
    bad, reason = BAD_IMAGES[case]
    rows[row]["bytes"] = bad
    write_parquet(tmp_path / "train.parquet", rows, [0] * 19 + [2])
    refused(tmp_path, tmp_path / "train.parquet", f": row {row}: ", reason)


@pytest.mark.parametrize("case", BAD_IMAGES)
def test_a_bad_image_is_named_by_file(tmp_path, case):
    bad, reason = BAD_IMAGES[case]
    path = image_folder(tmp_path) / "train" / "cat" / "1.png"
    path.write_bytes(bad)
    refused(tmp_path, path, reason)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (None, "row 2: the image is null"),
        ({"bytes": None, "path": None}, "row 2: the image is null"),
        ({"bytes": None, "path": "near.png"}, "row 2: the image has no bytes, only the path 'near.png'"),
    ],
)
def test_rows_without_bytes(tmp_path, row, reason):
    hub_folder(tmp_path)
    (tmp_path / "near.png").write_bytes(encoded(some_pixels(1)[0]))
    images = [*rows_of(some_pixels(2)), row]
    write_parquet(tmp_path / "test-00000-of-00001.parquet", images, [0, 1, 2])
    refused(tmp_path, tmp_path / "test-00000-of-00001.parquet", reason)


@pytest.mark.parametrize(
    ("split", "labels", "reason"),
    [
        ("test", [0, -1], "row 1: label -1 is negative; -1 stands for a hidden label"),
        ("train", [0, None], "row 1: the label is null"),
        ("train", [2**40, 1], f"row 0: label {2**40} is too large"),
        ("test", [0, 3], "row 1: label 3 is not below 3, the number of classes of the training images"),
        ("test", pyarrow.array([0, 2**64 - 1], pyarrow.uint64()), "cannot be read"),
        ("train", ["cat", "dog"], "column label holds string, labels must be integers"),
        ("train", [0.0, 1.0], "column label holds double"),
        ("train", [[0], [1]], "column label holds list"),
        ("train", [True, False], "column label holds bool"),
    ],
)
def test_labels_are_checked(tmp_path, split, labels, reason):
    hub_folder(tmp_path)
    path = tmp_path / f"{split}-00000-of-00001.parquet"
    write_parquet(path, rows_of(some_pixels(2)), labels)
    refused(tmp_path, path, reason)


def test_labels_beyond_the_named_classes(tmp_path):
    hub_folder(tmp_path)
    path = tmp_path / "train-00000-of-00001.parquet"
    write_parquet(path, rows_of(some_pixels(3)), [0, 1, 2], names={"label": ["a", "b"]})
    refused(tmp_path, path, "row 2: label 2 is not below 2, the number of classes that the files name")


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"picture": [b"x"], "label": [0]}, "no column of images, img or image; its columns are picture, label"),
        ({"img": pyarrow.array(rows_of(some_pixels(1)), IMAGE), "kind": [0]}, "no column of labels, label or labels"),
        ({"img": [b"x"], "label": [0]}, "column img holds binary"),
        ({"img": [{"bytes": "x"}], "label": [0]}, "column img holds struct<bytes: string>"),
        ({"img": [{"path": "x"}], "label": [0]}, "column img holds struct<path: string>"),
        ({"img": [[[1, 2], [3, 4]]], "label": [0]}, "column img holds list"),
    ],
)
def test_columns_are_checked(tmp_path, columns, reason):
    hub_folder(tmp_path)
    path = tmp_path / "train-00000-of-00001.parquet"
    parquet.write_table(pyarrow.table(columns), path)
    refused(tmp_path, path, reason)


def test_later_files_need_the_same_columns(tmp_path):
    hub_folder(tmp_path)
    path = tmp_path / "test-00000-of-00001.parquet"
    parquet.write_table(parquet.read_table(path).rename_columns(["img", "kind"]), path)
    refused(tmp_path, path, "no column label", "img, kind")


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_split_may_not_be_empty(tmp_path, split):
    hub_folder(tmp_path)
    write_parquet(tmp_path / f"{split}-00000-of-00001.parquet", [], pyarrow.array([], pyarrow.int64()))
    refused(tmp_path, f"the {split} split holds no images")


def test_a_split_may_not_be_missing(tmp_path):
    hub_folder(tmp_path / "hub")
    (tmp_path / "hub" / "test-00000-of-00001.parquet").unlink()
    message = refused(tmp_path / "hub", "nothing to test on", "test*.parquet, validation*.parquet, val*.parquet")
    assert missing(str(tmp_path / "hub")) == message
    (tmp_path / "hub" / "train-00000-of-00001.parquet").rename(tmp_path / "hub" / "test.parquet")
    refused(tmp_path / "hub", "no train*.parquet")

    (cifar10_folder(tmp_path / "cifar") / "data_batch_3").unlink()
    refused(tmp_path / "cifar", "lacks data_batch_3")

    shutil.rmtree(image_folder(tmp_path / "files") / "test")
    refused(tmp_path / "files", "none of test, val, validation")
    (tmp_path / "files" / "train").rename(tmp_path / "files" / "val")
    refused(tmp_path / "files", "no train/")


def test_folders_that_hold_nothing_or_too_much(tmp_path):
    message = refused(tmp_path, "train*.parquet", "CIFAR-10", "train/<class>/")
    assert missing(str(tmp_path)) == message
    (tmp_path / "file").write_text("x")
    refused(tmp_path / "file", "is a file")
    refused("", "`source`")
    refused("a\0b", "`source`")
    assert missing("x" * 5000)
    hub_folder(tmp_path / "one")
    hub_folder(tmp_path / "two")
    refused(tmp_path, "several data sets", tmp_path / "one", tmp_path / "two")
    cifar10_folder(tmp_path / "both" / "cifar-10-batches-py")
    for split in ("train", "test"):
        write_batch(tmp_path / "both" / "cifar-100-python" / split, cifar_pixels(0), fine_labels=[0, 1])
    refused(tmp_path / "both", "holds both")


def test_image_folders_that_make_no_sense(tmp_path):
    image_folder(tmp_path)
    (tmp_path / "test" / "dog").mkdir()
    refused(tmp_path, tmp_path / "test" / "dog", "is a class that", "lacks")
    (tmp_path / "test" / "dog").rmdir()
    (tmp_path / "test" / "cat" / "0.png").unlink()
    refused(tmp_path, tmp_path / "test", "holds no images", ".jpeg")
    (tmp_path / "test" / "cat").rmdir()
    refused(tmp_path, tmp_path / "test", "has no folders")
    refused(tmp_path, "`labels` is 'fine'", labels="fine")
    refused("digits", "`labels` is 'fine'", labels="fine")


class Hostile:
    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_pickle_that_runs_code_is_refused(tmp_path, protocol):
    folder, trace = cifar10_folder(tmp_path), tmp_path / "was_run"
    path = folder / "data_batch_2"
    path.write_bytes(pickle.dumps({"data": Hostile(os.system, (f"touch {trace}",)), "labels": []}, protocol))
    refused(folder, path, f"it names '{os.system.__module__}.system'", "could run code")
    path.write_bytes(pickle.dumps({"labels": Hostile(eval, (f"open({str(trace)!r}, 'w')",))}, protocol))
    refused(folder, path, "eval", "could run code")
    assert not trace.exists()


RECONSTRUCT = b"cnumpy.core.multiarray\n_reconstruct\n"
DATA = cifar_pixels(0)
BAD_PICKLES = {
    "objects": (pickle.dumps({"data": np.array([{}], object), "labels": [0]}), "'|O8', not of integers"),
    "floats": (pickle.dumps({"data": np.zeros((1, 3072)), "labels": [0]}), "'<f8', not of integers"),
    "hostile kind": (python2_batch(DATA, [0, 1], kind=b"O8"), "'|O8', not of integers"),
    "hostile shape": (python2_batch(DATA, [0, 1], (2**31 - 1, 3072)), "claims another shape"),
    "negative shape": (python2_batch(DATA, [0, 1], (-1, 3072)), "claims another shape"),
    "bytes for numbers": (pickle.dumps({"data": np.zeros((1, 3072), np.int16), "labels": [0]}), "int16"),
    "other shape": (pickle.dumps({"data": np.zeros((1, 784), np.uint8), "labels": [0]}), "shape (1, 784)"),
    "no array": (pickle.dumps({"data": [1, 2], "labels": [0]}), "data is a list"),
    "no contents": (b"\x80\x02}(U\x04data" + RECONSTRUCT + b"(tRU\x06labels]u.", "no contents"),
    "array called": (b"cnumpy\nndarray\n(J\xff\xff\xff\x7ftR.", "cannot be read as a pickle"),
    "state of a name": (b"cnumpy\ndtype\n}U\x08__call__K\x00sb.", "cannot be read as a pickle"),
    "large bytearray": (b"\x80\x05\x96" + struct.pack("<Q", 2**40) + b".", "cannot be read as a pickle"),
    "large bytes": (b"\x80\x05\x8e" + struct.pack("<Q", 2**40) + b".", "cannot be read as a pickle"),
    "large memo": (b"\x80\x02}r\xff\xff\xff\xff.", "has no data; its keys are none"),
    "codec": (
        b"\x80\x02c_codecs\nencode\nX\x01\0\0\0xX\x03\0\0\0zip\x86R.",
        "cannot be read",
    ),
    "list": (pickle.dumps([1]), "holds a list"),
    "no labels": (pickle.dumps({"data": np.zeros((1, 3072), np.uint8), "\udc80\n": 0}), "no labels; its keys are"),
    "labels too few": (pickle.dumps({"data": np.zeros((2, 3072), np.uint8), "labels": [0]}), "2 images and 1 labels"),
    "labels of text": (pickle.dumps({"data": DATA.reshape(2, -1), "labels": [0, "b"]}), "row 1: the label is a str"),
    "labels too large": (pickle.dumps({"data": DATA.reshape(2, -1), "labels": [0, 10**5000]}), "row 1: the label is"),
    "labels negative": (pickle.dumps({"data": DATA.reshape(2, -1), "labels": [0, -1]}), "row 1: label -1 is negative"),
    "labels no list": (pickle.dumps({"data": DATA.reshape(2, -1), "labels": "01"}), "labels is a str"),
    "labels nested": (pickle.dumps({"data": DATA.reshape(2, -1), "labels": np.eye(2, dtype=int)}), "shape (2, 2)"),
}


@pytest.mark.parametrize("case", BAD_PICKLES)
def test_a_bad_batch_is_named(tmp_path, case):
    contents, reason = BAD_PICKLES[case]
    path = cifar10_folder(tmp_path) / "data_batch_4"
    path.write_bytes(contents)
    message = refused(tmp_path, path, reason)
    message.encode()  # whatever the file holds, the message can be printed


def test_labels_of_cifar_below_the_named_classes(tmp_path):
    cifar10_folder(tmp_path)
    (tmp_path / "batches.meta").write_bytes(pickle.dumps({"label_names": ["a"] * 5}))
    refused(tmp_path, tmp_path / "data_batch_5", "row 0: label 5 is not below 5")
    (tmp_path / "batches.meta").write_bytes(b"nothing")
    refused(tmp_path, tmp_path / "batches.meta", "cannot be read as a pickle")


@pytest.mark.parametrize("make", [hub_folder, cifar10_folder, image_folder])
def test_a_file_cut_short_is_refused(tmp_path, make):
    expected = load_images(str(make(tmp_path)))
    for path in sorted(path for path in tmp_path.rglob("*") if path.is_file()):
        whole = path.read_bytes()
        for length in {0, 1, 7, len(whole) // 3, len(whole) // 2, len(whole) * 9 // 10, len(whole) - 20}:
            path.write_bytes(whole[:length])
            try:
                found = load_images(str(tmp_path))
            except BadArgument as error:
                assert str(path) in str(error)
            else:  # what was cut off a PNG may be its last checksum alone
                assert path.suffix == ".png"
                assert all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))
        path.write_bytes(whole)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM"])
def test_an_image_cut_short_is_refused_in_every_format(tmp_path, kind):
    whole = encoded(some_pixels(1, 32, 32)[0], kind)
    assert load_one(tmp_path, whole).shape == (1, 3, 32, 32)
    for share in (0.1, 0.5, 0.8):
        with pytest.raises(BadArgument, match=r"train\.parquet: row 0: "):
            load_one(tmp_path, whole[: int(share * len(whole))])


@pytest.mark.parametrize("make", [hub_folder, cifar10_folder, image_folder])
def test_changed_bytes_are_read_or_refused(tmp_path, make):
    random = np.random.default_rng(0)
    path = min(path for path in make(tmp_path).rglob("*") if path.is_file())
    whole = np.frombuffer(path.read_bytes(), np.uint8)
    for _ in range(60):
        changed = whole.copy()
        # Headers and footers hold what can go wrong: half of the changes are there.
        places = random.integers(0, len(whole), 3) if random.random() < 0.5 else random.integers(-300, 300, 3)
        changed[places % len(whole)] = random.integers(0, 256, 3)
        path.write_bytes(changed.tobytes())
        try:
            load_images(str(tmp_path))
        except BadArgument as error:
            assert str(path) in str(error)


@pytest.mark.parametrize(
    ("library", "package", "make"),
    [("PIL", "Pillow", image_folder), ("pyarrow", "pyarrow", hub_folder), ("sklearn", "scikit-learn", None)],
)
def test_missing_libraries_are_named(tmp_path, monkeypatch, library, package, make):
    source = str(make(tmp_path)) if make else "digits"
    assert missing(source) == ""
    monkeypatch.setitem(sys.modules, library, None)
    message = refused(source, f"read with {package}, which is missing: pip install 'saddlescope[torch]'")
    assert missing(source) == message


def test_files_that_may_not_be_read(tmp_path, monkeypatch):
    path = cifar10_folder(tmp_path) / "data_batch_1"

    def forbidden(self):  # by hand: real permissions do not bind the superuser
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "read_bytes", forbidden)
    refused(tmp_path, path, "Permission denied", "check the path and its permissions")
