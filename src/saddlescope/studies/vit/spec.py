"""The frozen parameters of one training."""

from __future__ import annotations

import math
from dataclasses import dataclass

from saddlescope.core.errors import unknown
from saddlescope.core.spec import Parameters, require

ACTIVATIONS = ("gelu", "relu")
PRECISIONS = ("float32", "bfloat16")


@dataclass(frozen=True, kw_only=True)
class ViTSpec(Parameters):
    """data: "digits", which scikit-learn brings along; a folder of images; or the name of one below SADDLESCOPE_DATA.
    labels: which column or entry holds the labels; null: label, or fine_label.
    image_size: images are shrunk and cut to this; null: as they are stored.
    patch: side of the square of pixels that makes a token.
    depth: number of blocks.
    width: of the embedding, the paper's d_emb.
    mlp_width: of the hidden layer of each block's MLP.
    heads: per block.
    head_width: the paper's d_h; heads x head_width need not be `width`.
    activation: gelu or relu.
    init_scale: factor on the initial values of all layers but the token map.
    epochs: passes over the training images; 0 only looks at the start.
    warmup_epochs: of linear warm-up, before a cosine decay to zero.
    learning_rate: the highest, of Adam.
    batch_size: images per step; an epoch's last, incomplete batch is left out.
    augment: random crops (of images padded by an eighth of their side) and mirror images.
    precision: float32, or bfloat16 for the products (weights and Adam's moments stay in 32 bits).
    modes: singular values of each head's change that are kept.
    data_seed: of the order of the images, and of crops and mirror images.
    """

    data: str = "digits"
    labels: str | None = None
    image_size: int | None = None
    patch: int = 2
    depth: int = 3
    width: int = 64
    mlp_width: int = 64
    heads: int = 4
    head_width: int = 32
    activation: str = "gelu"
    init_scale: float = 1.0
    epochs: int = 12
    warmup_epochs: float = 1.0
    learning_rate: float = 1e-3
    batch_size: int = 96
    augment: bool = False
    precision: str = "float32"
    modes: int = 32
    data_seed: int = 0

    def check(self) -> None:
        require(self.data != "", "data", self.data, "`digits`, a folder, or a name below SADDLESCOPE_DATA")
        for name in ("patch", "depth", "width", "mlp_width", "heads", "head_width", "batch_size", "modes"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "at least 1")
        require(self.image_size is None or self.image_size >= 1, "image_size", self.image_size, "at least 1")
        if self.activation not in ACTIVATIONS:
            raise unknown("activation", self.activation, ACTIVATIONS)
        if self.precision not in PRECISIONS:
            raise unknown("precision", self.precision, PRECISIONS)
        require(
            0 < self.init_scale < math.inf,
            "init_scale",
            self.init_scale,
            "positive and finite",
            "with every layer zero nothing but the last bias would learn",
        )
        require(0 < self.learning_rate < math.inf, "learning_rate", self.learning_rate, "positive and finite")
        require(self.epochs >= 0, "epochs", self.epochs, "zero or positive")
        require(0 <= self.warmup_epochs < math.inf, "warmup_epochs", self.warmup_epochs, "zero or positive")
        if self.epochs:
            require(
                self.warmup_epochs < self.epochs, "warmup_epochs", self.warmup_epochs, f"below `epochs` = {self.epochs}"
            )
        require(self.data_seed >= 0, "data_seed", self.data_seed, "zero or positive")


PAPER = {
    "data": "cifar10",
    "patch": 4,
    "depth": 6,
    "width": 512,
    "mlp_width": 512,
    "heads": 8,
    "head_width": 128,
    "epochs": 500,
    "warmup_epochs": 15,
    "learning_rate": 1e-4,
    "batch_size": 512,
    "augment": True,
    "precision": "bfloat16",
}
"""Appendix B; crops and mirror images are ours: without them the loss is zero long before the last epoch."""

IMAGENET = {
    **PAPER,
    "data": "imagenet",
    "image_size": 224,
    "patch": 16,
    "depth": 12,
    "width": 768,
    "mlp_width": 3072,
    "heads": 12,
    "head_width": 64,
    "epochs": 360,
    "learning_rate": 3e-3,
    "batch_size": 4096,
}
"""ViT-Base/16."""

PRESETS = {
    "tiny": {"depth": 2, "width": 16, "mlp_width": 16, "heads": 2, "head_width": 8, "epochs": 3, "patch": 4},
    "quick": {},
    "paper": PAPER,
    "cifar100": {**PAPER, "data": "cifar100"},
    "imagenet": IMAGENET,
}
