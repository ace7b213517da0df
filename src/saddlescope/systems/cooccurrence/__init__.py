"""Training Dynamics of Transformers to Recognize Word Co-occurrence via Gradient Flow Analysis (yang2024)."""

from saddlescope.core.paper import Paper

from .system import Cooccurrence, Variant

CITATION = Paper(
    authors=("Yang, Hongru", "Kailkhura, Bhavya", "Wang, Zhangyang", "Liang, Yingbin"),
    title="Training Dynamics of Transformers to Recognize Word Co-occurrence via Gradient Flow Analysis",
    year=2024,
    venue="NeurIPS",
    published="Advances in Neural Information Processing Systems",
    volume="37",
    eprint="2410.09605",
    subject="cs.LG",
)

SYSTEMS = (Cooccurrence, Variant)
