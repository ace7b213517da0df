"""What BLAS's default threads cost beside other work: calls as a user makes them, against one thread for everything."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from saddlescope.lab.pool import WORKER_ENVIRONMENT

Row = tuple[str, str, str]

TURNS = 3

BUSY = "import numpy\na = numpy.random.default_rng(0).normal(size=(300, 300))\nwhile True:\n    a @ a"

TIMED = """
import time
{setup}
def call():
    {call}
call()
began = time.perf_counter()
call()
print(time.perf_counter() - began)
"""

GPT2 = """
import os
import numpy as np
from safetensors.numpy import save_file
import saddlescope as ss
rng = np.random.default_rng(0)
shapes = {"attn.c_attn": (384, 1152), "attn.c_proj": (384, 384), "mlp.c_fc": (384, 1536), "mlp.c_proj": (1536, 384)}
names = {f"h.{n}.{name}.weight": shape for n in range(2) for name, shape in shapes.items()}
base = {name: rng.normal(size=shape).astype(np.float32) for name, shape in names.items()}
for folder, size in (("base", 0.0), ("tuned", 0.01)):
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/config.json", "w") as file:
        file.write('{"model_type": "gpt2", "n_head": 6, "n_embd": 384}')
    tuned = {name: w + np.float32(size) * rng.normal(size=w.shape).astype(np.float32) for name, w in base.items()}
    save_file(tuned, f"{folder}/model.safetensors")
"""

WATCHED = """
import torch
import saddlescope as ss
model = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(128, 4, batch_first=True), 4)
watch = ss.Watch(model, every=1, heads=4, folder="watched", fresh=True)
steps = iter(range(1, 100))
with torch.no_grad():
    for weight in model.parameters():
        weight += 0.01 * torch.randn(weight.shape)
"""

SYSTEM = "import saddlescope as ss\nchosen = ss.system({})\n"

CALLS = {
    "ss.predict, linear_icl on 5000 sequences": (SYSTEM.format("'linear_icl', sequences=5000"), "ss.predict(chosen)"),
    "ss.train, the same, 20,000 steps": (
        SYSTEM.format("'linear_icl', sequences=5000, steps=20000"),
        "ss.train(chosen)",
    ),
    "ss.flow, gradual_rank": (SYSTEM.format("'gradual_rank', dim=20, stages=3"), "ss.flow(chosen)"),
    "ss.diff of a small GPT-2": (GPT2, "ss.diff('base', 'tuned')"),
    # Many, since one takes no longer than a turn of a busy core.
    "20 measurements of Watch": (WATCHED, "for _ in range(20): watch.step(next(steps))"),
}


@contextmanager
def _beside(count: int) -> Iterator[None]:
    """Other work: so many processes that compute."""
    busy = [
        subprocess.Popen([sys.executable, "-c", BUSY], env={**os.environ, **WORKER_ENVIRONMENT}) for _ in range(count)
    ]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def _seconds(script: str, environment: dict[str, str]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        run = [sys.executable, "-c", script]
        done = subprocess.run(run, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def default_threads() -> Iterator[Row]:
    """Both in turns, beside two busy processes; the medians are compared."""
    default = {name: value for name, value in os.environ.items() if name not in WORKER_ENVIRONMENT}
    with _beside(2):
        for what, (setup, call) in CALLS.items():
            script = TIMED.format(setup=setup, call=call)
            turns = [
                (_seconds(script, default), _seconds(script, {**default, **WORKER_ENVIRONMENT})) for _ in range(TURNS)
            ]
            ours, one = (statistics.median(times) for times in zip(*turns, strict=True))
            yield (
                f"beside two busy processes: {what}, default threads / one",
                f"{ours / one:.2f} x ({one:.2f} s)",
                "1.5",
            )
