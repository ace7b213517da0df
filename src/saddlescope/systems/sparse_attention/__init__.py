"""Incremental Learning of Sparse Attention Patterns in Transformers (yuksel2025)."""

from .system import Regression

CITATION = (
    "Yüksel, Alvarez Lucendo, Flammarion: Incremental Learning of Sparse Attention Patterns in Transformers (2025)"
)

SYSTEMS = (Regression,)
