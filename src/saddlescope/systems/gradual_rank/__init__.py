"""Transformers learn through gradual rank increase (boix2023)."""

from .from_function import from_function
from .system import Full, Linear, Perturbed, Transformer

CITATION = "Boix-Adserà, Littwin, Abbe, Bengio, Susskind: Transformers learn through gradual rank increase (2023)"

__all__ = ["SYSTEMS", "from_function"]

SYSTEMS = (Transformer, Perturbed, Linear, Full)
