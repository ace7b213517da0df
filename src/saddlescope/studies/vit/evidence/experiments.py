"""The trainings that claims and figures draw on: digits on any machine, the paper's own on a GPU with the data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saddlescope.core.experiment import Experiment, Size, over

from ..spec import PAPER, PRESETS

SCALES = (1.0, 0.3, 0.1)
"""Initial scales; 1 is the default initialization."""

SHORT = {**PAPER, "epochs": 46, "augment": False}
"""Without crops and mirror images; by then the loss of the default start is below 1e-3."""

SHAPES = (
    {},
    *over("depth", 2, 6),
    *over("heads", 2, 8),
    {"width": 32, "mlp_width": 32},
    {"width": 128, "mlp_width": 128},
)


def _training(name: str, asks: str, fields: Mapping[str, Any], paper: Size, quick: Size | None) -> Experiment:
    return Experiment(name, asks, "vit", "train", paper, quick, fields)


def _on_digits(name: str, asks: str, size: Size) -> Experiment:
    return _training(name, asks, {}, size, size)


def _at_paper_size(name: str, asks: str, fields: Mapping[str, Any], size: Size | None = None) -> Experiment:
    return _training(name, asks, fields, size or Size(), None)


EXPERIMENTS = (
    _on_digits(
        "digits",
        "Low rank and gradual growth, on images that come with scikit-learn.",
        Size(seeds=3),
    ),
    _on_digits(
        "digits_scales",
        "The initial scale.",
        Size(seeds=3, variants=over("init_scale", *SCALES)),
    ),
    _on_digits(
        "digits_activations",
        "ReLU, which the theory does not cover, beside GeLU.",
        Size(seeds=2, variants=over("activation", "gelu", "relu")),
    ),
    _training(
        "shapes",
        "Whether the rank of the change grows with depth, width or the number of heads, on digits.",
        {},
        Size(variants=SHAPES),
        None,
    ),
    _at_paper_size("cifar", "The paper's network and length on CIFAR-10, with crops and mirror images.", PAPER),
    _at_paper_size(
        "cifar_scales",
        "The initial scale at the paper's size.",
        SHORT,
        Size(variants=over("init_scale", *SCALES)),
    ),
    _at_paper_size(
        "cifar_activations",
        "ReLU beside GeLU at the paper's size.",
        SHORT,
        Size(variants=over("activation", "gelu", "relu")),
    ),
    _at_paper_size("cifar100", "The paper's network on CIFAR-100.", PRESETS["cifar100"]),
    _at_paper_size("imagenet", "ViT-Base/16 on ImageNet.", PRESETS["imagenet"]),
    Experiment(
        name="lora",
        asks="Whether the rank of a full fine-tuning's change is the rank that a LoRA needs.",
        system="vit/lora",
        face="train",
        full=Size(seeds=3),
        short=Size(seeds=2),
    ),
)
