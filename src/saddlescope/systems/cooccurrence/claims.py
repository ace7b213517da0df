"""All claims about this paper, by the system that they are about."""

from .phase1_claims import PHASE_1_CLAIMS
from .phase2_claims import PHASE_2_CLAIMS
from .training_claims import APPENDIX_CLAIMS, VARIANT_CLAIMS

CLAIMS = (*PHASE_1_CLAIMS, *PHASE_2_CLAIMS, *APPENDIX_CLAIMS)

__all__ = ["CLAIMS", "VARIANT_CLAIMS"]
