"""The frozen parameters of a fine-tuning and of the LoRA that is to do the same."""

from __future__ import annotations

import math
from dataclasses import dataclass

from saddlescope.core.spec import require

from .spec import PRESETS as VIT, ViTSpec

TRAINED = ("full", "lora", "small")
NETWORKS = ("full", "cut", "held", "lora", "small", "start")
"""Fine-tuned in full; with its change cut to the advised ranks; the same with all but the matrices as at the start,
which is what a LoRA could hold; by the LoRA of these ranks; by the one of the small rank; before."""


@dataclass(frozen=True, kw_only=True)
class LoRASpec(ViTSpec):
    """A ViTSpec with what comes after its training.

    epochs: of the training that comes first, on the images as they are.
    learning_rate: the highest, of that training.
    tune_epochs: of every fine-tuning, on the same images turned by a quarter.
    tune_learning_rate: the highest, of the fine-tuning of all weights.
    lora_learning_rate: the highest, of the LoRAs.  Below the best one a LoRA is slower than all weights at the same
        rate: of 0.001, 0.003, 0.01 and 0.03 both end lowest at 0.01, but at 0.003 a LoRA has three times the loss.
    energy: share of each matrix's squared change that the advised rank has to hold.
    small_rank: of a second LoRA, the same in all matrices.
    """

    tune_epochs: int = 9
    tune_learning_rate: float = 0.01
    lora_learning_rate: float = 0.01
    energy: float = 0.9
    small_rank: int = 1

    def check(self) -> None:
        super().check()
        require(self.epochs >= 1, "epochs", self.epochs, "at least 1", "there would be nothing to fine-tune")
        require(
            self.tune_epochs > self.warmup_epochs,
            "tune_epochs",
            self.tune_epochs,
            f"above `warmup_epochs` = {self.warmup_epochs:g}",
        )
        for name in ("tune_learning_rate", "lora_learning_rate"):
            require(0 < getattr(self, name) < math.inf, name, getattr(self, name), "positive and finite")
        require(0 < self.energy <= 1, "energy", self.energy, "above 0 and at most 1")
        require(self.small_rank >= 1, "small_rank", self.small_rank, "at least 1", "a LoRA of rank 0 changes nothing")

    def stage(self, epochs: int, rate: float) -> ViTSpec:
        """One of the trainings."""
        shared = {name: getattr(self, name) for name in ViTSpec().to_dict()}
        return ViTSpec(**{**shared, "epochs": epochs, "learning_rate": rate})


QUICK = {"depth": 2, "head_width": 16, "epochs": 10, "learning_rate": 0.003}
"""The smallest network found that learns both tasks in seconds."""

PRESETS = {
    "tiny": {**VIT["tiny"], "epochs": 2, "tune_epochs": 3},
    "quick": QUICK,
    "paper": QUICK,  # the paper asks the question and has no experiment
}
