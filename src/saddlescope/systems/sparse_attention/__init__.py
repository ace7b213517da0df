"""Incremental Learning of Sparse Attention Patterns in Transformers (yuksel2025)."""

from .system import Full, Minimal, Regression

CITATION = (
    "Yüksel, Alvarez Lucendo, Flammarion: Incremental Learning of Sparse Attention Patterns in Transformers (2025)"
)

SYSTEMS = (Regression, Minimal, Full)
