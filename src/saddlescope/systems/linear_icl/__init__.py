"""Training Dynamics of In-Context Learning in Linear Attention (zhang2025)."""

from .system import LinearICL, NextToken, Softmax

SYSTEMS = (LinearICL, NextToken, Softmax)
