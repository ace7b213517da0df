"""All claims about this paper, by the system that they are about."""

from .flow import FLOW_CLAIMS
from .training import FULL_CLAIMS, MINIMAL_CLAIMS

CLAIMS = (*FLOW_CLAIMS, *FULL_CLAIMS, *MINIMAL_CLAIMS)
