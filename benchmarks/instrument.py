"""What the instrument costs: spectra of heads and matrices, whole checkpoints, and training that is watched."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from tests.planted import planted

from saddlescope.spectra.factored import change_factors, spectrum
from saddlescope.spectra.heads import circuits, widened
from saddlescope.spectra.layouts import HeadWeights
from saddlescope.spectra.matrix import MatrixChange

Row = tuple[str, str, str]


def _timed(function: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    found = function()
    return time.perf_counter() - began, found


def head_spectra() -> Iterator[Row]:
    """All head products of a LLaMA-7B-shaped layer (d=4096, 32 heads of 128): factored against dense SVD."""
    rng = np.random.default_rng(0)
    shapes = [(32, 4096, 128)] * 3 + [(32, 128, 4096)]
    before = HeadWeights(*(0.02 * rng.normal(size=shape).astype(np.float32) for shape in shapes))
    after = HeadWeights(*(array + 1e-4 * rng.normal(size=array.shape).astype(np.float32) for array in before))
    one, other = circuits(widened(before)), circuits(widened(after))

    def factored():
        for name in one:
            for head in range(32):  # one at a time: what `diff` holds at once
                ends = [product[name][side][head] for product in (one, other) for side in (0, 1)]
                spectrum(*change_factors(*ends))

    ours, _ = _timed(factored)
    first = [product["QK"][side][0] for product in (one, other) for side in (0, 1)]
    dense, values = _timed(lambda: np.linalg.svd(first[2] @ first[3].T - first[0] @ first[1].T, compute_uv=False))
    error = np.abs(spectrum(*change_factors(*first)) - values[:256]).max() / values[0]
    yield (
        "spectra of 64 head products, d=4096: dense SVD (one, times 64) / factored",
        f"{64 * dense / ours:.0f} x ({ours:.1f} s; they differ by {error:.0e} of the largest)",
        "at least 50 x",
    )


def top_of_matrix() -> Iterator[Row]:
    """4096 x 11008 with a planted rank of 16, bf16: everything `diff` asks of it, against one full SVD."""
    case = planted(
        np.random.default_rng(1), shapes=((4096, 11008),), ranks=(16,), formats=("bfloat16",), kinds=("gaussian",)
    )

    def ours():
        change = MatrixChange.of(case.before, case.after)
        return change.spectrum, change.rank_above_floor

    spent, (found, rank) = _timed(ours)
    change = MatrixChange.of(case.before, case.after)
    _ = change.floor, change.rank_above_floor
    top, _ = _timed(change._top)
    dense = case.after.astype(np.float32) - case.before.astype(np.float32)
    full, values = _timed(lambda: np.linalg.svd(dense, compute_uv=False))
    miss = np.abs(found.singular_values[:16] / values[:16] - 1).max()
    yield (
        "4096 x 11008: full SVD (float32, values only) / top 16 with its certificate",
        f"{full / top:.0f} x ({top:.1f} s, values to {miss:.0e})",
        "at least 20 x",
    )
    yield (
        "the same / all that diff does (floor, rank above it, spectrum)",
        f"{full / spent:.1f} x ({spent:.1f} s; rank {rank} of 16)",
        "",
    )


def planted_ranks() -> Iterator[Row]:
    """A thousand fresh draws: ranks 1 to 32, three formats, six kinds of weights, 64 x 64 to 1024 x 4096."""
    seed = int(time.time())
    rng = np.random.default_rng(seed)
    shapes = ((64, 64),) * 5 + ((64, 256), (256, 256), (256, 1024)) * 4 + ((512, 1024), (1024, 1024), (1024, 4096))
    seen = wrong = over = 0
    for _ in range(1000):
        case = planted(rng, shapes=shapes)
        found = MatrixChange.of(case.before, case.after)
        if case.values[-1] > 2 * found.floor:
            seen += 1
            wrong += found.rank_above_floor != case.rank
        over += found.rank_above_floor + found.hidden_at_least > case.rank
    yield (
        f"planted ranks found where the least is twice the floor (seed {seed})",
        f"{seen - wrong} of {seen}; too many announced in {over} of 1000",
        "at least 99%",
    )


_PEAK = """
import resource, sys, threading, time
sys.argv = ["saddlescope", *sys.argv[1:]]
peak = [0]
def watch():
    while True:
        for line in open("/proc/self/status"):
            if line.startswith("RssAnon"):
                peak[0] = max(peak[0], int(line.split()[1]))
        time.sleep(0.05)
threading.Thread(target=watch, daemon=True).start()
from saddlescope.cli import run
began = time.perf_counter()
code = run(sys.argv[1:])
print(code, peak[0], time.perf_counter() - began, file=sys.stderr)
"""


def _diff_in_a_process(*arguments: str) -> tuple[float, float]:
    """Peak anonymous memory in GiB, seconds."""
    run = subprocess.run([sys.executable, "-c", _PEAK, "diff", *arguments, "--json"], capture_output=True, text=True)
    code, peak, seconds = run.stderr.split()[-3:]
    if code != "0":
        raise RuntimeError(run.stderr)
    return int(peak) / 2**20, float(seconds)


def memory() -> Iterator[Row]:
    """diff of two sharded checkpoints of 4 GiB in the shapes of a LLaMA, bf16."""
    from safetensors.numpy import save_file

    rng = np.random.default_rng(2)
    noise = rng.normal(size=2**24).astype(np.float32)

    def weight(rows: int, columns: int) -> np.ndarray:
        return np.resize(np.roll(noise, int(rng.integers(2**24))), (rows, columns)) * np.float32(0.02)

    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        places = [Path(folder) / name for name in ("base", "tuned")]
        shapes = {f"model.layers.{{}}.self_attn.{name}_proj.weight": (4096, 4096) for name in "qkvo"}
        shapes |= {f"model.layers.{{}}.mlp.{name}_proj.weight": (11008, 4096) for name in ("gate", "up")}
        shapes["model.layers.{}.mlp.down_proj.weight"] = (4096, 11008)
        shards = [{name.format(layer): shape for name, shape in shapes.items()} for layer in range(10)]
        shards.append({"model.embed_tokens.weight": (16000, 4096)})
        sizes = 0
        for place in places:
            place.mkdir()
            (place / "config.json").write_text(
                '{"model_type": "llama", "num_attention_heads": 32, "num_key_value_heads": 32, "hidden_size": 4096}'
            )
        for number, shard in enumerate(shards):
            both: tuple[dict, dict] = ({}, {})
            for name, (rows, columns) in shard.items():
                before = weight(rows, columns)
                low = rng.normal(size=(rows, 8)).astype(np.float32) @ rng.normal(size=(8, columns)).astype(np.float32)
                both[0][name] = before.astype(ml_dtypes.bfloat16)
                both[1][name] = (before + np.float32(2e-4) * low).astype(ml_dtypes.bfloat16)
            for place, tensors in zip(places, both, strict=True):
                file = place / f"model-{number + 1:05}-of-{len(shards):05}.safetensors"
                save_file(tensors, file)
                sizes += file.stat().st_size
        peak, seconds = _diff_in_a_process(*map(str, places))
        yield (
            f"peak anonymous memory of diff on 2 x {sizes / 2**31:.1f} GiB in 11 shards, heads included",
            f"{peak:.2f} GiB ({seconds:.0f} s)",
            "under 1.5 GiB",
        )


def gpt2_small() -> Iterator[Row]:
    """diff of two GPT-2 small checkpoints, end to end, in bf16."""
    import torch
    import transformers

    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(0)
        model: Any = transformers.GPT2LMHeadModel(transformers.GPT2Config())
        model = model.to(torch.bfloat16)
        model.save_pretrained(f"{folder}/base")
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim == 2:
                    low = torch.randn(parameter.shape[0], 8) @ torch.randn(8, parameter.shape[1])
                    parameter += (0.01 * parameter.float().norm() / low.norm() * low).to(torch.bfloat16)
        model.save_pretrained(f"{folder}/tuned")
        peak, seconds = _diff_in_a_process(f"{folder}/base", f"{folder}/tuned")
    yield ("diff of GPT-2 small, 50 matrices and 288 head products", f"{seconds:.0f} s, {peak:.2f} GiB", "")


def watched() -> Iterator[Row]:
    """A GPT-2-shaped model (4 layers, width 256, 8 heads, batch 8 x 128) watched every 100 steps."""
    import torch
    import transformers

    from saddlescope.watch import Watch

    torch.manual_seed(0)
    config = transformers.GPT2Config(n_layer=4, n_embd=256, n_head=8, vocab_size=1000, n_positions=128)
    model = transformers.GPT2LMHeadModel(config)
    tokens = torch.randint(0, 1000, (8, 128))
    optimizer = torch.optim.Adam(model.parameters(), 1e-4)
    steps = 200

    def train(watch=None) -> float:
        began = time.perf_counter()
        for step in range(1, steps + 1):
            optimizer.zero_grad()
            loss = model(tokens, labels=tokens).loss
            loss.backward()
            optimizer.step()
            if watch is not None:
                watch.step(step, loss=loss)
        return time.perf_counter() - began

    train()
    shares = []
    for _ in range(3):
        alone = train()
        with tempfile.TemporaryDirectory() as folder, Watch(model, every=100, schedule="every", folder=folder) as watch:
            beside = train(watch)
        shares.append(beside / alone - 1)
    yield (
        "training watched every 100 steps / not watched (median of 3)",
        f"{100 * float(np.median(shares)):+.1f}% ({1000 * alone / steps:.0f} ms a step)",
        "under 2%",
    )


BENCHMARKS = (head_spectra, top_of_matrix, planted_ranks, memory, gpt2_small, watched)
