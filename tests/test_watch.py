"""Watching real trainings: numbers against dense SVDs, and no step lost or doubled whatever happens."""

from __future__ import annotations

import copy
import json
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from concurrent import futures
from typing import Any

import jax
import numpy as np
import pytest

import saddlescope as ss
from saddlescope.core.errors import BadArgument
from saddlescope.spectra.layouts import find_layout
from saddlescope.watch import measure_tree, read_watched
from saddlescope.watch.folder import WatchFolder
from saddlescope.watch.jax_tree import named_leaves
from saddlescope.watch.schedule import Schedule

from .models import LAYERS, dense_products, tiny_gpt2
from .test_diff import shows_well
from .test_imports import loaded_by
from .waiting import wait_for

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


def tokens(step):
    return torch.randint(0, 16, (4, 8), generator=torch.Generator().manual_seed(step))


def train(model, steps, each=lambda step, loss: None, first=1):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(first, steps + 1):
        batch = tokens(step)
        loss = model(input_ids=batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        each(step, loss)


def refused(words, action, *arguments, **options):
    with pytest.raises(BadArgument, match=words):
        action(*arguments, **options)


# ---- schedule ------------------------------------------------------------------------------------------------


def steps_of(schedule, until):
    return [step for step in range(until + 1) if step in schedule]


@pytest.mark.parametrize(
    ("schedule", "steps"),
    [
        (Schedule(1000), [0, *(2**k for k in range(10)), 1000, 2000, 3000]),  # that of Pythia
        (Schedule(100), [0, 1, 2, 4, 8, 16, 32, 64, 100, 128, 200, 256, 300, 400, 500, 512, 600, 700]),
        (Schedule(7, "every"), [0, 7, 14, 21]),
    ],
)
def test_schedules(schedule, steps):
    assert steps_of(schedule, steps[-1]) == steps


@pytest.mark.parametrize(("every", "kind"), [(0, "log"), (2.5, "log"), (10, "logs")])
def test_schedules_that_cannot_be(every, kind):
    refused(r"`every` must be|did you mean 'log'", Schedule, every, kind)


# ---- a loop of one's own -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("device", "tolerance"), [("cpu", 1e-12), ("model", 1e-6)])
@pytest.mark.parametrize("background", [True, False])
def test_singular_values_are_those_of_the_dense_change(tmp_path, device, tolerance, background):
    model = tiny_gpt2()
    start, seen = dense_products(model.state_dict(), heads=2), {}
    with ss.Watch(model, 5, tmp_path, device=device, background=background) as watch:

        def each(step, loss):
            watch.step(step, loss=loss)
            seen[step] = (dense_products(model.state_dict(), heads=2) - start, float(loss.detach()))

        train(model, 12, each)
        found = watch.trajectory
    assert list(found["time"].values) == [0, 1, 2, 4, 5, 8, 10]
    assert not found["singular_values"].sel(time=0).values.any()
    for step in found["time"].values[1:]:
        change, loss = seen[step]
        exact = np.linalg.svd(change, compute_uv=False)
        now = found.sel(time=step)
        top = exact[..., :1]
        assert np.abs(now["singular_values"].values - exact[..., : found.sizes["mode"]]).max() < tolerance * top.max()
        assert np.allclose(now["stable_rank"], (exact**2).sum(-1) / exact[..., 0] ** 2, rtol=tolerance)
        relative = np.linalg.norm(change, axis=(-2, -1)) / np.linalg.norm(start, axis=(-2, -1))
        assert np.allclose(now["relative_change"], relative, rtol=1e-9)
        assert float(now["loss"]) == pytest.approx(loss)
    assert np.isnan(found["loss"].sel(time=0))
    assert read_watched(tmp_path).identical(found)


def test_files_of_a_watch_have_the_permissions_of_new_files(tmp_path):
    ss.Watch(tiny_gpt2(), 5, tmp_path / "watched").close()
    (tmp_path / "new").touch()
    files = [path for path in (tmp_path / "watched").rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".safetensors", ".json", ".npz"}
    assert {path.stat().st_mode for path in files} == {(tmp_path / "new").stat().st_mode}


# ---- how it shows itself -------------------------------------------------------------------------------------


def test_a_watch_shows_itself(tmp_path):
    with ss.Watch(model := tiny_gpt2(), 5, tmp_path) as watch:
        words, axes, table = shows_well(watch)
        assert "1 measurement, step 0" in words and "no head has moved" in axes.texts[0].get_text()
        train(model, 12, watch.step)
        words, axes, table = shows_well(watch)
    assert "7 measurements, steps 0 to 10" in words and "loss" in words
    assert len(axes.lines) == 2 * LAYERS and len(table) == 7 * LAYERS * 2 * 2
    row = table[(table["step"] == 10) & (table["circuit"] == "QK")].iloc[3]
    there = watch.trajectory.sel(time=10, circuit="QK").isel(layer=int(row["layer"]), head=int(row["head"]))
    assert row["relative_change"] == float(there["relative_change"])


def said(watch) -> str:
    """Its repr in one line."""
    return " ".join(repr(watch).split())


def test_a_look_at_a_watch_neither_waits_nor_fails(tmp_path, monkeypatch):
    """While a measurement takes long, after one has failed, and when the folder is gone."""
    model, go_on = tiny_gpt2(), threading.Event()
    watch = ss.Watch(model, 1, tmp_path / "a", background=True)
    watch.state()
    true_measure = watch._measure

    def slow(*arguments):
        assert go_on.wait(60)
        return true_measure(*arguments)

    monkeypatch.setattr(watch, "_measure", slow)
    watch.step(1)
    began = time.monotonic()
    words = said(watch)
    assert "measuring" in words and "1 measurement, step 0" in words and "<img" in watch._repr_html_()
    assert time.monotonic() - began < 30 and not go_on.is_set()
    go_on.set()
    watch.state()
    assert "2 measurements" in said(watch) and "measuring" not in said(watch)
    monkeypatch.setattr(watch, "_measure", lambda *arguments: 1 / 0)
    watch.step(2)
    futures.wait(watch._worker._pending)
    assert "the last measurement failed: ZeroDivisionError" in said(watch)
    with pytest.raises(ZeroDivisionError):
        watch.close()
    shutil.rmtree(tmp_path / "a")
    assert "nothing measured yet" in said(watch) and "<img" in watch._repr_html_()
    monkeypatch.setattr(watch, "active", False)
    assert "rank 0" in said(watch) and "<img" in watch._repr_html_()
    unmade = ss.Watch.__new__(ss.Watch)  # as a debugger sees it when its construction fails
    assert "cannot be shown now" in repr(unmade) and "<img" in unmade._repr_html_()


def test_ranks_are_of_the_whole_spectrum_when_few_modes_are_kept(tmp_path):
    for modes in (1, 32):
        with ss.Watch(model := tiny_gpt2(), 10, tmp_path / str(modes), modes=modes) as watch:
            train(model, 10, watch.step)
    few, many = (read_watched(tmp_path / folder).sel(time=10) for folder in ("1", "32"))
    assert few.sizes["mode"] == 1
    for name in ("stable_rank", "entropy_rank", "relative_change"):
        assert np.array_equal(few[name], many[name])


def test_bfloat16_start_is_kept_as_it_was(tmp_path):
    from safetensors.torch import load_file

    model = tiny_gpt2().to(torch.bfloat16)
    with ss.Watch(model, folder=tmp_path):
        stored = load_file(tmp_path / "start.safetensors")
    assert len(stored) == 2 * LAYERS  # the attention's tensors and no others
    for name, tensor in stored.items():
        assert tensor.dtype == torch.bfloat16
        assert torch.equal(tensor, model.get_parameter(name))


def test_steps_that_are_skipped_are_measured_at_the_next(tmp_path):
    with ss.Watch(model := tiny_gpt2(), 10, tmp_path, schedule="every") as watch:
        train(model, 30, lambda step, loss: watch.step(step) if step % 3 == 0 else None)
        assert watch.steps == [0, 12, 21, 30]


def test_stages_and_report(tmp_path, recwarn):
    with ss.Watch(model := tiny_gpt2(), 5, tmp_path / "run") as watch:
        train(model, 20, watch.step)
    stages = watch.stages()
    assert {one.circuit for one in stages} == {"QK", "OV"}
    times = [one.stage.time or 0.0 for one in stages]
    assert times == sorted(times)
    for name in ("run.html", "run.png", "run.svg"):
        assert watch.report(tmp_path / name).stat().st_size > 5000
    page = (tmp_path / "run.html").read_text()
    assert "<svg" in page and "Directions by the time they were learned" in page
    refused("must end in", watch.report, tmp_path / "run.txt")
    assert not [warning for warning in recwarn if "saddlescope" in warning.filename]


def test_wrappers_are_seen_through(tmp_path):
    model = tiny_gpt2()
    wrapped = torch.nn.DataParallel(torch.compile(model))  # compiled only when it is called, which nobody does
    with ss.Watch(wrapped, 5, tmp_path) as watch:
        train(model, 5, watch.step)
    with ss.Watch(model, 5, tmp_path) as again:
        assert again.steps == [0, 1, 2, 4, 5]


def test_only_rank_zero_acts(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 1)
    with ss.Watch(tiny_gpt2(), 5, tmp_path / "run") as watch:
        watch.step(5)
        watch.state()
    assert not (tmp_path / "run").exists()
    with pytest.raises(BadArgument, match="rank 0"):
        _ = watch.trajectory


# ---- models without a config ---------------------------------------------------------------------------------


@pytest.mark.parametrize("heads", [2, None])
def test_transformer_encoder(tmp_path, heads):
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    attention = model.layers[1].self_attn
    before = [attention.in_proj_weight.detach().double().numpy().copy()]
    with ss.Watch(model, 2, tmp_path, heads=heads) as watch:
        for step in (1, 2):
            model(torch.randn(3, 4, 8)).square().mean().backward()
            optimizer.step()
            watch.step(step)
        found = watch.trajectory
    before.append(attention.in_proj_weight.detach().double().numpy())
    first, last = (fused[4:8].T @ fused[12:16] for fused in before)  # the second head's queries and keys
    exact = np.linalg.svd(last - first, compute_uv=False)
    assert np.allclose(found["singular_values"].sel(time=2, layer="1", circuit="QK")[1], exact, atol=1e-14)


# ---- resuming ------------------------------------------------------------------------------------------------


def test_resumed_loop_repeats_nothing(tmp_path):
    whole, parts = tiny_gpt2(), tiny_gpt2()
    with ss.Watch(whole, 4, tmp_path / "whole") as watch:
        train(whole, 12, watch.step)
    with ss.Watch(parts, 4, tmp_path / "parts") as watch:
        train(parts, 6, watch.step)
        watch.state()
        again = copy.deepcopy(parts)
        train(parts, 9, watch.step, first=7)  # steps 7, 8, 9 are lost to the checkpoint
    with ss.Watch(again, 4, tmp_path / "parts") as watch:
        train(again, 12, watch.step, first=7)
    assert read_watched(tmp_path / "parts").identical(read_watched(tmp_path / "whole"))


def test_other_models_folder_is_refused(tmp_path):
    ss.Watch(tiny_gpt2(), folder=tmp_path).close()
    words = r"another model.*shape \(16, 48\) there.*\(32, 96\) here.*fresh=True"
    refused(words, ss.Watch, tiny_gpt2(n_embd=32), folder=tmp_path)
    ss.Watch(tiny_gpt2(n_embd=32), folder=tmp_path, fresh=True).close()


def test_beginning_again_from_other_weights_is_refused(tmp_path):
    ss.Watch(tiny_gpt2(0), folder=tmp_path).close()
    with ss.Watch(tiny_gpt2(1), folder=tmp_path) as watch:
        refused("other weights", watch.step, 1)
    with ss.Watch(tiny_gpt2(0), folder=tmp_path) as watch:
        watch.step(1)


LOOP = """
from pathlib import Path

import torch
from saddlescope.core.files import write_whole
from saddlescope.watch import Watch

torch.manual_seed(0)
checkpoint = Path("checkpoint.pt")
layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
model = torch.nn.TransformerEncoder(layer, 2)
first = 1
if checkpoint.exists():
    stored = torch.load(checkpoint)
    model.load_state_dict(stored["model"])
    first = stored["step"] + 1
optimizer = torch.optim.SGD(model.parameters(), 0.1)
watch = Watch(model, 3, "watched", background=True)
for step in range(first, 201):
    batch = torch.randn(4, 6, 8, generator=torch.Generator().manual_seed(step))
    loss = model(batch).diff(dim=1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    watch.step(step, loss=loss)
    if step % 10 == 0:
        watch.state()
        write_whole(checkpoint, lambda partial: torch.save({"model": model.state_dict(), "step": step}, partial))
watch.close()
"""


def test_killed_run_loses_and_doubles_nothing(tmp_path, monkeypatch):
    """SIGKILL at a random moment, resumed from the last checkpoint: as if nothing had happened."""
    script, store = [sys.executable, "-c", LOOP], WatchFolder(tmp_path / "watched")
    monkeypatch.chdir(tmp_path)
    killed = subprocess.Popen(script, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: len(store.steps()) > 6, killed)
        time.sleep(float(np.random.default_rng().uniform(0, 0.4)))
    finally:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
    assert store.steps()[-1] < 200
    for step in store.steps():  # what is committed is whole
        assert store.read(step).step == step
    (store.folder / "steps" / ".1.partial.npz").write_bytes(b"half")
    subprocess.run(script, check=True, stderr=subprocess.DEVNULL)
    assert store.steps() == steps_of(Schedule(3), 200)
    assert not list(store.folder.rglob(".*partial*"))
    (tmp_path / "whole").mkdir()
    monkeypatch.chdir(tmp_path / "whole")
    exec(compile(LOOP, "loop", "exec"), {})
    assert read_watched("watched").identical(read_watched(store.folder))


def test_damaged_step_is_named(tmp_path):
    with ss.Watch(model := tiny_gpt2(), 5, tmp_path) as watch:
        train(model, 5, watch.step)
    path = tmp_path / "steps" / "0000000004.npz"
    path.write_bytes(path.read_bytes()[:200])
    refused("0000000004.npz cannot be read.*delete it", read_watched, tmp_path)
    path.unlink()
    assert list(read_watched(tmp_path)["time"].values) == [0, 1, 2, 5]
    refused(r"no meta\.json", read_watched, tmp_path / "elsewhere")


# ---- when things go wrong ------------------------------------------------------------------------------------


def test_empty_parameters_are_refused(tmp_path):
    model = tiny_gpt2()
    for parameter in model.parameters():
        parameter.data = torch.empty(0)
    refused("is empty, as ZeRO-3.*GatheredParameters", ss.Watch, model, folder=tmp_path)
    refused("meta device", ss.Watch, tiny_gpt2().to("meta"), folder=tmp_path)


def test_parameters_that_are_sharded_later_are_refused(tmp_path):
    with ss.Watch(model := tiny_gpt2(), 1, tmp_path) as watch:
        full = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        for parameter in model.parameters():
            parameter.data = torch.empty(0)
        refused("is empty", watch.step, 1)
        watch.step(2, state=full)
        assert watch.steps == [0, 2]


def test_distributed_tensors_are_refused(tmp_path):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=torch.distributed.HashStore())
    try:
        mesh = init_device_mesh("cpu", (1,))
        model = tiny_gpt2()
        full = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        for block in model.transformer.h:
            weight = distribute_tensor(block.attn.c_attn.weight.detach(), mesh, [Shard(0)])
            block.attn.c_attn.weight = torch.nn.Parameter(weight)
        refused("sharded over devices.*state=get_model_state_dict", ss.Watch, model, folder=tmp_path)
        ss.Watch(model, folder=tmp_path, state=full).close()
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize("device", ["cpu", "model"])
def test_diverged_training_is_a_result(tmp_path, device):
    with ss.Watch(model := tiny_gpt2(), 1, tmp_path / "run", device=device) as watch:
        train(model, 2, watch.step)
        with torch.no_grad():
            model.transformer.h[1].attn.c_attn.weight[0, 0] = float("nan")
        watch.step(3)
        found = watch.trajectory
        assert watch.stages()
        watch.report(tmp_path / "run.png")
    assert found.attrs["diverged"] == [3]
    assert np.isnan(found["stable_rank"].sel(time=3, layer="1")).all()
    assert np.isfinite(found["stable_rank"].sel(time=3, layer="0")).all()
    refused("not finite at the start", ss.Watch, model, folder=tmp_path / "other")


def test_error_beside_the_training_surfaces(tmp_path, monkeypatch):
    watch = ss.Watch(tiny_gpt2(), 1, tmp_path, background=True)
    watch.step(1)
    watch.state()

    def broken(*arguments):
        raise RuntimeError("no convergence")

    monkeypatch.setattr("saddlescope.watch.watch.measure", broken)
    watch.step(2)
    with pytest.raises(RuntimeError, match="no convergence"):
        for step in range(3, 1000):
            watch.step(step)
            time.sleep(0.001)
    monkeypatch.undo()
    watch.close()


def test_full_disk_does_not_end_the_training(tmp_path, monkeypatch):
    write = WatchFolder.write
    full = [True]

    def fails(store, record):
        if full[0] and record.step >= 2:
            raise OSError(28, "No space left on device")
        write(store, record)

    monkeypatch.setattr(WatchFolder, "write", fails)
    with ss.Watch(model := tiny_gpt2(), 1, tmp_path, background=True) as watch:
        with pytest.warns(UserWarning, match=r"step 2 could not be written.*No space left") as caught:
            train(model, 4, watch.step)
            watch.state()
            watch.step(5)
        assert len(caught) == 1
        found = watch.trajectory
        assert found.attrs["unwritten"] == [2, 3, 4, 5]
        full[0] = False
        train(model, 6, watch.step, first=6)
        assert watch.trajectory.attrs["unwritten"] == []
    assert list(read_watched(tmp_path)["time"].values) == [0, 1, 2, 3, 4, 5, 6]


def test_going_back_without_rewinding_is_noticed(tmp_path):
    with ss.Watch(model := tiny_gpt2(), 1, tmp_path) as watch:
        train(model, 4, watch.step)
        with pytest.warns(UserWarning, match=r"step 2 came after step 4.*rewind\(2\)"):
            watch.step(2)
        watch.rewind(2)
        watch.step(2)
        assert watch.steps == [0, 1, 2]
    refused(r"after close\(\)", watch.step, 3)


# ---- transformers --------------------------------------------------------------------------------------------


COPIES = [{"input_ids": tokens(place)[0], "labels": tokens(place)[0]} for place in range(64)]


class Logger(transformers.TrainerCallback):
    """Stands for a logger that the Trainer itself sets up: it comes before the user's callbacks."""

    def __init__(self):
        self.seen = []

    def on_log(self, args, state, control, logs=None, **kwargs):
        self.seen.append(dict(logs or {}))


TRAINER: dict[str, Any] = dict(per_device_train_batch_size=4, gradient_accumulation_steps=2, learning_rate=0.05)
TRAINER |= dict(lr_scheduler_type="constant", logging_steps=1, report_to=[], disable_tqdm=True, use_cpu=True, seed=0)


def trainer_run(folder, last, resume=None, callback=None, save=5):
    arguments = transformers.TrainingArguments(str(folder), max_steps=last, save_steps=save, **TRAINER)
    callbacks = [Logger(), callback or ss.SaddleCallback(every=4, background=True)]
    trainer = transformers.Trainer(tiny_gpt2(), arguments, train_dataset=COPIES, callbacks=callbacks)
    trainer.train(resume_from_checkpoint=resume)
    return trainer, *callbacks


def test_trainer_resumed_equals_uninterrupted(tmp_path):
    trainer, logger, _ = trainer_run(tmp_path / "whole", 12)
    whole = read_watched(tmp_path / "whole" / "saddlescope")
    assert list(whole["time"].values) == steps_of(Schedule(4), 12)
    assert np.isfinite(whole["loss"].values[1:]).all()
    losses = {entry["step"]: entry["loss"] for entry in trainer.state.log_history if "loss" in entry}
    assert [losses[step] for step in whole["time"].values[1:]] == list(whole["loss"].values[1:])

    # The first run goes past its checkpoint at step 5; the second begins there and measures 6, 7, ... again.
    trainer_run(tmp_path / "parts", 9)
    checkpoint = tmp_path / "parts" / "checkpoint-5"
    stored = json.loads((checkpoint / "trainer_state.json").read_text())
    assert stored["stateful_callbacks"]["SaddleCallback"]["args"]["every"] == 4
    *_, resumed = trainer_run(tmp_path / "parts", 12, resume=str(checkpoint))
    parts = read_watched(tmp_path / "parts" / "saddlescope")
    assert list(parts["time"].values) == list(whole["time"].values)
    assert np.allclose(parts["singular_values"], whole["singular_values"], rtol=1e-6, atol=1e-9)
    assert resumed.watch is not None and resumed.watch.resumed

    entry = [entry for entry in trainer.state.log_history if "saddlescope/step" in entry][-1]
    assert entry["saddlescope/step"] == 12
    for circuit in ("QK", "OV"):
        mean = float(whole["stable_rank"].sel(time=12, circuit=circuit).mean())
        assert entry[f"saddlescope/stable_rank_{circuit.lower()}"] == pytest.approx(mean)
    # The logger comes before the callback and still sees the same numbers.
    assert [entry for entry in logger.seen if "saddlescope/step" in entry][-1]["saddlescope/relative_change"] > 0


def test_trainer_that_begins_anew_sets_the_earlier_run_aside(tmp_path):
    trainer_run(tmp_path, 2)
    trainer_run(tmp_path, 1)
    assert list(read_watched(tmp_path / "saddlescope-1")["time"].values) == [0, 1, 2]
    assert list(read_watched(tmp_path / "saddlescope")["time"].values) == [0, 1]


def test_trainer_may_resume_what_was_not_watched(tmp_path):
    trainer_run(tmp_path, 4, callback=Logger(), save=2)
    trainer_run(tmp_path, 6, resume=str(tmp_path / "checkpoint-2"), save=2)
    found = read_watched(tmp_path / "saddlescope")
    assert found.attrs["start"] == 2
    assert list(found["time"].values) == [2, 4]


# ---- PEFT ----------------------------------------------------------------------------------------------------


def with_lora(**options):
    peft = pytest.importorskip("peft")
    torch.manual_seed(0)
    return peft.get_peft_model(tiny_gpt2(), peft.LoraConfig(fan_in_fan_out=True, **options))


def test_lora_change_is_that_of_the_merged_weights(tmp_path):
    model = with_lora(r=4, lora_alpha=8, target_modules=["c_attn", "c_fc"])
    start = dense_products(tiny_gpt2().state_dict(), heads=2)
    with ss.Watch(model, 5, tmp_path / "run") as watch:
        train(model, 5, watch.step)
        found = watch.trajectory.sel(time=5)
        watch.report(tmp_path / "run.png")
    factors = model.base_model.model.transformer.h[0].mlp.c_fc
    product = 2.0 * factors.lora_B["default"].weight.double() @ factors.lora_A["default"].weight.double()
    exact = torch.linalg.svdvals(product)[:4].detach().numpy()
    modules = [f"transformer.h.{n}.{m}" for n in range(2) for m in ("attn.c_attn", "mlp.c_fc")]
    assert list(found["module"].values) == modules
    assert np.allclose(found["lora_singular_values"].sel(module="transformer.h.0.mlp.c_fc")[:4], exact, rtol=1e-10)
    assert float(found["lora_stable_rank"][0]) >= 1

    with ss.Watch(model, 5, tmp_path / "run") as watch:  # the start is read back, factors included
        watch.resume_from(4)
        watch.step(5)
        assert np.array_equal(watch.trajectory.sel(time=5)["singular_values"], found["singular_values"])

    # Merging happens in 64 bits here: in 32 it would round away what is compared.
    merged = model.double().merge_and_unload()
    change = np.linalg.svd(dense_products(merged.state_dict(), heads=2) - start, compute_uv=False)
    assert np.allclose(found["singular_values"], change, rtol=1e-9, atol=1e-12 * change.max())


@pytest.mark.parametrize("options", [{"use_dora": True}, {"init_lora_weights": "pissa"}])
def test_lora_variants_start_from_zero_change(tmp_path, options):
    model = with_lora(r=2, target_modules=["c_attn"], **options)
    with ss.Watch(model, 2, tmp_path) as watch:
        train(model, 2, watch.step)
        found = watch.trajectory
    assert any("DoRA" in note for note in found.attrs["notes"]) == ("use_dora" in options)
    assert not found["singular_values"].sel(time=0).values.any()
    assert (found["relative_change"].sel(time=2, circuit="QK") > 0).all()


# ---- Lightning -----------------------------------------------------------------------------------------------


def lightning_run(folder, last, resume=None):
    import lightning.pytorch as pl
    from lightning.pytorch.callbacks import ModelCheckpoint
    from lightning.pytorch.loggers import CSVLogger

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = tiny_gpt2()

        def training_step(self, batch, _):
            return self.model(input_ids=batch, labels=batch).loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    source = [tokens(place)[0] for place in range(1000)]
    callback = ss.LightningCallback(every=4)
    settings: dict[str, Any] = dict(accelerator="cpu", default_root_dir=folder, accumulate_grad_batches=2)
    settings |= dict(logger=CSVLogger(folder, name="logs"), enable_progress_bar=False, enable_model_summary=False)
    callbacks = [callback, ModelCheckpoint(folder, "{step}", every_n_train_steps=5, save_top_k=-1)]
    trainer = pl.Trainer(max_steps=last, callbacks=callbacks, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer.fit(Module(), torch.utils.data.DataLoader(source, batch_size=4), ckpt_path=resume)
    assert callback.watch is not None
    return callback.watch


def test_lightning_resumed_goes_on(tmp_path):
    pytest.importorskip("lightning")
    first = lightning_run(tmp_path, 9).trajectory
    assert list(first["time"].values) == steps_of(Schedule(4), 9)
    assert np.isfinite(first["loss"].values[1:]).all()
    assert "saddlescope/stable_rank_qk" in (tmp_path / "logs" / "version_0" / "metrics.csv").read_text()
    found = lightning_run(tmp_path, 13, resume=tmp_path / "step=5.ckpt").trajectory
    assert list(found["time"].values) == steps_of(Schedule(4), 13)
    before = first["time"].values[first["time"].values <= 5]
    assert found.sel(time=before)["singular_values"].equals(first.sel(time=before)["singular_values"])
    assert not (tmp_path / "saddlescope-1").exists()


# ---- jax -----------------------------------------------------------------------------------------------------

ROLES = ("query", "key", "value", "output")
MAPPING = {"heads": 2, "orientation": "in_out"} | {role: f"layers.{{layer}}.attention.{role}" for role in ROLES}


def tree(seed):
    weights = iter(jax.random.normal(jax.random.key(seed), (8, 6, 6)))
    layers = [{"attention": {role: next(weights) for role in ROLES}} for _ in range(2)]
    return {"layers": layers, "name": "not an array"}


def second_ov(params):
    """Of the second head of the second layer."""
    value, output = (np.asarray(params["layers"][1]["attention"][role], float) for role in ROLES[2:])
    return value[:, 3:] @ output[3:]


@pytest.mark.parametrize("device", ["cpu", "model"])
def test_tree_of_jax(tmp_path, device):
    params, target = tree(0), tree(1)
    seen = {}
    with ss.TreeWatch(params, mapping=MAPPING, every=2, folder=tmp_path, device=device) as watch:
        for step in (1, 2, 3):
            share = step / 3
            now = jax.tree.map(lambda a, b, s=share: a + s * (b - a) if hasattr(a, "shape") else a, params, target)
            watch.step(step, now, loss=1 - share)
            seen[step] = now
        found = watch.trajectory
    assert list(found["time"].values) == [0, 1, 2]
    assert list(found["loss"].values[1:]) == pytest.approx([2 / 3, 1 / 3])
    exact = np.linalg.svd(second_ov(seen[2]) - second_ov(params), compute_uv=False)
    measured = found["singular_values"].sel(time=2, layer="1", circuit="OV")[1]
    assert np.allclose(measured, exact, atol=1e-6 * exact[0])
    layout = find_layout({name: leaf.shape for name, leaf in named_leaves(params).items()}, None, MAPPING)
    assert np.allclose(measure_tree(params, seen[3], layout).singular_values, measure_tree(params, target, layout)[0])


def test_tree_that_changes_shape_is_refused(tmp_path):
    with ss.TreeWatch(tree(0), mapping=MAPPING, every=1, folder=tmp_path) as watch:
        refused("`params` has nothing at 'layers.0.attention.query'", watch.step, 1, {"layers": []})


# ---- imports -------------------------------------------------------------------------------------------------


def test_importing_the_room_is_light():
    found = loaded_by("import saddlescope.watch.folder, saddlescope.watch.run")
    assert not {"torch", "transformers", "lightning", "jax", "peft"} & found


def test_a_step_at_which_nothing_is_due_costs_microseconds(tmp_path):
    with ss.Watch(tiny_gpt2(), 10**6, tmp_path, schedule="every") as watch:
        watch.step(1)
        began = time.perf_counter()
        for step in range(2, 1002):
            watch.step(step)
        assert time.perf_counter() - began < 0.1  # some 1e-3 s on a quiet machine
