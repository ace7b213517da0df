"""Incremental Learning of Sparse Attention Patterns in Transformers (yuksel2025)."""

from saddlescope.core.paper import Paper

from .system import Full, Minimal, Regression

CITATION = Paper(
    authors=("Yüksel, Oğuz Kaan", "Alvarez Lucendo, Rodrigo", "Flammarion, Nicolas"),
    title="Incremental Learning of Sparse Attention Patterns in Transformers",
    year=2025,
    eprint="2602.19143",
    subject="cs.LG",
    note="Preprint of 2025; on arXiv since February 2026",
)

SYSTEMS = (Regression, Minimal, Full)
