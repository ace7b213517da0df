"""Claims of the paper, and ours, by the study that they are about."""

from . import lora, training

CLAIMS = (*training.CLAIMS, *lora.CLAIMS)
