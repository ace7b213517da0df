"""Transformers learn through gradual rank increase (boix2023)."""

from saddlescope.core.paper import Paper

from .from_function import from_function
from .system import Full, Linear, Perturbed, Transformer

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

__all__ = ["SYSTEMS", "from_function"]

SYSTEMS = (Transformer, Perturbed, Linear, Full)
