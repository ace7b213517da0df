"""Weights on disk: every kind of source is read exactly, every hostile one is refused by name."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import struct
import sys
import time
import tracemalloc
import warnings
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save, save_file

from saddlescope.checkpoints.adapter import is_adapter, open_adapter
from saddlescope.checkpoints.patterns import STEPS_MAX, pattern_value, steps
from saddlescope.checkpoints.read import open_checkpoint
from saddlescope.core.errors import BadArgument
from saddlescope.core.extras import MissingLibrary
from saddlescope.watch.integrity import scan

from .models import tiny, tiny_gpt2

BFLOAT16 = ml_dtypes.bfloat16


def some_tensors() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {
        "embed.weight": random.normal(size=(7, 4)).astype(np.float32),
        "layer.weight": random.normal(size=(5, 4)).astype(BFLOAT16),
        "layer.bias": random.normal(size=5).astype(np.float16),
        "layer.double": random.normal(size=(2, 3, 4)),
        "layer.attn.bias": np.tri(6, dtype=np.uint8)[None, None],
        "layer.masked": np.array([True, False]),
        "position_ids": np.arange(9)[None],
        "phase": np.exp(1j * random.normal(size=3)).astype(np.complex64),
        "nothing": np.zeros((0, 3), np.float32),
        "scale": np.array(2.5, np.float32),
    }


def bits(array: np.ndarray) -> bytes:
    return np.ascontiguousarray(array).tobytes()


def assert_holds(where, expected: dict[str, np.ndarray]) -> None:
    with open_checkpoint(where) as checkpoint:
        assert set(checkpoint.tensors) == set(expected)
        assert checkpoint.where == str(where)
        for name, array in expected.items():
            assert checkpoint.tensors[name] == (array.shape, array.dtype.name)
            found = checkpoint.read(name)
            assert (found.shape, found.dtype) == (array.shape, array.dtype)
            assert bits(found) == bits(array)
            if array.ndim:
                for start, stop in [(0, 1), (1, 3), (2, 2), (1, 10**9), (10**6, 10**7)]:
                    rows = checkpoint.rows(name, start, stop)
                    assert rows.dtype == array.dtype
                    assert bits(rows) == bits(array[start:stop])
                    assert rows.shape == array[start:stop].shape


def save_pickled(content: bytes, path: Path, nested: str | None = None) -> None:
    """content: of a safetensors file."""
    held = pytest.importorskip("safetensors.torch").load(content)
    pytest.importorskip("torch").save({nested: held, "epoch": 3, "optimizer": {"lr": 0.1}} if nested else held, path)


def write_index(folder: Path, parts: dict[str, dict[str, np.ndarray]], **changes: str) -> None:
    for name, tensors in parts.items():
        save_file(tensors, folder / name)
    weight_map = {tensor: name for name, tensors in parts.items() for tensor in tensors} | changes
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def two_parts() -> dict[str, dict[str, np.ndarray]]:
    items = list(some_tensors().items())
    return {"model-00001-of-00002.safetensors": dict(items[:4]), "model-00002-of-00002.safetensors": dict(items[4:])}


def refused(what, words: str, action=open_checkpoint) -> str:
    with pytest.raises(BadArgument, match=words) as raised:
        action(what)
    return str(raised.value)


# What is accepted


def test_a_folder_brings_its_config_and_a_file_has_none(tmp_path):
    file = tmp_path / "model.safetensors"
    save_file(some_tensors(), file)
    assert_holds(file, some_tensors())
    assert_holds(str(tmp_path), some_tensors())
    with open_checkpoint(file) as checkpoint:
        assert checkpoint.config is None
    save_file({"other": np.ones(3)}, tmp_path / "model.fp16.safetensors")
    (tmp_path / "config.json").write_text('{"model_type": "gpt2", "quantization_config": null}')
    assert_holds(tmp_path, some_tensors())
    with open_checkpoint(tmp_path) as checkpoint:
        assert checkpoint.config == {"model_type": "gpt2", "quantization_config": None}


def test_shards_with_and_without_an_index(tmp_path):
    write_index(tmp_path, two_parts())
    assert_holds(tmp_path, some_tensors())
    assert_holds(tmp_path / "model.safetensors.index.json", some_tensors())
    (tmp_path / "model.safetensors.index.json").unlink()
    assert_holds(tmp_path, some_tensors())
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    refused(tmp_path, "lacks part 2 of 2")


def test_many_shards_are_never_all_open(tmp_path):
    values = {f"part{number:02}": np.full(3, number) for number in range(12)}
    for name, value in values.items():
        save_file({name: value}, tmp_path / f"{name}.safetensors")
    with open_checkpoint(tmp_path) as checkpoint:
        assert list(checkpoint.tensors) == list(values)
        for name, value in values.items():
            assert checkpoint.read(name)[0] == value[0]
            assert len(checkpoint._open) <= 4
        save_file({"part00": np.ones((2, 2))}, tmp_path / "part00.safetensors")
        refused("part00", "has changed", checkpoint.read)


def test_a_trainer_checkpoint_with_its_state_beside_it(tmp_path, torch):
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth", "rng_state_0.pth", "training_args.bin"):
        (tmp_path / name).write_bytes(b"not weights")
    (tmp_path / "trainer_state.json").write_text("{}")
    torch.save({"w": torch.ones(2)}, tmp_path / "other_name.bin")
    assert_holds(tmp_path, {"w": np.ones(2, np.float32)})
    save_file(some_tensors(), tmp_path / "model.safetensors")
    assert_holds(tmp_path, some_tensors())


@pytest.mark.parametrize("safe", [True, False])
def test_what_transformers_saves(tmp_path, safe, torch):
    model = tiny_gpt2().to(torch.bfloat16)
    model.save_pretrained(tmp_path, max_shard_size="4KB")
    if not safe:  # transformers no longer writes this format: rewrite its shards
        for file in tmp_path.glob("*.safetensors"):
            save_pickled(file.read_bytes(), tmp_path / f"pytorch_{file.stem}.bin")
            file.unlink()
        index = (tmp_path / "model.safetensors.index.json").rename(tmp_path / "pytorch_model.bin.index.json")
        index.write_text(index.read_text().replace("model-", "pytorch_model-").replace(".safetensors", ".bin"))
    with open_checkpoint(tmp_path) as checkpoint:
        assert len(set(checkpoint._file_of.values())) > 3
        assert checkpoint.config is not None and checkpoint.config["model_type"] == "gpt2"
    state = {name: tensor.view(torch.int16).numpy().view(BFLOAT16) for name, tensor in model.state_dict().items()}
    del state["lm_head.weight"]  # tied
    assert_holds(tmp_path, state)


@pytest.mark.parametrize("suffix", [".bin", ".pt", ".pth", ".ckpt"])
@pytest.mark.parametrize("nested", [None, "state_dict", "model", "module"])
def test_pickled_tensors(tmp_path, suffix, nested):
    path = tmp_path / f"weights{suffix}"
    save_pickled(save(some_tensors()), path, nested)
    assert_holds(path, some_tensors())
    assert_holds(tmp_path, some_tensors())


def test_pickled_tensors_of_any_stride_and_of_the_old_format(tmp_path, torch):
    grid = torch.arange(12.0).reshape(3, 4)
    held = {"turned": grid.T, "part": grid[1:, ::2], "trained": torch.nn.Parameter(grid), "wide": grid[:1].expand(5, 4)}
    held["conjugate"] = torch.view_as_complex(grid.reshape(6, 2).clone()).conj()
    expected = {name: value.detach().resolve_conj().numpy() for name, value in held.items()}
    held["turned half"] = grid.T.to(torch.bfloat16)
    expected["turned half"] = grid.numpy().T.astype(BFLOAT16)
    for new in (True, False):
        torch.save(held, tmp_path / f"{new}.pt", _use_new_zipfile_serialization=new)
        assert_holds(tmp_path / f"{new}.pt", expected)


def test_pickled_tensors_are_views_of_the_file(tmp_path, torch):
    torch.save({"w": torch.ones(5, 3, dtype=torch.bfloat16)}, tmp_path / "w.pt")
    with open_checkpoint(tmp_path / "w.pt") as checkpoint:
        first, second = checkpoint.read("w"), checkpoint.read("w")
    assert np.shares_memory(first, second)
    assert bits(first) == bits(np.ones((5, 3), BFLOAT16))  # still valid after close


def test_missing_torch_is_said_with_the_way_out(tmp_path, monkeypatch):
    (tmp_path / "w.pt").write_bytes(b"PK")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingLibrary, match=r"w.pt needs torch.*pip install 'saddlescope\[torch\]'"):
        open_checkpoint(tmp_path / "w.pt")


def test_scans_find_identical_tensors_across_formats(tmp_path):
    tensors = some_tensors() | {"big": np.random.default_rng(1).normal(size=(1200, 1000))}  # several pieces
    save_file(tensors, tmp_path / "a.safetensors")
    save_pickled(save(tensors), tmp_path / "b.pt")
    tensors["big"][-1, -1] += 1
    save_file(tensors, tmp_path / "c.safetensors")
    files = [tmp_path / name for name in ("a.safetensors", "b.pt", "c.safetensors")]
    a, b, c = (scan(open_checkpoint(file), {}, 0).digests for file in files)
    assert a == b and len(set(a.values())) == len(tensors)
    assert [name for name in tensors if a[name] != c[name]] == ["big"]


# Hub names, from the cache alone


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A Hugging Face cache with org/tiny at two commits, files linked to blobs as huggingface_hub links them."""
    hub = tmp_path / "hub"
    model = hub / "models--org--tiny"
    (model / "blobs").mkdir(parents=True)
    (model / "refs" / "refs" / "pr").mkdir(parents=True)
    for number, commit in enumerate(("aaaa1111", "bbbb2222")):
        snapshot = model / "snapshots" / commit
        snapshot.mkdir(parents=True)
        save_file({"w": np.full(3, number)}, model / "blobs" / f"blob{number}")
        (snapshot / "model.safetensors").symlink_to(Path("../../blobs") / f"blob{number}")
    (model / "refs" / "main").write_text("aaaa1111\n")
    (model / "refs" / "refs" / "pr" / "1").write_text("bbbb2222")
    shutil.copytree(model, hub / "models--gpt2", symlinks=True)
    monkeypatch.setenv("HF_HUB_CACHE", str(hub))
    monkeypatch.chdir(tmp_path)
    return hub


@pytest.mark.parametrize(
    "where, value",
    [("org/tiny", 0), ("gpt2", 0), ("org/tiny@main", 0), ("org/tiny@bbbb2222", 1), ("org/tiny@refs/pr/1", 1)],
)
def test_a_hub_name_in_the_cache(cache, where, value):
    assert_holds(where, {"w": np.full(3, value)})


def test_a_hub_name_by_the_other_variables(cache, monkeypatch, tmp_path):
    monkeypatch.delenv("HF_HUB_CACHE")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    assert_holds("org/tiny", {"w": np.full(3, 0)})
    monkeypatch.delenv("HF_HOME")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home" / ".cache" / "huggingface").mkdir(parents=True)
    cache.rename(tmp_path / "home" / ".cache" / "huggingface" / "hub")
    assert_holds("org/tiny", {"w": np.full(3, 0)})


def test_a_local_path_wins_over_a_hub_name(cache, tmp_path):
    (tmp_path / "org" / "tiny").mkdir(parents=True)
    save_file({"local": np.ones(2)}, tmp_path / "org" / "tiny" / "model.safetensors")
    assert_holds("org/tiny", {"local": np.ones(2)})


@pytest.mark.parametrize(
    "where, match",
    [
        ("org/absent", r"models--org--absent.*Nothing is downloaded"),
        ("org/tiny@cccc", r"no revision 'cccc'.*aaaa1111"),
        *((where, "no file or folder") for where in ("org/tiny@../../x", "org/tiny@/etc", "../org--x")),
        *((where, "no file or folder") for where in ("a/b/c.safetensors", "nul\0")),
        *((where, "cannot be looked up") for where in ("~nobody-of-that-name/x", "x" * 5000)),
        *((where, "must be a path") for where in ("", 3)),
    ],
)
def test_names_that_lead_nowhere(cache, where, match):
    refused(where, match)
    assert is_adapter(where) is False


def test_links_may_not_leave_the_cached_model(cache, tmp_path):
    snapshot = cache / "models--org--tiny" / "snapshots" / "aaaa1111"
    save_file({"w": np.ones(3)}, tmp_path / "secret.safetensors")
    (tmp_path / "secret.json").write_text("{}")
    (snapshot / "config.json").symlink_to(tmp_path / "secret.json")
    refused("org/tiny", r"secret.json, outside its model")
    (snapshot / "config.json").unlink()
    (snapshot / "model.safetensors").unlink()
    (snapshot / "model.safetensors").symlink_to(tmp_path / "secret.safetensors")
    for where in ("org/tiny", snapshot, snapshot / "model.safetensors"):
        refused(where, r"secret.safetensors, outside its model")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "model.safetensors").symlink_to(tmp_path / "secret.safetensors")
    assert_holds(tmp_path / "mine", {"w": np.ones(3)})
    (tmp_path / "secret.safetensors").unlink()
    refused(tmp_path / "mine", "links to a file that is gone")
    (cache / "models--org--tiny" / "refs" / "main").write_text("../../../..")
    refused("org/tiny", "must hold the name of a commit")


# Memory


def raw(path: Path, header: object, body: bytes = b"", length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + body)
    return path


def anonymous_memory() -> int:
    status = Path("/proc/self/status")
    found = re.search(r"RssAnon:\s+(\d+)", status.read_text() if status.exists() else "")
    return int(found[1]) * 1024 if found else 0


def test_rows_of_a_large_file_cost_only_themselves(tmp_path):
    size = 200 * 2**20
    header = {"w": {"dtype": "F32", "shape": [size // 4096, 1024], "data_offsets": [0, size]}}
    path = raw(tmp_path / "large.safetensors", header)
    with path.open("r+b") as file:  # a hole in the file: no disk is used
        file.truncate(path.stat().st_size + size)
    with open_checkpoint(path) as checkpoint:
        before = anonymous_memory()
        tracemalloc.start()
        for start in range(0, size // 4096, 5000):
            assert not checkpoint.rows("w", start, start + 16).any()
        scan(checkpoint, {}, 0)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # A piece of the scan is 4 MiB and may exist twice.
        assert peak < 12 * 2**20
        assert anonymous_memory() - before < 32 * 2**20


# What is refused

F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    "header, body, length",
    [
        *(({"a": F32}, b"\0" * size, None) for size in (4, 12)),
        *(({"a": F32}, b"\0" * 8, length) for length in (0, 1, 7, 10**9, 2**60, 2**63, 2**64 - 1)),
        ({"a": F32, "b": {**F32, "data_offsets": [4, 12]}}, b"\0" * 12, None),
        ({"a": {**F32, "shape": [2**62, 2**62]}}, b"\0" * 8, None),
        ({"a": {**F32, "shape": [0, 2**62, 2**62], "data_offsets": [0, 0]}}, b"", None),
        ({"a": {**F32, "shape": [1] * 100, "data_offsets": [0, 4]}}, b"\0" * 4, None),
        *(({"a": {**F32, "dtype": dtype}}, b"\0" * 8, None) for dtype in ("F33", "F8_E4M3", "", 3, None)),
        *(({"a": {**F32, "shape": shape}}, b"\0" * 8, None) for shape in ([-2], [], "x")),
        *(({"__metadata__": odd, "a": F32}, b"\0" * 8, None) for odd in (3, {"a": 3})),
        (b"not json", b"", None),
        (b"[" * 100_000, b"", None),
        (b'{"\xff": 1}', b"", None),
        ({}, b"", None),
    ],
)
def test_damaged_safetensors(tmp_path, header, body, length):
    path = raw(tmp_path / "model.safetensors", header, body, length)
    refused(path, r"model.safetensors.*(again)")


def test_an_empty_shard_and_an_odd_file(tmp_path):
    write_index(tmp_path, two_parts())
    (tmp_path / "model-00001-of-00002.safetensors").write_bytes(b"")
    refused(tmp_path, r"model-00001-of-00002.safetensors cannot be read")
    os.mkfifo(tmp_path / "pipe.safetensors")
    refused(tmp_path / "pipe.safetensors", "neither a file nor a folder")
    (tmp_path / "notes.txt").write_text("hello")
    refused(tmp_path / "notes.txt", "must end in one of")


@pytest.mark.parametrize("name", ["../x.safetensors", "/etc/passwd", "a/../../x.safetensors", "..\\x", "C:x", "", "\0"])
def test_an_index_that_leaves_its_folder(tmp_path, name):
    (tmp_path / "model").mkdir()
    save_file({"w": np.ones(2)}, tmp_path / "x.safetensors")
    write_index(tmp_path / "model", two_parts(), w=name)
    refused(tmp_path / "model", "not inside its folder")


def test_an_index_that_lies(tmp_path):
    parts = two_parts()
    first, second = parts
    for tensor, place, words in [
        ("embed.weight", "absent.safetensors", "'absent.safetensors', which is missing"),
        ("x" * 300, "y" * 300, "which is missing"),
        ("ghost", first, f"{first} lacks the tensor 'ghost'"),
        ("embed.weight", second, f"{second} lacks the tensor 'embed.weight'"),
    ]:
        write_index(tmp_path, parts, **{tensor: place})
        refused(tmp_path, words)
    parts[second]["embed.weight"] = parts[first]["embed.weight"]
    write_index(tmp_path, parts)
    refused(tmp_path, r"'embed.weight' is both in .*1-of.* and in .*2-of")


NOT_AN_INDEX = [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 10**5, b'{"a": ' + b"1" * 5000 + b"}"]
NOT_AN_INDEX += [b'{"weight_map": 3}', b'{"weight_map": {}}', b'{"weight_map": {"a": 3}}']
NOT_AN_INDEX += [b'{"weight_map": {"a": "\\ud800"}}']
BROKEN = [("model.safetensors.index.json", text) for text in NOT_AN_INDEX]
BROKEN += [("config.json", text) for text in (b"", b"[1]", b"{", b'{"quantization_config": 3}')]


@pytest.mark.parametrize("name, text", BROKEN)
def test_an_index_or_a_config_of_the_wrong_kind(tmp_path, name, text):
    write_index(tmp_path, two_parts())
    (tmp_path / name).write_bytes(text)
    refused(tmp_path, name)


def test_folders_without_one_model(tmp_path):
    refused(tmp_path, r"holds no weights \(found: nothing\)")
    (tmp_path / "checkpoint-5").mkdir()
    refused(tmp_path, "found: checkpoint-5/")
    (tmp_path / "model.Q4_K.gguf").write_bytes(b"GGUF")
    for where in (tmp_path, tmp_path / "model.Q4_K.gguf"):
        refused(where, "quantised by GGUF")
    write_adapter(tmp_path)
    for where in (tmp_path, tmp_path / "adapter_model.safetensors"):
        refused(where, "holds an adapter, not a model")
    for name in ("a.pt", "b.pt"):
        (tmp_path / name).write_bytes(b"")
    refused(tmp_path, r"several weights \(a.pt, b.pt\)")


@pytest.mark.parametrize(
    "settings, match",
    [
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, r"bitsandbytes \(4 bit\)"),
        ({"load_in_8bit": True}, r"bitsandbytes \(8 bit\)"),
        ({"quant_method": "gptq", "bits": 4}, r"GPTQ \(4 bit\)"),
        ({"quant_method": "awq", "bits": 4}, r"AWQ \(4 bit\)"),
        ({"quant_method": "fp8"}, "FP8"),
    ],
)
def test_a_config_that_declares_quantisation(tmp_path, settings, match):
    save_file(some_tensors(), tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"quantization_config": settings}))
    refused(tmp_path, rf"quantised by {match}: compare the unquantised weights")


@pytest.mark.parametrize(
    "tensors, match",
    [
        ({"q.weight.absmax": np.ones(3), "q.weight": np.ones((9, 1), np.uint8)}, r"bitsandbytes \(4 bit\)"),
        ({"q.weight.quant_map": np.ones(3)}, r"bitsandbytes \(4 bit\)"),
        ({"q.SCB": np.ones(3), "q.weight": np.ones((3, 3), np.int8)}, r"bitsandbytes \(8 bit\)"),
        ({"q.qweight": np.ones((3, 3), np.int32), "q.qzeros": np.ones(3), "q.g_idx": np.ones(3)}, "GPTQ:"),
        ({"q.qweight": np.ones((3, 3), np.int32), "q.scales": np.ones(3)}, "GPTQ or AWQ"),
        ({"q.weight": np.ones((3, 3), np.int8)}, "'q.weight' is stored as int8"),
        ({"q.weight": np.ones((3, 3), ml_dtypes.float8_e4m3fn)}, "'q.weight' is stored as float8_e4m3"),
        ({"q.weight": np.ones((3, 3), ml_dtypes.float8_e5m2)}, "'q.weight' is stored as float8_e5m2"),
    ],
)
def test_tensors_that_betray_quantisation(tmp_path, tensors, match):
    save_file(tensors, tmp_path / "w.safetensors")
    save_pickled(save(tensors), tmp_path / "w.pt")
    for name in ("w.safetensors", "w.pt"):
        refused(tmp_path / name, match)


class Bomb:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return (os.system, (f"touch {self.path}",))


@pytest.mark.parametrize("how, protocol", [("zip", 2), ("old", 2), ("bare", 0), ("bare", 2), ("bare", 5)])
@pytest.mark.parametrize("suffix", [".bin", ".pt", ".ckpt"])
def test_a_pickle_that_would_run_code_does_not(tmp_path, how, protocol, suffix, torch):
    path, harm = tmp_path / f"model{suffix}", tmp_path / "harm"
    if how == "bare":
        path.write_bytes(pickle.dumps({"hidden": Bomb(harm)}, protocol=protocol))
    else:
        held = {"w": torch.ones(2), "hidden": Bomb(harm)}
        torch.save(held, path, _use_new_zipfile_serialization=how == "zip")
    message = refused(path, rf"model{suffix}.*(GLOBAL|Unsupported operand)")
    assert "could run code, so nothing was loaded" in message
    assert "weights_only" not in message  # PyTorch's advice to try without safety is not passed on
    assert not harm.exists()


def test_pickles_that_are_not_a_dict_of_dense_tensors(tmp_path, torch):
    warnings.simplefilter("ignore")
    path = tmp_path / "w.pt"
    endless: dict = {}
    endless["model"] = endless
    for held, match in [
        (endless, "holds no tensors"),
        (torch.ones(3), "holds a Tensor, not a dict"),
        ([1, 2], "holds a list"),
        ({"net": {"w": torch.ones(2)}, "step": torch.ones(1)}, "holds tensors under 'net'"),
        ({"epoch": 3}, "holds no tensors"),
        ({"w": torch.eye(3).to_sparse()}, "'w' is torch.sparse_coo"),
        ({"w": torch.ones(3, device="meta")}, "'w' is .* on meta"),
        ({"w": torch.zeros(1).expand(2**40)}, "claims 4398046511104 bytes"),
        ({"w": torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)}, "'w' is quantised"),
    ]:
        torch.save(held, path)
        refused(path, match)
    for content in (b"", b"garbage", b"PK\x03\x04garbage"):
        path.write_bytes(content)
        refused(path, r"w\.pt")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", b"\0" * 10**6)
    refused(path, "compressed archive")
    with path.open("wb") as file:
        np.savez(file, w=np.ones(3))
    refused(path, r"w\.pt")


def test_questions_that_have_no_answer(tmp_path):
    save_file(some_tensors(), tmp_path / "w.safetensors")
    with open_checkpoint(tmp_path / "w.safetensors") as checkpoint:
        refused("layer.wight", "'layer.wight': did you mean 'layer.weight'", checkpoint.read)
        refused("scale", "single number", lambda name: checkpoint.rows(name, 0, 1))
        refused("embed.weight", "0 <= start <= stop, got 3 and 1", lambda name: checkpoint.rows(name, 3, 1))
        refused("embed.weight", "0 <= start <= stop, got -1 and 1", lambda name: checkpoint.rows(name, -1, 1))
    refused("embed.weight", "is closed", checkpoint.read)


# Mutations: either arrays or BadArgument, nothing else


def mutated(random: np.random.Generator, content: bytes) -> bytes:
    """`content` with flipped bits, cut short, or with a stretch of it replaced."""
    changed = bytearray(content)
    match random.integers(5):
        case 0:
            for place in random.integers(len(changed), size=random.integers(1, 9)):
                changed[place] ^= 1 << int(random.integers(8))
        case 1:
            del changed[int(random.integers(len(changed))) :]
        case 2:
            start, stop = sorted(random.integers(len(changed), size=2))
            del changed[start : min(stop, start + 20)]
        case 3:  # numbers are where lengths and shapes are
            digits = [place for place, byte in enumerate(changed) if 48 <= byte <= 57] or [0]
            place = int(random.choice(digits))
            swaps = ["0", "-1", "99999999999", "1e999", "18446744073709551615", "null", '"x"', "NaN", "[]"]
            changed[place : place + 1] = random.choice(swaps).encode()
        case _:
            changed[0:8] = struct.pack("<Q", int(random.choice([0, 1, 2**60, 2**63 - 1, 10**8 + 1, len(changed)])))
    return bytes(changed)


def read_all(where) -> None:
    with open_checkpoint(where) as checkpoint:
        for name, (shape, _) in checkpoint.tensors.items():
            assert checkpoint.read(name).shape == shape
            if shape:
                checkpoint.rows(name, 0, 2)
        scan(checkpoint, {}, 0)


def survives(action, path: Path, seconds: float, rounds: int) -> None:
    """Repeat `action` after each mutation of the file: it may only raise BadArgument, and never take memory or time."""
    content, refusals, end = path.read_bytes(), 0, time.monotonic() + seconds
    tracemalloc.start()
    for number in range(rounds):
        if time.monotonic() > end:
            break
        path.write_bytes(mutated(np.random.default_rng(number), content))
        try:
            with np.errstate(all="ignore"):
                action()
        except BadArgument:
            refusals += 1
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * 2**20
    assert refusals > 10


@pytest.mark.parametrize(
    ("name", "write", "seconds", "rounds"),
    [
        ("model.safetensors", lambda path: save_file(some_tensors(), path), 5, 3000),
        ("model.safetensors.index.json", lambda path: write_index(path.parent, two_parts()), 3, 1000),
        ("model.pt", lambda path: save_pickled(save(some_tensors()), path), 3, 500),
    ],
)
def test_mutated_files(tmp_path, name, write, seconds, rounds):
    write(tmp_path / name)
    survives(lambda: read_all(tmp_path), tmp_path / name, seconds, rounds)


# Adapters


def write_adapter(folder: Path, tensors: dict[str, np.ndarray] | None = None, **config) -> Path:
    folder.mkdir(exist_ok=True)
    if tensors is None:
        tensors = {"m.q.lora_A.weight": np.ones((2, 4), np.float32), "m.q.lora_B.weight": np.ones((3, 2), np.float32)}
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 2, "lora_alpha": 4} | config))
    whole = {f"base_model.model.{name}": value for name, value in tensors.items()}
    save_file(whole, folder / "adapter_model.safetensors")
    return folder


RANKS = {r"layers\.0\..*q_proj": 2, "q_proj": 3, r"h.\d+.attn.c_attn": 5}
ALPHAS = {"^model.layers.1.self_attn.q_proj": 11, "v_proj": 7, "proj": 100, "c_attn": 9, "embed_tokens": 3}
ADAPTERS = {
    "plain": {"r": 4, "lora_alpha": 6},
    "stabilised": {"r": 4, "lora_alpha": 6, "use_rslora": True},
    "patterns": {"r": 4, "lora_alpha": 6, "rank_pattern": RANKS, "alpha_pattern": ALPHAS},
    "dora": {"r": 2, "lora_alpha": 3, "use_dora": True},
    "biased": {"r": 2, "lora_alpha": 3, "lora_bias": True},
    "saved whole": {"r": 2, "modules_to_save": ["lm_head"]},
}
NOTES = {"dora": "before DoRA's normalisation", "biased": "lora_bias", "saved whole": "modules_to_save"}


TARGETS = {"gpt2": ["c_attn", "c_fc", "wte"], "llama": ["q_proj", "v_proj", "down_proj", "embed_tokens"]}


@pytest.mark.parametrize("kind", ADAPTERS)
@pytest.mark.parametrize("family", TARGETS)
@pytest.mark.filterwarnings("ignore")
def test_adapters_written_by_peft(tmp_path, family, kind, torch):
    peft = pytest.importorskip("peft")
    targets = TARGETS[family][: -1 if kind == "biased" else None]  # PEFT has no bias for embeddings
    wrapped = peft.get_peft_model(tiny(family), peft.LoraConfig(target_modules=targets, **ADAPTERS[kind]))
    for name, parameter in wrapped.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(parameter)
    wrapped.save_pretrained(tmp_path, save_embedding_layers=False)
    wrapped.double()  # products of the stored factors then have no errors of 32 bits
    adapted = peft.tuners.lora.LoraLayer
    layers = {name: layer for name, layer in wrapped.base_model.model.named_modules() if isinstance(layer, adapted)}
    assert is_adapter(tmp_path)
    for form in ("safetensors", "bin"):
        if form == "bin":
            save_pickled((tmp_path / "adapter_model.safetensors").read_bytes(), tmp_path / "adapter_model.bin")
            (tmp_path / "adapter_model.safetensors").unlink()
        adapter = open_adapter(tmp_path)
        assert {module.name for module in adapter.modules} == set(layers)
        for module in adapter.modules:
            layer = layers[module.name]
            a, b = (factor.astype(np.float64) for factor in adapter.factors(module))
            assert a.shape[0] == b.shape[1] == module.rank == layer.r["default"]
            assert module.scaling == pytest.approx(layer.scaling["default"], rel=1e-12)
            assert module.embedding == ("embed" in module.name or "wte" in module.name)
            assert module.dora == (kind == "dora")
            change = module.scaling * b @ a
            expected = layer.get_delta_weight("default").detach().numpy()
            np.testing.assert_allclose(change.T if module.transposed else change, expected, rtol=1e-12, atol=1e-12)
        assert any(NOTES[kind] in note for note in adapter.notes) if kind in NOTES else adapter.notes == ()


def test_adapters_from_the_cache_and_by_their_file(cache):
    snapshot = cache / "models--org--lora" / "snapshots" / "abc"
    snapshot.parent.mkdir(parents=True)
    write_adapter(snapshot)
    assert is_adapter("org/lora") and not is_adapter("org/tiny")
    for where in ("org/lora", snapshot / "adapter_model.safetensors"):
        (module,) = open_adapter(where).modules
        assert (module.name, module.rank, module.scaling, module.transposed) == ("m.q", 2, 2.0, False)


def test_what_an_adapter_notes(tmp_path):
    (module,) = (adapter := open_adapter(write_adapter(tmp_path, r=16))).modules
    assert module.scaling == 4 / 2
    assert "another rank" in adapter.notes[0] and "m.q has rank 2" in adapter.notes[0]
    adapter = open_adapter(write_adapter(tmp_path, init_lora_weights="pissa_niter_4", use_qalora=True))
    assert "initialised by pissa" in adapter.notes[0] and "use_qalora" in adapter.notes[1]
    pair = {"lora_A.weight": np.ones((8, 4), np.float32), "lora_B.weight": np.ones((3, 8), np.float32)}
    experts = {f"m.experts{wrap}.{name}": value for name, value in pair.items() for wrap in ("", ".base_layer")}
    conv = {"m.conv.lora_A.weight": np.ones((2, 4, 3, 3)), "m.conv.lora_B.weight": np.ones((5, 2, 1, 1))}
    adapter = open_adapter(write_adapter(tmp_path, experts | conv, target_parameters=["experts.gate", "experts.down"]))
    assert adapter.modules == ()
    assert "not one product" in adapter.notes[0] and "m.experts.base_layer" in adapter.notes[0]
    named = {"m.q.lora_A.default.weight": np.ones((2, 4)), "m.q.lora_B.default.weight": np.ones((3, 2))}
    assert open_adapter(write_adapter(tmp_path, named)).modules[0].name == "m.q"


A, B = "m.q.lora_A.weight", "m.q.lora_B.weight"


@pytest.mark.parametrize(
    "tensors, config, match",
    [
        *((None, {"peft_type": kind}, f"must be 'LORA', got '{kind}'") for kind in ("LOHA", None)),
        *((None, {"r": rank}, "`r` must be a positive") for rank in (0, 2.5)),
        *((None, {"lora_alpha": odd}, "`lora_alpha` must be a finite") for odd in (np.nan, np.inf, 10**400, True)),
        *((None, {"alpha_pattern": odd}, "`alpha_pattern") for odd in ({"q": "x"}, [3])),
        (None, {"alpha_pattern": {"q(": 3}}, r"pattern 'q\(' is no regular expression"),
        (None, {"rank_pattern": {"(.*)*x": 3}}, "could take forever"),
        (None, {"use_rslora": "yes"}, "`use_rslora` must be true or false"),
        (None, {"target_parameters": 3}, "`target_parameters`"),
        ({A: np.ones((2, 4))}, {}, "'m.q' has no factor B"),
        ({B: np.ones((2, 4))}, {}, "'m.q' has no factor A"),
        ({A: np.ones((2, 4)), B: np.ones((3, 5))}, {}, r"got \(2, 4\) and \(3, 5\)"),
        ({A: np.ones(0), B: np.ones((3, 2))}, {}, r"got \(0,\) and"),
        ({A: np.ones((0, 4)), B: np.ones((3, 0))}, {}, "without elements"),
        ({A: np.ones((2, 4), np.int64), B: np.ones((3, 2))}, {}, "must hold real numbers, got int64"),
        ({A: np.ones((2, 4)), "m.q.lora_A.other.weight": np.ones((2, 4))}, {}, "has two factors A"),
        ({"m.q.weight": np.ones((2, 4))}, {}, "holds no LoRA factors"),
    ],
)
def test_adapters_that_cannot_be(tmp_path, tensors, config, match):
    refused(write_adapter(tmp_path, tensors, **config), match, open_adapter)


def test_adapters_with_missing_files(tmp_path):
    write_adapter(tmp_path)
    (tmp_path / "adapter_model.safetensors").unlink()
    refused(tmp_path, "neither adapter_model.safetensors nor adapter_model.bin", open_adapter)
    (tmp_path / "adapter_config.json").write_text("[")
    refused(tmp_path, "not readable JSON", open_adapter)
    (tmp_path / "adapter_config.json").unlink()
    assert not is_adapter(tmp_path)
    refused(tmp_path, "has no adapter_config.json", open_adapter)


def test_mutated_adapter_config(tmp_path):
    write_adapter(tmp_path, rank_pattern={r"m\.\w+": 3}, alpha_pattern={"q|k": 1.5, ".*q": 2}, use_rslora=True)

    def read_factors() -> None:
        adapter = open_adapter(tmp_path)
        for module in adapter.modules:
            assert np.isfinite(module.scaling)
            adapter.factors(module)

    survives(read_factors, tmp_path / "adapter_config.json", 3, 1000)


def test_patterns_match_as_in_peft():
    match = pytest.importorskip("peft.utils.other").get_pattern_key
    names = ["model.layers.0.self_attn.q_proj", "model.layers.10.mlp.up_proj", "q_proj", "a.xq_proj", "weird("]
    keys = ["q_proj", "layers.0", r"layers\.\d+\..*proj", "^q_proj", "(up|q)_proj", "[qx]+_proj", "self_attn.q_proj"]
    for name in names:
        for order in (keys, keys[::-1], [name] if name != "weird(" else keys):
            values = {key: float(number) for number, key in enumerate(order)}
            assert pattern_value(values, name, -1) == values.get(match(order, name), -1)


def test_patterns_are_bounded_in_time():
    usual = [r"model\.layers\.\d+\.(self_attn|mlp)\..*proj", ".*q_proj", r"layers\.(0|1|2|3|4|5|6|7|8|9|10|11)\..*"]
    assert all(steps(pattern, 60) < STEPS_MAX for pattern in usual)
    hostile = ["(a+)+b", "(a|a)" * 40, "a?" * 40 + "a" * 40, ".*" * 9, "(?:a{1,9}){1,9}", "(.*){9}" * 9, "x*" * 3000]
    assert all(steps(pattern, 60) > STEPS_MAX for pattern in hostile)
