"""Vision transformers on real images: the half of gradual_rank's paper that is practice (boix2023)."""

from .lora import LoRA
from .study import ViT

CITATION = (
    "E. Boix-Adsera, E. Littwin, E. Abbe, S. Bengio, J. Susskind: Transformers learn through gradual rank increase. "
    "arXiv 2306.07042 v1 (2023), Section 5 and Appendix B"
)
STUDIES = (ViT, LoRA)
