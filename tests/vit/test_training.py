"""The vision transformer: its network, its batches, its loop, and what is recorded of it."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray
from torch.nn import functional

import saddlescope as ss
from saddlescope import cli
from saddlescope.cli import run
from saddlescope.core.errors import CannotGoOn
from saddlescope.lab.records import Records
from saddlescope.lab.report import verdict_rows
from saddlescope.lab.reproduce import carry_out, choose
from saddlescope.lab.store import Store
from saddlescope.spectra.layouts import HeadWeights
from saddlescope.studies.vit import checkpoint
from saddlescope.studies.vit.ends import compare_ends
from saddlescope.studies.vit.feed import Feed, images_of
from saddlescope.studies.vit.images import load_images
from saddlescope.studies.vit.network import VisionTransformer, initialize
from saddlescope.studies.vit.schedule import learning_rate
from saddlescope.studies.vit.spec import PRESETS, ViTSpec
from saddlescope.studies.vit.study import ViT
from saddlescope.studies.vit.training import train
from saddlescope.studies.vit.truncation import Judgement, keep_directions, ranks_up_to
from saddlescope.watch.series import read_series

from ..conftest import ROOT, printed, unbeaten
from ..test_damage import flipped
from ..waiting import wait_for

TINY = ViTSpec(**PRESETS["tiny"])
RESULTS = ROOT / "results"
CPU = torch.device("cpu")
NO_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="what is said where there is no GPU")


def network(spec: Any = TINY, seed=0, channels=1, side=8, classes=10, scale=1.0):
    model = VisionTransformer(spec, channels, side, side, classes).double()
    initialize(model, scale, torch.Generator().manual_seed(seed))
    return model


# ---- network ---------------------------------------------------------------------------------------------


def test_the_last_block_may_look_at_the_class_token_alone():
    """Leaving the other tokens out of it is exact: values and gradients are those of the whole block."""
    model = network(TINY.replace(depth=3))
    images = torch.randn(4, 1, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

    def whole(images):
        x = model.patch_embed(model.patches(images))
        x = torch.cat([model.cls_token.expand(len(x), -1, -1), x], 1) + model.pos_embed
        for block in model.blocks:
            x = block(x)
        return model.head(model.norm(x[:, 0]))

    found, expected = model(images), whole(images)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)  # 64 bits, sums in another order
    gradients = [torch.autograd.grad(out.square().sum(), list(model.parameters())) for out in (found, expected)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def test_attention_is_the_formula():
    model = network()
    attention: Any = model.blocks[0].attn
    x = torch.randn(2, 5, TINY.width, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    rows = TINY.heads * TINY.head_width
    by_head = [part.view(2, 5, TINY.heads, -1).transpose(1, 2) for part in attention.qkv(x).split(rows, -1)]
    query, key, value = by_head
    scores = (query @ key.mT / math.sqrt(TINY.head_width)).softmax(-1) @ value
    expected = attention.proj(scores.transpose(1, 2).reshape(2, 5, -1))
    torch.testing.assert_close(attention(x), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_the_network_is_what_torchs_own_layers_make(activation):
    """A convolution for the patches and `TransformerEncoderLayer` with the norm first, with the same weights."""
    spec = TINY.replace(depth=3, width=12, heads=3, head_width=4, mlp_width=20, patch=2, activation=activation)
    model, generator = network(spec, channels=2), torch.Generator().manual_seed(1)
    for norm in (module for module in model.modules() if isinstance(module, torch.nn.LayerNorm)):
        torch.nn.init.normal_(norm.weight, generator=generator)
        torch.nn.init.normal_(norm.bias, generator=generator)
    images = torch.randn(4, 2, 8, 8, dtype=torch.float64, generator=generator)
    embed = model.patch_embed
    patches = functional.conv2d(images, embed.weight.view(12, 2, 2, 2), embed.bias, stride=2).flatten(2).mT
    x = torch.cat([model.cls_token.expand(4, -1, -1), patches], 1) + model.pos_embed
    theirs = {
        "attn.qkv": "self_attn.in_proj",
        "attn.proj": "self_attn.out_proj",
        "mlp.0": "linear1",
        "mlp.2": "linear2",
    }
    options: dict[str, Any] = {"dropout": 0, "batch_first": True, "norm_first": True, "dtype": torch.float64}
    for block in model.blocks:
        layer = torch.nn.TransformerEncoderLayer(12, 3, 20, activation=activation, **options)
        weights = {"self_attn.in_proj_bias": torch.zeros(36, dtype=torch.float64)}
        for name, tensor in block.state_dict().items():
            owner, _, part = name.rpartition(".")
            joint = "_" if owner == "attn.qkv" else "."
            weights[f"{theirs.get(owner, owner)}{joint}{part}"] = tensor
        layer.load_state_dict(weights)
        x = layer(x)
    torch.testing.assert_close(model(images), model.head(model.norm(x[:, 0])), rtol=1e-12, atol=1e-12)


def test_the_scale_leaves_the_token_map_and_the_norms_alone():
    one, small = network(scale=1.0).state_dict(), network(scale=0.1).state_dict()
    for name, tensor in one.items():
        kept = name.startswith(("patch_embed", "cls_token", "pos_embed")) or "norm" in name
        torch.testing.assert_close(small[name], tensor if kept else 0.1 * tensor, rtol=1e-12, atol=0)


def test_presets_are_those_of_appendix_b():
    paper, large = ViT.preset("paper"), ViT.preset("imagenet")
    sizes = attrgetter("depth", "heads", "head_width", "width", "mlp_width", "patch")
    training = attrgetter("learning_rate", "epochs", "warmup_epochs", "batch_size")
    assert sizes(paper) == (6, 8, 128, 512, 512, 4)
    assert training(paper) == (1e-4, 500, 15, 512) and training(large) == (3e-3, 360, 15, 4096)
    # ViT-Base/16 has 86.6 million parameters, 2304 x 12 of them biases that are left out here.
    model = VisionTransformer(large, 3, 224, 224, 1000)
    assert sum(tensor.numel() for tensor in model.parameters()) == 86_567_656 - 12 * 3 * 768


def test_the_rate_rises_in_a_line_and_falls_in_a_cosine():
    rates = [learning_rate(step, 100, 9.0, 2.0) for step in range(100)]
    np.testing.assert_allclose(rates[:9], 2.0 * np.arange(1, 10) / 10)
    assert rates[9] == max(rates) == 2.0
    assert rates[9 + 91 // 2] == pytest.approx(2.0 * 0.5 * (1 + math.cos(math.pi * 45 / 91)))
    assert (np.diff(rates[9:]) < 0).all()
    assert 0 < rates[-1] < 2e-3


# ---- batches ---------------------------------------------------------------------------------------------


def some_pixels(count=40, channels=3, height=8, width=12):
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (count, channels, height, width)).astype(np.uint8)
    return pixels, rng.integers(0, 10, count)


def test_without_augmentation_every_image_comes_once_and_unchanged():
    pixels, labels = some_pixels()
    feed = Feed(pixels, labels, CPU, augment=False)
    batches = list(feed.epoch(3, 0, 8))
    order = torch.cat([batch.index for batch in batches]).numpy()
    assert sorted(order) == list(range(40))
    assert (torch.cat([images_of(batch) for batch in batches]).numpy() == pixels[order]).all()
    assert (torch.cat([batch.labels for batch in batches]).numpy() == labels[order]).all()
    again, other = (next(feed.epoch(number, 0, 8)).index for number in (3, 4))
    assert (again == batches[0].index).all() and not (other == batches[0].index).all()


def test_crops_and_mirror_images_are_those_of_padded_images():
    pixels, labels = some_pixels()
    feed = Feed(pixels, labels, CPU, augment=True)
    pad, seen = feed.padding, set()
    assert pad == 12 // 8
    padded = np.pad(pixels, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    for batch in feed.epoch(0, 0, 40):
        for number, image in enumerate(images_of(batch).numpy()):
            index, top, left = (int(part[number]) for part in (batch.index, batch.top, batch.left))
            expected = padded[index][:, pad + top : pad + top + 8, pad + left : pad + left + 12]
            mirrored = bool(batch.mirrored[number])
            assert (image == (expected[..., ::-1] if mirrored else expected)).all()
            seen.add((top, left, mirrored))
    assert len(seen) > 10


def test_processes_share_every_batch():
    pixels, labels = some_pixels()
    whole = [batch.index.tolist() for batch in Feed(pixels, labels, CPU, True).epoch(0, 0, 8)]
    feeds = [Feed(pixels, labels, CPU, True, rank, 2) for rank in range(2)]
    parts = [[batch.index.tolist() for batch in feed.epoch(0, 0, 8)] for feed in feeds]
    assert [sorted(a + b) for a, b in zip(*parts, strict=True)] == [sorted(batch) for batch in whole]


# ---- the loop --------------------------------------------------------------------------------------------


def trained(spec=TINY, seed=0, folder=None):
    return ss.train(ViT(spec), seed, save=folder)


def same(one: xarray.Dataset, other: xarray.Dataset) -> bool:
    """To the bit, in everything but the clocks."""
    return one.identical(other.assign_attrs(one.attrs)) and one.attrs["result"] == other.attrs["result"]


def test_a_run_learns_and_says_so():
    run_ = trained(ViTSpec(epochs=3))
    assert run_["loss"].values[0] > 2.2 and run_["loss"].values[-1] < run_["loss"].values[0] - 0.3
    assert run_["stable_rank"].shape == (4, 3, 2, 4)
    assert (run_["relative_change"].values[-1] > 0.01).all()
    assert run_.attrs["device"] == "cpu" and run_.attrs["dtype"] == "float32"


def test_the_same_seed_gives_the_same_bits_and_another_does_not():
    first, again, other = trained(), trained(), trained(seed=1)
    assert same(first, again)
    assert not np.array_equal(first["loss"], other["loss"])


def test_the_loop_is_adam_on_normalised_images():
    """Against the loop written down plainly; 32 bits, so that sums in another order agree to about 1e-6."""
    spec, images = TINY.replace(epochs=2), load_images("digits")
    found = train(spec, 3, images)
    assert found is not None
    model = VisionTransformer(spec, 1, 8, 8, 10)
    initialize(model, spec.init_scale, torch.Generator().manual_seed(3))  # drawn in 32 bits
    pixels, steps = images.train_pixels.astype(np.float64), len(images.train_labels) // spec.batch_size
    normal = torch.tensor((pixels - pixels.mean()) / pixels.std(), dtype=torch.float32)
    feed = Feed(images.train_pixels, images.train_labels, CPU, spec.augment)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0)
    assert not spec.augment and len(images.train_labels) % spec.batch_size  # some images are left out of each epoch
    for epoch in range(2):
        losses, right = [], []
        for number, batch in enumerate(feed.epoch(epoch, spec.data_seed, spec.batch_size)):
            step = epoch * steps + number
            rate = learning_rate(step, 2 * steps, spec.warmup_epochs * steps, spec.learning_rate)
            optimizer.param_groups[0]["lr"] = rate
            logits = model(normal[batch.index])
            loss = functional.cross_entropy(logits, batch.labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            right += (logits.argmax(1) == batch.labels).tolist()
        assert found.curves["loss"][epoch + 1] == pytest.approx(np.mean(losses), rel=1e-5)
        assert found.curves["accuracy"][epoch + 1] == pytest.approx(np.mean(right), abs=2 / len(right))
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(found.end[name], tensor, rtol=0, atol=1e-4)  # Adam divides rounding by itself
    assert any((found.end[name] - tensor).abs().max() > 1e-2 for name, tensor in found.start.items())


TRAIN = ["train", "vit", "--preset", "tiny"]
LONG = 12
COMMAND = [*TRAIN, "--set", f"epochs={LONG}", "augment=true"]


def command(*more):
    return subprocess.Popen(
        [sys.executable, "-m", "saddlescope", *COMMAND, *map(str, more)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def epochs_saved(folder):
    file = folder / "checkpoint.safetensors"
    return checkpoint.read(file).epoch if file.is_file() else 0


def test_a_checkpoint_is_whole_while_others_take_its_place(tmp_path):
    model, path = torch.nn.Linear(30, 30), tmp_path / "checkpoint.safetensors"
    for epoch in (0, 1):
        torch.nn.init.constant_(model.bias, epoch)
        checkpoint.save(tmp_path / str(epoch), "run", epoch, {}, model, torch.optim.Adam(model.parameters()), {})

    def replace(epoch):
        os.link(tmp_path / str(epoch % 2), tmp_path / "next")
        (tmp_path / "next").replace(path)

    replace(0)
    with ThreadPoolExecutor(1) as other:
        replaced = other.map(replace, range(1, 2000))
        for _ in range(200):
            found = checkpoint.read(path)
            assert (found.weights["bias"] == found.epoch).all()
        assert len(list(replaced)) == 1999


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on_to_the_same_bits(tmp_path):
    whole = command("--save", tmp_path / "whole", "--out", tmp_path / "whole.nc")
    assert whole.wait(120) == 0, whole.stderr
    folder, killed = tmp_path / "killed", 0
    for stop in sorted(random.sample(range(1, LONG), 2)):  # any two epochs
        process = command("--save", folder, "--out", tmp_path / "killed.nc")
        try:
            wait_for(lambda stop=stop: epochs_saved(folder) >= stop, process)
            process.send_signal(signal.SIGKILL)
            killed += 1
        except AssertionError:  # it was done before the kill
            pass
        process.wait(60)
    last = command("--save", folder, "--out", tmp_path / "killed.nc")
    assert last.wait(120) == 0, last.stderr
    assert killed
    one, other = (xarray.load_dataset(tmp_path / f"{name}.nc", engine="scipy") for name in ("whole", "killed"))
    assert same(one, other)
    ends = [checkpoint.read(tmp_path / name / "checkpoint.safetensors") for name in ("whole", "killed")]
    for part in ("weights", "moments"):
        one, other = (getattr(end, part) for end in ends)
        assert one.keys() == other.keys()
        assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def test_spectra_beside_the_training_are_those_of_its_checkpoints(tmp_path, monkeypatch):
    """Read by `series` from files; the bars are 1e-4 for stable ranks and 1e-3 of the largest singular value."""
    from safetensors.torch import save_file

    # Saved after every epoch, however slow the disk is.
    monkeypatch.setattr("saddlescope.studies.vit.training.SAVING_SHARE", float("inf"))
    spec, home, files = ViTSpec(epochs=3), tmp_path / "run", tmp_path / "checkpoints"
    home.mkdir()
    files.mkdir()
    steps = 1437 // spec.batch_size

    def keep(share, words=""):
        epoch = round(share * spec.epochs)
        saved = checkpoint.read(home / "checkpoint.safetensors")
        assert saved.epoch == epoch
        save_file(dict(saved.weights), files / f"step-{epoch * steps}.safetensors")

    found = train(spec, 0, load_images("digits"), home, keep)
    assert found is not None
    save_file(dict(found.start), files / "step-0.safetensors")
    offline = read_series([files], mapping={"heads": spec.heads}, modes=spec.modes).trajectory
    assert list(offline["time"].values) == list(found.watched["time"].values)
    np.testing.assert_allclose(found.watched["stable_rank"], offline["stable_rank"], rtol=1e-4)
    largest = offline["singular_values"].values.max(-1, keepdims=True)
    gap = np.abs(found.watched["singular_values"].values - offline["singular_values"].values)
    assert (gap <= 1e-3 * np.maximum(largest, 1e-300)).all()


def test_both_ends_are_those_of_dense_products():
    rng = np.random.default_rng(1)
    layers, heads, width, head_width = 2, 3, 12, 4

    def drawn():
        shapes = [(heads, width, head_width)] * 3 + [(heads, head_width, width)]
        return [HeadWeights(*(rng.normal(size=shape) for shape in shapes)) for _ in range(layers)]

    start = drawn()
    sizes = rng.uniform(0.3, 0.6, 4)  # each kind of weight moves by its own norm
    end = [
        HeadWeights(*(a + size * b for a, b, size in zip(old, move, sizes, strict=True)))
        for old, move in zip(start, drawn(), strict=True)
    ]

    def products(weights):
        return np.array([[w.query @ w.key.swapaxes(-1, -2), w.value @ w.output] for w in weights])

    found = compare_ends(start, end)
    before, after = products(start), products(end)
    for name, dense in (("start", before), ("end", after), ("change", after - before)):
        values = getattr(found, name)
        expected = np.linalg.svd(dense, compute_uv=False)[..., : values.shape[-1]]
        np.testing.assert_allclose(values, expected, rtol=1e-10, atol=1e-10)

    def dense_draw():
        def moved(old, young):
            change = rng.normal(size=old.shape)
            norms = [np.linalg.norm(array, axis=(-2, -1), keepdims=True) for array in (young - old, change)]
            return old + change * norms[0] / norms[1]

        random_end = [HeadWeights(*map(moved, old, young)) for old, young in zip(start, end, strict=True)]
        values = np.linalg.svd(products(random_end) - before, compute_uv=False)
        return (values**2).sum(-1) / values[..., 0] ** 2

    draws = np.array([dense_draw() for _ in range(200)])
    # The mean of four draws (DRAWS) is within five of its own deviations for every head.
    gap = np.abs(found.random_stable_rank - draws.mean(0))
    assert (gap < 5 * draws.std(0) / 2).all()
    assert (draws.std(0) < 0.25 * draws.mean(0)).all()  # else this would say little


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path):
    """Under torchrun, on the CPU: gradients are averaged in another order, so not to the bit."""
    alone = trained(TINY.replace(epochs=2, batch_size=64))
    torchrun = Path(sys.executable).with_name("torchrun")
    arguments = [*TRAIN, "--set", "epochs=2", "batch_size=64", "--save", tmp_path / "save"]

    def launch(out):
        two = [torchrun, "--standalone", "--nproc-per-node", "2", "-m", "saddlescope"]
        printed(*two, *arguments, "--out", out, timeout=240)
        return xarray.load_dataset(out, engine="scipy")

    two = launch(tmp_path / "two.nc")
    assert same(two, launch(tmp_path / "again.nc"))  # it was finished: nothing is trained again
    assert two.attrs["device"] == "2 x cpu"
    # Adam divides by the root of small squares: 32-bit rounding of the averaged gradient grows to 1e-4 in two epochs.
    np.testing.assert_allclose(two["loss"], alone["loss"], rtol=1e-3)
    np.testing.assert_allclose(two["stable_rank"], alone["stable_rank"], rtol=2e-2)


def test_another_process_may_make_the_folder_at_any_moment(tmp_path, monkeypatch):
    """The processes of one training share it, and none of them is to take it for a file that cannot be written."""
    check, folder = cli._check_request, tmp_path / "save"

    def late(*given, **options):
        folder.mkdir()
        check(*given, **options)

    monkeypatch.setattr(cli, "_check_request", late)
    assert run([*TRAIN, "--save", str(folder)]) == 0
    assert (folder / "run.json").is_file()


def test_a_run_that_diverges_says_so():
    lost = trained(TINY.replace(learning_rate=1e30, epochs=4))
    assert lost.attrs["result"].startswith("diverged in epoch")
    assert np.isfinite(lost["start_values"]).all()


def test_keeping_all_directions_is_the_trained_network():
    found = train(TINY, 0, load_images("digits"))
    assert found is not None
    names = [name for name in found.end if name.endswith(".attn.qkv.weight")]
    kept = keep_directions(found.start, found.end, names, found.judge)
    assert list(kept.ranks) == ranks_up_to(16) == [0, 1, 2, 4, 8, 16]
    assert kept.loss[-1] == found.judge(found.end).loss
    assert kept.loss[0] == found.judge({**found.end, **{name: found.start[name] for name in names}}).loss


@pytest.mark.parametrize("rank", [1, 4])
def test_cut_changes_are_those_of_an_svd(rank):
    rng = np.random.default_rng(0)
    start, change = rng.normal(size=(20, 12)), rng.normal(size=(20, 12)) @ np.diag(0.5 ** np.arange(12))
    left, values, right = np.linalg.svd(change, full_matrices=False)
    expected = start + (left[:, :rank] * values[:rank]) @ right[:rank]
    seen = {}

    def judge(weights):
        difference = weights["w"].numpy() - start
        seen[int(np.linalg.matrix_rank(difference, tol=1e-6))] = weights["w"].numpy()
        return Judgement(0.0, 0.0, 0.0)

    before, after = ({"w": torch.from_numpy(array)} for array in (start, start + change))
    keep_directions(before, after, ["w"], judge)
    np.testing.assert_allclose(seen[rank], expected, atol=1e-9)  # a Gram matrix costs half the digits


# ---- what a user may get wrong ---------------------------------------------------------------------------


@pytest.fixture
def refused(call):
    """What a training is told that cannot begin."""

    def run(*arguments):
        code, _, told = call(*TRAIN, *arguments)
        assert code == 2
        return told

    return run


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("data=nowhere", "SADDLESCOPE_DATA"),
        ("patch=3", "`patch` = 3 does not divide"),
        ("batch_size=5000", "exceeds the 1437 training images"),
        ("activation=tanh", "choose one of: gelu, relu"),
        ("precision=float16", "did you mean 'bfloat16'"),
        ("init_scale=0", "`init_scale` must be positive"),
        ("image_size=0", "`image_size` must be at least 1"),
        ("image_size=2.5", "`image_size` must be a whole number"),
        ("warmup_epochs=3", "below `epochs` = 3"),
        ("dept=3", "did you mean 'depth'"),
    ],
)
def test_errors_name_the_way_out(setting, words, refused):
    assert words in refused("--set", setting)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SADDLESCOPE_DEVICE", "gpu"),
        pytest.param("SADDLESCOPE_DEVICE", "cuda", marks=NO_GPU),
        ("WORLD_SIZE", "many"),
    ],
)
def test_bad_values_of_the_environment_are_named(variable, value, monkeypatch, refused):
    monkeypatch.setenv(variable, value)
    assert variable in refused()


def test_a_fine_tuning_is_of_one_process(monkeypatch, call):
    monkeypatch.setenv("WORLD_SIZE", "2")
    code, _, told = call("train", "vit/lora", "--preset", "tiny")
    assert code == 2 and "without torchrun" in told


def test_one_folder_keeps_one_run(tmp_path, refused):
    (tmp_path / "run").mkdir()
    assert "--save" in refused("--seeds", "2", "--save", tmp_path / "run")


@pytest.fixture
def kept(tmp_path):
    """The checkpoint of a run that is done."""
    ss.train(ViT(TINY), save=tmp_path / "run")
    return tmp_path / "run" / "checkpoint.safetensors"


def test_another_runs_folder_is_not_taken(kept, refused):
    assert "another run" in refused("--save", kept.parent, "--seed", "1")


def test_a_damaged_checkpoint_is_named(kept, refused):
    kept.write_bytes(kept.read_bytes()[:1000])
    assert "delete it to begin this run again" in refused("--save", kept.parent)


@pytest.mark.parametrize(
    "damage",
    [
        lambda tensors: tensors.pop("weights.head.weight"),
        lambda tensors: tensors.update({"weights.head.weight": torch.zeros(3, 3)}),
        lambda tensors: tensors.update({"weights.more": torch.zeros(1)}),
        lambda tensors: tensors.pop("moments.0.exp_avg_sq"),
        lambda tensors: tensors.update({"moments.0.exp_avg": torch.zeros(3)}),
        lambda tensors: tensors.update({"moments.none.step": torch.zeros(())}),
    ],
)
def test_a_checkpoint_of_another_network_is_named(damage, kept, refused):
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file

    with safe_open(kept, "pt") as opened:
        metadata = opened.metadata()
    tensors = load_file(kept)
    damage(tensors)
    del metadata[checkpoint.CHECKSUM]
    save_file(tensors, kept, {**metadata, checkpoint.CHECKSUM: checkpoint.checksum_of(metadata, tensors)})
    assert "is not of this network" in refused("--save", kept.parent)


# ---- what is recorded ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The paper's size, judged from results/; digits are not run: their experiments are left out."""
    (chosen,) = choose(["vit:1a", "vit:3", "vit:4", "vit:5", "vit:11", "vit:12", "vit:kept_cifar"])
    wanted = [*chosen.experiments, chosen.room.experiments["cifar_activations"]]
    chosen = chosen.__class__(chosen.room, chosen.figures, tuple(wanted), False)
    store = Store(tmp_path_factory.mktemp("store"))
    (result,) = carry_out([chosen], store, full=True, workers=1, records=Records(RESULTS))
    return result


def test_recorded_runs_give_the_recorded_verdicts(recorded):
    assert recorded.missing == {}
    kept = {row["claim"]: row for row in json.loads((RESULTS / "vit" / "verdicts.json").read_text())}
    rows = verdict_rows([recorded])
    assert len(rows) == 17
    for row in rows:
        assert row["verdict"] == kept[row["claim"]]["verdict"], row
        if row["claim"] != "growth_is_gradual_cifar":  # steps between the epochs that are kept are longer
            # Records hold 32 bits.
            assert row["value"] == pytest.approx(kept[row["claim"]]["value"], rel=1e-4, abs=1e-6), row


def test_recorded_claims_can_lose(recorded):
    assert not unbeaten(recorded)


def test_spectra_of_the_gpu_are_those_of_the_cpu(recorded):
    """The last epoch as watched on the GPU, by Gram matrices, against QR of the final weights on the CPU."""
    for runs in recorded.runs.values():
        for one in runs:
            watched, exact = one.trajectory["singular_values"].values[-1], one.trajectory["change_values"].values
            gap = np.abs(watched - exact[..., : watched.shape[-1]]) / exact[..., :1]
            assert gap.max() < 1e-6  # what 32 bits of the record leave of 2e-14


def test_figures_are_drawn_from_records(recorded):
    for figure in recorded.chosen.figures:
        assert len(recorded.figures[figure.name]) > 10_000, figure.name


def test_the_records_say_how_long_they_took_and_where(recorded):
    """500 epochs in 700 s, and at most 2% of them for spectra."""
    attrs = recorded.runs["cifar"][0].trajectory.attrs
    assert attrs["seconds"] <= 700 and attrs["spectra_seconds"] <= 0.02 * attrs["seconds"]
    for one in (one for runs in recorded.runs.values() for one in runs):
        assert "H200" in one.made.device and one.made.versions["torch"]


def test_one_bit_of_a_checkpoint_is_noticed(kept):
    whole = kept.read_bytes()
    assert checkpoint.read(kept).epoch == TINY.epochs
    for place in random.Random(0).sample(range(len(whole)), 40):
        kept.write_bytes(flipped(whole, place, bit=place % 8))
        with pytest.raises(CannotGoOn, match="cannot be read"):
            checkpoint.read(kept)


def test_without_the_images_the_paper_size_is_undecided(tmp_path, monkeypatch, answer):
    monkeypatch.setenv("SADDLESCOPE_DATA", str(tmp_path))
    rows = answer("reproduce", "vit:12", "--full", "--out", tmp_path / "out")
    assert rows and {row["verdict"] for row in rows} == {"undecided"}
    assert all("SADDLESCOPE_DATA" in row["reason"] for row in rows)
