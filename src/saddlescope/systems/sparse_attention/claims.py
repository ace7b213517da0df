"""Claims of the paper, by the system that they are about."""

from .flow_claims import FLOW_CLAIMS
from .training_claims import FULL_CLAIMS, MINIMAL_CLAIMS

__all__ = ["FLOW_CLAIMS", "FULL_CLAIMS", "MINIMAL_CLAIMS"]
