"""What the paper says."""

CLAIMS = ()
VARIANT_CLAIMS = ()
