"""Training Dynamics of Transformers to Recognize Word Co-occurrence via Gradient Flow Analysis (yang2024)."""

from .system import Cooccurrence, Variant

CITATION = (
    "Yang, Kailkhura, Wang, Liang: Training Dynamics of Transformers to Recognize Word Co-occurrence via Gradient Flow "
    "Analysis (NeurIPS 2024)"
)

SYSTEMS = (Cooccurrence, Variant)
