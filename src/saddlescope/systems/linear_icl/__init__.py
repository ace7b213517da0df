"""Training Dynamics of In-Context Learning in Linear Attention (zhang2025)."""

from .system import LinearICL, NextToken, OtherLoss, Softmax

CITATION = "Zhang, Singh, Latham, Saxe: Training Dynamics of In-Context Learning in Linear Attention (2025)"

SYSTEMS = (LinearICL, NextToken, OtherLoss, Softmax)
