"""All claims about this paper, by the system that they are about."""

from .phase1 import PHASE_1_CLAIMS
from .phase2 import PHASE_2_CLAIMS
from .training import APPENDIX_CLAIMS, VARIANT_CLAIMS

CLAIMS = (*PHASE_1_CLAIMS, *PHASE_2_CLAIMS, *APPENDIX_CLAIMS, *VARIANT_CLAIMS)
