"""What the paper says of vision transformers, in a form that can lose."""

from __future__ import annotations

from saddlescope.core.claim import Claim

CLAIMS: tuple[Claim, ...] = ()
