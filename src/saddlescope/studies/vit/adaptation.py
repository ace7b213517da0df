"""A pretrained network brought to another task: in full, by the first directions of that change, and by LoRAs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from saddlescope.checkpoints.advice import Advice, advise
from saddlescope.checkpoints.diff import diff
from saddlescope.core.errors import BadArgument
from saddlescope.core.files import write_whole
from saddlescope.core.progress import Tick, part_of

from .images import Images
from .lora_spec import LoRASpec
from .processes import processes
from .training import Adapt, Trained, train
from .truncation import Judgement, Kept, Weights, cut, directions_of, keep_directions


class Adapted(NamedTuple):
    """What the stages showed. lora, small: None where the full fine-tuning left nothing to advise on.

    matrices: names of the linear layers' weights; whatever is indexed by module is in this order.  ranks: advised, by
    name.  kept: of the full change, by rank.
    judged: networks on the training images of the new task: `start`, pretrained; `full`; `cut`, the full change at the
    advised ranks; `held`, the same with all that a LoRA does not change as it was at the start; `lora`; `small`.
    """

    full: Trained
    lora: Trained | None
    small: Trained | None
    matrices: list[str]
    ranks: Mapping[str, int]
    kept: Kept
    judged: Mapping[str, Judgement]
    parameters: Mapping[str, int]
    result: str
    seconds: float


def adapt_network(spec: LoRASpec, seed: int, images: Images, home: Path, tick: Tick) -> Adapted:
    """home: each training keeps there, in a folder of its own, what it needs to go on; one that is done is read."""
    if processes() > 1:
        raise BadArgument("vit/lora trains in one process: start it without torchrun")
    trained: dict[str, Trained] = {}

    def stage(name: str, title: str, epochs: int, rate: float, data: Images, **options: Any) -> Trained:
        folder = home / name
        folder.mkdir(exist_ok=True)
        part = part_of(tick, len(trained), 4, title)
        found = train(spec.stage(epochs, rate), seed, data, folder, part, **options)
        assert found is not None  # in one process
        trained[title] = found
        return found

    start = stage("pretrained", "pretraining", spec.epochs, spec.learning_rate, images).end
    task = turned(images)
    full = stage("full", "full fine-tuning", spec.tune_epochs, spec.tune_learning_rate, task, start=start)
    matrices = [name for name, tensor in full.end.items() if tensor.ndim == 2]
    advice = advice_for(start, full.end, home, spec.energy)
    ranks = {name: advice.ranks.get(name, 0) for name in matrices}
    there = cut(start, full.end, directions_of(start, full.end, matrices), ranks)
    judged = {
        "full": full.judge(full.end),
        "cut": full.judge({**full.end, **there}),
        "held": full.judge({**start, **there}),
        "start": full.judge(start),
    }
    loras: dict[str, Trained] = {}
    configs = {"lora": advice.config, "small": of_one_rank(advice.config, spec.small_rank)} if advice.ranks else {}
    for name, config in configs.items():
        loras[name] = stage(
            name,
            {"lora": "LoRA of the advised ranks", "small": f"LoRA of rank {spec.small_rank}"}[name],
            spec.tune_epochs,
            spec.lora_learning_rate,
            task,
            start=start,
            adapt=with_adapters(config, seed),
            schedule="log",
        )
        judged[name] = loras[name].judge(loras[name].end)
    ends = [f"{title} {found.result}" for title, found in trained.items() if found.result != "finished"]
    return Adapted(
        full,
        loras.get("lora"),
        loras.get("small"),
        matrices,
        ranks,
        keep_directions(start, full.end, matrices, full.judge),
        judged,
        {
            "full": sum(tensor.numel() for tensor in full.end.values()),
            "lora": advice.parameters,
            "small": sum(spec.small_rank * sum(full.end[name].shape) for name in advice.ranks),
        },
        ends[0] if ends else "finished",
        sum(found.seconds["training"] for found in trained.values()),
    )


def turned(images: Images) -> Images:
    """The same images and labels, every image turned by a quarter."""
    train_pixels, test_pixels = (
        np.ascontiguousarray(np.rot90(pixels, axes=(2, 3))) for pixels in (images.train_pixels, images.test_pixels)
    )
    return images._replace(train_pixels=train_pixels, test_pixels=test_pixels)


def advice_for(start: Weights, end: Weights, home: Path, energy: float) -> Advice:
    """As `saddlescope diff` gives it for these weights in two files."""
    from safetensors.torch import save_file

    files = [home / "start.safetensors", home / "tuned.safetensors"]
    for file, weights in zip(files, (start, end), strict=True):
        on_host = {name: tensor.cpu().contiguous() for name, tensor in weights.items()}
        write_whole(file, lambda partial, tensors=on_host: save_file(tensors, partial))
    return advise(diff(*files, heads=False), energy=energy)


def of_one_rank(config: Mapping[str, Any], rank: int) -> dict[str, Any]:
    """Factors act as they are where alpha is the rank."""
    return {**config, "r": rank, "lora_alpha": rank, "rank_pattern": {}, "alpha_pattern": {}}


def with_adapters(config: Mapping[str, Any], seed: int) -> Adapt:
    """PEFT's own: A is drawn, B is zero, and nothing else is trained."""
    from peft import LoraConfig, get_peft_model

    def adapt(model: torch.nn.Module) -> torch.nn.Module:
        # The network is in memory, not at the path of the comparison.
        wanted = {**config, "inference_mode": False, "base_model_name_or_path": None}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return get_peft_model(model, LoraConfig(**wanted))  # pyright: ignore[reportArgumentType]

    return adapt
