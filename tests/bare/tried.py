"""What is tried in a bare environment: commands, Python and programs, by what has to be installed or must not be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from safetensors.numpy import save_file

from saddlescope import __version__
from saddlescope.core.extras import missing


class Try(NamedTuple):
    """what: a command of saddlescope, Python code, or the name of a program in programs/.

    words: part of what it prints.  code: that it ends with.
    """

    what: str
    words: str = ""
    code: int = 0
    kind: Literal["command", "python", "program"] = "command"


def python(code: str, words: str = "") -> Try:
    return Try(code, words, kind="python")


def program(name: str, words: str) -> Try:
    return Try(name, words, kind="program")


def refused(command: str, needs: str, *libraries: str) -> Try:
    """A command that lacks libraries."""
    return Try(command, f"error: {missing(needs, *libraries)}", 1)


def not_offered(expression: str, needs: str, *libraries: str) -> Try:
    """An expression of Python that lacks them."""
    code = f"import saddlescope as ss\ntry:\n    {expression}\nexcept ImportError as error:\n    print(error)"
    return python(code, str(missing(needs, *libraries)))


def not_there(*modules: str) -> Try:
    return python(f"from importlib.util import find_spec\nassert not any(map(find_spec, {modules}))")


def importing_none(modules: set[str], *arguments: str) -> Try:
    """A command that does not import these modules even where they are installed."""
    code = "import sys\nfrom saddlescope.cli import run\n"
    return python(f"{code}assert run({list(arguments)}) == 0\nassert not {modules} & set(sys.modules)")


FINISHED = '"result": "finished"'

TRIED: dict[str, tuple[Try, ...]] = {
    "instrument": (
        Try("--help", "diff"),
        Try("--version", __version__),
        Try("list", "vit/lora"),
        Try("list linear_icl", "context_length"),
        Try("list --coverage", "covered"),
        Try('where linear_icl "Eq. (37)"', "prediction.py"),
        Try("where gradual_rank", "network.py"),  # which imports jax
        Try("diff base tuned --json", '"rank_above_floor": 2'),
        Try("diff base tuned --report change.html --out change.csv --extract adapter", "rank"),
        Try("diff adapter", "rank"),
        Try("series run --plot growth.png --out growth.nc", "rank"),
        Try("stages smooth.csv --plot stages.png", "2"),
        Try("predict linear_icl --preset tiny", "eigenvector 1"),
        Try("predict sparse_attention --preset tiny", "pattern 1"),
        Try("predict cooccurrence --preset tiny", "T1"),
        Try("flow linear_icl --preset tiny --out flow.nc --plot flow.svg", "eigenvector 1"),
        Try("stages flow.nc", "1"),
        Try("errata linear_icl --json", '"off_printed": '),
        Try("reproduce vit:12 --full --recorded results", "supported"),
        Try("reproduce linear_icl:4", "4 supported"),
        importing_none({"jax", "torch"}, "diff", "base", "tuned"),
        importing_none({"jax", "torch"}, "series", "run"),
        python("from saddlescope import *\nfrom saddlescope.watch import *\nprint(diff.__name__)", "diff"),
        python("import importlib.resources as r\nassert r.files('saddlescope').joinpath('py.typed').is_file()"),
    ),
    "without jax": (
        not_there("jax", "diffrax", "optax"),
        refused("train linear_icl", "train", "jax"),
        refused("flow gradual_rank", "flow", "jax"),
        refused("flow cooccurrence --seeds 3", "flow", "jax"),
        refused("predict gradual_rank", "predict", "jax"),
        refused("compare linear_icl", "train", "jax"),
        refused("check linear_icl", "check", "jax"),
        refused("reproduce gradual_rank", "train", "jax"),
        Try("errata gradual_rank", "not computed: it needs jax"),
        not_offered("ss.train('linear_icl')", "train", "jax"),
        not_offered("ss.flow('gradual_rank')", "flow", "jax"),
        not_offered("ss.predict('gradual_rank')", "predict", "jax"),
        not_offered("ss.check_system('linear_icl')", "check", "jax"),
        not_offered("ss.from_function(None, 'squared', ([1], [1]), name='own')", "from_function", "jax"),
        not_offered("ss.TreeWatch", "TreeWatch", "jax"),
    ),
    "without torch": (
        not_there("torch", "transformers", "accelerate", "peft", "lightning"),
        not_offered("ss.Watch", "Watch", "torch"),
        not_offered("ss.SaddleCallback", "SaddleCallback", "transformers"),
        not_offered("ss.LightningCallback", "LightningCallback", "lightning"),
        refused("diff pickled tuned", "reading pickled/pytorch_model.bin", "torch"),
        refused("diff base tuned --out change.parquet", "writing change.parquet", "pyarrow"),
        refused("train vit", "train", "torch", "pyarrow", "sklearn"),
        refused("train vit/lora", "train", "torch", "pyarrow", "sklearn", "peft"),
    ),
    "without ruptures": (refused("stages noisy.csv", "finding the stages of a noisy curve", "ruptures"),),
    "lab": (
        Try("predict gradual_rank --preset tiny --json", FINISHED),
        Try("flow gradual_rank --preset tiny --set stages=6 --json", FINISHED),
        Try("flow cooccurrence --preset tiny --seeds 3 --json", FINISHED),
        Try("flow linear_icl --preset tiny --solver implicit --json", FINISHED),
        Try("train linear_icl --preset tiny --json", FINISHED),
        Try("train linear_icl --preset tiny --set optimizer=adam learning_rate=0.01 steps=20 --json", "by time 0.4;"),
        Try("train sparse_attention/full --preset tiny --json", FINISHED),
        Try("compare linear_icl --preset tiny", "train"),
        Try("check linear_icl/softmax --json", '"passed"'),
        Try("check squares_of_mine:Squares --json", '"passed"'),
        python("import saddlescope as ss\nprint(ss.judge(ss.system('linear_icl', 'tiny'))[0].verdict)", "ed"),
        python("from saddlescope import *\nprint(TreeWatch.__name__)", "TreeWatch"),
    ),
    "stages": (Try("stages noisy.csv", "2"), python("import google_crc32c")),
    "torch": (program("watch_torch", "'head': 4"),),
    "vision": (
        Try("diff base tuned --out change.parquet", "rank"),
        Try("train vit --preset tiny --json", FINISHED),
    ),
    "hf": (program("trainer", "'head': 2"), program("lightning_fit", "'head': 2"), program("adapter", "[2, 2]")),
    "everything": (
        Try("train vit/lora --preset tiny --json", FINISHED),
        python("import saddlescope as ss\nfrom saddlescope import *\nassert set(ss.__all__) == set(ss.HOMES)"),
    ),
}


def plant(folder: Path) -> None:
    """What the commands above look at: two checkpoints with a change of rank 2, a run of five, two curves, a system."""
    rng = np.random.default_rng(0)
    shapes = {"attn.c_attn": (32, 96), "attn.c_proj": (32, 32), "mlp.c_fc": (32, 128), "mlp.c_proj": (128, 32)}
    base = {f"h.{n}.{name}.weight": rng.normal(size=shape) for n in range(2) for name, shape in shapes.items()}
    change = {name: rng.normal(size=(len(w), 2)) @ rng.normal(size=(2, w.shape[1])) for name, w in base.items()}
    sizes = {"base": 0.0, "tuned": 0.1, **{f"run/checkpoint-{step}": step / 1000 for step in (1, 2, 4, 8, 16)}}
    config = json.dumps({"model_type": "gpt2", "n_head": 4, "n_embd": 32})
    for name, size in sizes.items():
        weights = {key: (weight + size * change[key]).astype(np.float32) for key, weight in base.items()}
        (folder / name).mkdir(parents=True)
        (folder / name / "config.json").write_text(config)
        save_file(weights, folder / name / "model.safetensors")
    (folder / "pickled").mkdir()
    (folder / "pickled" / "config.json").write_text(config)
    (folder / "pickled" / "pytorch_model.bin").write_bytes(b"never looked into: torch is missing")
    time = np.arange(1, 2001)
    loss = 1 / (1 + (time / 30) ** 4) + 1 / (1 + (time / 600) ** 8)
    noise = 1 + 0.02 * rng.normal(size=len(time))
    for name, values in (("smooth", loss), ("noisy", loss * noise)):
        rows = [f"{t},{value}" for t, value in zip(time, values, strict=True)]
        (folder / f"{name}.csv").write_text("\n".join(["step,loss", *rows]))
    (folder / "squares_of_mine.py").write_text("from saddlescope.templates.squares import Squares\n")
