"""What nobody should give to the command line, drawn at random: settings of all systems, and checkpoints.

A process of its own makes the calls (`python -m tests.hostile settings SEED COUNT`): its memory is bounded, and one
that crashes or does not come back is noticed. It prints, as JSON, what went wrong.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import random
import re
import resource
import signal
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from saddlescope.cli import run
from saddlescope.core.compilation import keep_compiled
from saddlescope.core.errors import BadArgument
from saddlescope.core.parts import OwnLoop
from saddlescope.core.registry import subject_types
from saddlescope.core.spec import OPTIMIZERS, SCHEDULES

from .test_checkpoints import Bomb, mutated, raw, write_adapter

MEMORY = 12 * 2**30
"""Bytes of address space: what asks for more is to be told so."""

PATIENCE = 60
"""Seconds of computing for one call, however busy the machine is; compiling takes most of them."""

TOO_LONG = f"did not come back within {PATIENCE} s"

STEPS = 20

ENDS = ("finished", "diverged", "horizon_too_short", "max_steps_reached", "solver_failed")
USUAL = re.compile(r"note: |.*: \d+% after \d+ s")
"""Lines on stderr that are no complaint: notes, and how far a long work is."""

WORDS = ("error: not enough memory",)
"""How a call that could not be refused beforehand may fail, with exit code 1."""

NUMBERS = ["0", "-1", "1", "2", "3", "0.5", "1e-300", "1e-12", "17", "1e300", "-1e300"]
NUMBERS += ["NaN", "Infinity", "-Infinity", str(2**31 - 1), str(2**31), str(10**30), str(10**400), "1" * 5000]
LISTS = ["[]", "[1]", "[0,0]", "[1e300,1e-300]", "[1e9,1]", "[NaN]", "[[1],[2]]", "[[[]]]", '["x"]', "[null]"]
LISTS += ["[" * 9999]
OTHERS = ["null", "true", "false", "", "x", "ℓ😀", "\x1b[31m", '{"a":1}', "[1,", '""', "=", *OPTIMIZERS, *SCHEDULES]


class TooLong(BaseException):
    """Not an Exception: nothing may catch it."""


def settings(rng: random.Random) -> list[str]:
    """One call of a face of any subject with a few fields set to what they were not made for.

    Three in four are such that the Spec lets them through.
    """
    kind = rng.choice(list(subject_types().values()))
    loop = isinstance(kind.training and kind().training, OwnLoop)  # such a training takes its time whatever is set
    faces = kind.faces if rng.random() < 0.9 else ("predict", "flow", "train")
    face = rng.choice(("predict", "flow") if loop else faces)
    preset = rng.choice([name for name in kind.presets if name.startswith("tiny")])
    chosen = {"steps": str(STEPS)} if face == "train" and not loop else {}
    legal = rng.random() < 0.75
    names = [field.name for field in fields(kind.spec_type)]
    for name in rng.sample(names if legal else [*names, "bogus", ""], rng.choice([1, 1, 2, 3])):
        for _ in range(20):
            value = hostile_value(rng, kind, name)
            # What is merely long is not asked for.
            long = name == "steps" and value in (str(2**31 - 1), "null")
            if not long and (not legal or accepted(kind, preset, {**chosen, name: value})):
                chosen[name] = value
                break
    more = [["--seed", rng.choice(["-1", str(2**31), "x", "1e3", "7"])], ["--seeds", rng.choice(["0", "-3", "2"])]]
    if face == "flow":
        more += [["--solver", rng.choice(["loose", "tight", "second", "explicit", "implicit", "x"])]]
    return [
        face,
        kind.name,
        *("--preset", preset),
        *(["--set", *(f"{name}={value}" for name, value in chosen.items())] if chosen else []),
        *(rng.choice(more) if rng.random() < 0.15 else []),
        *rng.choice([["--json"], ["--json"], ["--plot", "run.png"], ["--out", "run.csv"]]),
    ]


def hostile_value(rng: random.Random, kind: Any, name: str) -> str:
    usual = [preset[name] for preset in kind.presets.values() if name in preset]
    pools = [NUMBERS, NUMBERS, LISTS, OTHERS, [json.dumps(value) for value in usual] or NUMBERS]
    return rng.choice(rng.choice(pools))


def accepted(kind: Any, preset: str, chosen: dict[str, str]) -> bool:
    """Whether the Spec lets it through, or fails in a way that it should not."""
    try:
        values = {}
        for name, value in chosen.items():
            try:
                values[name] = json.loads(value)
            except (ValueError, RecursionError):
                values[name] = value
        kind(kind.preset(preset).replace(**values))
    except BadArgument:
        return False
    except Exception:
        return True
    return True


def complaint(arguments: Sequence[str]) -> str:
    """What is wrong with how a call ended; "" for nothing."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("always", RuntimeWarning)
        signal.setitimer(signal.ITIMER_PROF, PATIENCE)
        try:
            code = run(list(arguments))
        except TooLong:
            return TOO_LONG
        except BaseException as error:
            import traceback

            return f"{type(error).__name__}: {error}"[:500] + "".join(traceback.format_tb(error.__traceback__)[-2:])
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    return judged(code, out.getvalue(), err.getvalue())


def ended(out: str) -> str:
    """What is wrong with the results."""
    if not out.startswith(("{", "[")):
        return ""
    try:
        found = json.loads(out, parse_constant=lambda name: 1 / 0)
    except (ValueError, ZeroDivisionError) as error:
        return f"no strict JSON: {error!r}"
    results = [one["result"] for one in (found if isinstance(found, list) else [found]) if "result" in one]
    return "".join(f"ended as {result}" for result in results if not result.startswith(ENDS))


def judged(code: int, out: str, err: str) -> str:
    errors = [line for line in err.splitlines() if not USUAL.match(line)]
    if any(not (sign.isprintable() or sign == "\n") for sign in out + err):
        return f"control characters: {err!r}"[:500]
    if len(err) > 5000:
        return f"{len(err)} characters on stderr"
    if code == 0 and not errors:
        return ended(out)
    if code == 2 and not out and len(errors) == 1 and errors[0].startswith("error: ") and "Error: " not in errors[0]:
        return ""
    if code == 1 and not out and len(errors) == 1 and errors[0].startswith(WORDS):
        return ""
    return f"exit {code}: {err}"[:2000]


# ---- checkpoints -----------------------------------------------------------------------------------------

CONFIG = {
    "model_type": "llama",
    "hidden_size": 8,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "num_hidden_layers": 1,
}
NAMES = [f"model.layers.0.self_attn.{side}_proj.weight" for side in "qkvo"] + ["model.layers.0.mlp.up_proj.weight"]
ODD_NAMES = ["x" * 10**6, "a\0b", "a\x1b[31mb", "=1+1", "@x", "[/b]", "$\\frac{$", "..", "model.layers.99999999.x", ""]
ODD_VALUES = [np.nan, np.inf, 1e300, -1e300, 1e-310, 0.0]


def checkpoints(rng: random.Random) -> list[str]:
    """One look at something that is not quite a model, an adapter or a curve, in the current folder."""
    kinds = [damaged_file, odd_tensors, odd_header, odd_config, odd_index, odd_adapter, odd_pickle, odd_curve]
    with np.errstate(over="ignore"):
        return rng.choice(kinds)(rng)


def model(folder: str, change: float = 0.0, extra: dict[str, Any] | None = None) -> Path:
    path = Path(folder)
    path.mkdir(exist_ok=True)
    draw = np.random.default_rng(0)
    tensors = {name: draw.normal(size=(8, 8)) * (1 + change) for name in NAMES} | (extra or {})
    save_file({name: np.asarray(value) for name, value in tensors.items()}, path / "model.safetensors")
    (path / "config.json").write_text(json.dumps(CONFIG))
    return path


def look(rng: random.Random, at: str) -> list[str]:
    """A command that reads this model, mostly beside a sound one."""
    model("base")
    model("later", 0.1)
    options = rng.choice(
        [[], ["--budget", "40"], ["--lora"], ["--extract", "adapter"], ["--exact"], ["--energy", "0.5"]]
    )
    options += rng.choice([[], ["--json"], ["--out", "table.csv"], ["--report", "page.html"], ["--full"]])
    steps = ["--steps", "1", "2", "3", *rng.choice([[], ["--json"], ["--plot", "growth.png"], ["--out", "heads.nc"]])]
    return rng.choice(
        [
            ["diff", "base", at, *options],
            ["diff", at, "base", *options],
            ["diff", at, *options],
            ["series", "base", at, "later", *steps],
            ["series", at, "base", "later", *steps],
        ]
    )


def damage(rng: random.Random, path: Path) -> None:
    path.write_bytes(mutated(np.random.default_rng(rng.randrange(2**32)), path.read_bytes()))


def damaged_file(rng: random.Random) -> list[str]:
    damage(rng, model("odd", 0.1) / rng.choice(["model.safetensors", "config.json"]))
    return look(rng, "odd")


def odd_tensors(rng: random.Random) -> list[str]:
    name, value = rng.choice(NAMES), rng.choice(ODD_VALUES)
    odd = np.random.default_rng(1).normal(size=(8, 8))
    odd[rng.randrange(8), :] = value
    shapes = [(), (0, 8), (8,), (1, 1), (9, 9), (8, 8, 1), (16, 4), (10**5, 0)]
    extra = rng.choice(
        [
            {name: odd},
            {name: np.full((8, 8), value)},
            {name: np.full((8, 8), value, np.float32)},
            {name: np.ones(rng.choice(shapes))},
            {name: np.ones((8, 8), rng.choice([np.int8, np.uint64, np.complex64, bool]))},
            {f"{rng.choice(ODD_NAMES)}.weight": odd},
            {"vector": np.full(8, value)},
        ]
    )
    model("odd", 0.1, extra)
    call = look(rng, "odd")
    if rng.random() < 0.5:  # what is odd is at both ends
        model("base", 0.0, extra)
    return call


def odd_header(rng: random.Random) -> list[str]:
    """A header of safetensors that lies."""
    path = model("odd", 0.1) / "model.safetensors"
    entry = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
    text, length = json.dumps({"a": entry}), None
    case = rng.randrange(6)
    if case == 0:  # one name twice
        text = text[:-1] + ", " + text[1:]
    elif case == 1:
        length = rng.choice([2**63, 2**64 - 1, 10**9, 0, 1])
    elif case == 2:
        text = json.dumps({"a": {**entry, "shape": rng.choice([[2**40, 2**40], [-1, 4], [], "x", [4]])}})
    elif case == 3:
        text = json.dumps({"a": {**entry, "dtype": rng.choice(["F8_E4M3", "I2", "", 3, None])}})
    elif case == 4:
        text = "[" * 10**5
    else:
        text = json.dumps({"__metadata__": rng.choice([3, {"a": 3}, {"format": "\x1b[2J"}]), "a": entry})
    raw(path, text.encode(), b"\0" * 16, length)
    return look(rng, "odd")


def odd_config(rng: random.Random) -> list[str]:
    path = model("odd", 0.1)
    odd = rng.choice([0, -1, 3, 2**63, 1e300, float("nan"), "2", None, [], {}, True, "\x1b[31m"])
    (path / "config.json").write_text(json.dumps(CONFIG | {rng.choice(list(CONFIG)): odd}))
    if rng.random() < 0.3:
        mapping = {"heads": odd, "query": NAMES[0], "key": "{layer}", "value": odd, "output": NAMES[3]}
        Path("map.json").write_text(json.dumps(rng.choice([mapping, odd])))
        return ["diff", "base", str(model("base") and path), "--mapping", "map.json"]
    return look(rng, "odd")


def odd_index(rng: random.Random) -> list[str]:
    path = model("odd", 0.1)
    (path / "model.safetensors").rename(path / "part.safetensors")
    places = ["../base/model.safetensors", "/etc/passwd", "part.safetensors", "absent", "a\0", "\x1b[31m", "x" * 5000]
    index = {"weight_map": {name: rng.choice(places) for name in NAMES}}
    (path / "model.safetensors.index.json").write_text(json.dumps(rng.choice([index, {"weight_map": 3}, [], index])))
    return look(rng, "odd")


def odd_adapter(rng: random.Random) -> list[str]:
    sizes = [1e308, -1e308, 1e150, 0, -3, float("nan"), float("inf"), 10**400, "x", None, True, [1]]
    settings = {rng.choice(["lora_alpha", "r"]): rng.choice(sizes), "use_rslora": rng.random() < 0.5}
    if rng.random() < 0.3:
        pattern = rng.choice(["(", "(.*)*x", "q", "\x1b", "(?P<x>a)" * 99])
        settings[rng.choice(["rank_pattern", "alpha_pattern"])] = {pattern: rng.choice(sizes)}
    name = NAMES[0].removesuffix(".weight")
    a, b = np.ones((2, 8)), np.ones((8, 2))
    factors = rng.choice(
        [a, a * rng.choice(ODD_VALUES), np.ones((2, 0)), np.ones((3, 8)), np.ones(8), a.astype(np.int8)]
    )
    tensors = {f"{name}.lora_A.weight": factors, f"{name}.lora_B.weight": b}
    if rng.random() < 0.2:
        tensors = {f"{rng.choice(ODD_NAMES)}.lora_{side}.weight": part for side, part in (("A", a), ("B", b))}
    path = write_adapter(Path("odd"), tensors, **settings)
    if rng.random() < 0.3:
        damage(rng, path / rng.choice(["adapter_config.json", "adapter_model.safetensors"]))
    return look(rng, "odd")


def odd_pickle(rng: random.Random) -> list[str]:
    path = model("odd", 0.1)
    (path / "model.safetensors").unlink()
    path = path / "pytorch_model.bin"
    bomb = Bomb(Path("harm"))
    case = rng.randrange(4)
    if case == 0:
        path.write_bytes(pickle.dumps({"w": bomb}, protocol=rng.choice([0, 2, 5])))
    elif case == 1:
        np.savez(path.with_suffix(".npz"), w=np.ones((8, 8)))
        path.with_suffix(".npz").rename(path)
    else:
        import torch

        held = {name: torch.ones(8, 8) for name in NAMES} | ({"hidden": bomb} if case == 2 else {})
        torch.save(held, path, _use_new_zipfile_serialization=rng.random() < 0.5)
        if case == 3:
            damage(rng, path)
    return look(rng, "odd")


def odd_curve(rng: random.Random) -> list[str]:
    steps, loss = np.arange(60), np.r_[np.full(30, 2.0), np.full(30, 1.0)] + 1e-3 * np.sin(np.arange(60))
    odd = rng.choice([1e300, -1e300, 1e-320, np.nan, np.inf, 0.0])
    if rng.random() < 0.5:
        (loss if rng.random() < 0.7 else steps.astype(float))[rng.randrange(60)] = odd
    column = rng.choice(["loss", "loss", "\x1b[31mloss", "=loss", "$\\frac{$", "x" * 5000])
    suffix = rng.choice([".csv", ".tsv", ".jsonl", ".json", ".npz", ".nc"])
    path = Path("curve" + suffix)
    rows = [
        {"step": int(step), column: float(value)}
        for step, value in zip(steps, loss * rng.choice([1, odd]), strict=True)
    ]
    if suffix in (".csv", ".tsv"):
        sign = "," if suffix == ".csv" else "\t"
        path.write_text("\n".join([f"step{sign}{column}", *(f"{row['step']}{sign}{row[column]}" for row in rows)]))
    elif suffix == ".npz":
        np.savez(path, loss=loss)
    else:
        path.write_text(json.dumps(rows) if suffix == ".json" else "\n".join(map(json.dumps, rows)))
    if rng.random() < 0.4:
        damage(rng, path)
    return ["stages", str(path), *rng.choice([[], ["--json"], ["--plot", "curve.png"], ["--noisy"], ["--rising"]])]


def calls(what: str, seed: int, count: int) -> Iterator[list[str]]:
    """Each in an empty folder."""
    for number in range(count):
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            yield {"settings": settings, "checkpoints": checkpoints}[what](random.Random(f"{seed}-{number}"))


def main(what: str, seed: str, count: str) -> None:
    def give_up(*_: Any) -> None:
        raise TooLong

    keep_compiled()
    signal.signal(signal.SIGPROF, give_up)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for number, arguments in enumerate(calls(what, int(seed), int(count))):
        wrong = complaint(arguments)
        left = [path.name for path in Path().iterdir() if path.name == "harm" or "partial" in path.name]
        wrong = wrong or (f"left {left}" if left else "")
        if wrong:
            call = [argument[:200] for argument in arguments]
            print(json.dumps({"number": number, "call": call, "wrong": wrong}), flush=True)
        if wrong == TOO_LONG:
            os._exit(1)  # what was cut off in the middle of compiled code is in no state to go on


if __name__ == "__main__":
    main(*sys.argv[1:])
