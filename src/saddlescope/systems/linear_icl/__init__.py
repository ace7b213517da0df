"""Training Dynamics of In-Context Learning in Linear Attention (zhang2025)."""

from saddlescope.core.paper import Paper

from .system import LinearICL, NextToken, OtherLoss, Softmax

CITATION = Paper(
    authors=("Zhang, Yedi", "Singh, Aaditya K.", "Latham, Peter E.", "Saxe, Andrew"),
    title="Training Dynamics of In-Context Learning in Linear Attention",
    year=2025,
    venue="ICML",
    published="Proceedings of the 42nd International Conference on Machine Learning",
    series="Proceedings of Machine Learning Research",
    volume="267",
    pages="76047–76087",
    eprint="2501.16265",
    subject="cs.LG",
)

SYSTEMS = (LinearICL, NextToken, OtherLoss, Softmax)
