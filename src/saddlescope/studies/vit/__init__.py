"""Vision transformers on real images: the half of gradual_rank's paper that is practice (boix2023)."""

from saddlescope.core.paper import Paper

from .lora import LoRA
from .study import ViT

CITATION = Paper(
    authors=("Boix-Adserà, Enric", "Littwin, Etai", "Abbe, Emmanuel", "Bengio, Samy", "Susskind, Joshua"),
    title="Transformers learn through gradual rank increase",
    year=2023,
    venue="NeurIPS",
    published="Advances in Neural Information Processing Systems",
    volume="36",
    pages="24519–24551",
    eprint="2306.07042",
    subject="cs.LG",
)
STUDIES = (ViT, LoRA)
