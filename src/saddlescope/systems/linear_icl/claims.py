"""Claims of the paper, each in a form that can lose."""

from __future__ import annotations

import numpy as np

from saddlescope.core.claim import Claim, Evidence, bounded, close, ordered


def _all_stages_seen(evidence: Evidence) -> str | None:
    seen, expected = len(evidence.stages), len(evidence.prediction.stages)
    return None if seen == expected else f"{seen} of {expected} stages were seen"


def _arrived(evidence: Evidence) -> str | None:
    """A run that was not prolonged to its end says nothing of the end."""
    result = evidence.trajectory.attrs["result"]
    return _small_start(evidence) if result == "finished" else result


def _small_start(evidence: Evidence) -> str | None:
    scale = evidence.system.spec.init_scale
    return _all_stages_seen(evidence) if scale <= 0.1 else f"init_scale {scale} is not small"


CLAIMS = (
    Claim(
        name="order_of_drops",
        says="The drops come in the order of the eigenvalues, one for each.",
        source=("zhang2025", "section 3.2"),
        measured=lambda e: [stage.time for stage in e.stages],
        relation=ordered(because="an order has no tolerance"),
        applies=_all_stages_seen,
    ),
    Claim(
        name="last_plateau",
        says="Training ends at the loss of M_D, the global minimum.",
        source=("zhang2025", "Eq. (5)"),
        measured=lambda e: [e.trajectory["loss"].values[-1]],
        expected=lambda e: [e.prediction.stages[-1].loss],
        relation=close(rtol=1e-5, because="the run ends when the last plateau is within 1e-6"),
        applies=_arrived,
    ),
    Claim(
        name="conservation",
        says="|k|² − |q|² of each pair and Σ|k|² − v² of each head do not change.",
        source=("zhang2025", "Eq. (44), (50)"),
        measured=lambda e: [e.trajectory.attrs["conserved_drift"]],
        relation=bounded(1e-7, because="the solver's rtol is 1e-9 and a run takes a few thousand steps"),
    ),
    Claim(
        name="learned_gain",
        says="At the end every eigenvector is fitted with the coefficient of Eq. (4).",
        source=("zhang2025", "Eq. (4)"),
        measured=lambda e: e.trajectory["gain"].values[-1][: e.system.spec.stage_count],
        expected=lambda e: np.ones(e.system.spec.stage_count),
        relation=close(
            rtol=2e-2,
            because="the loss is quadratic about its end: 1e-6 in loss is 1e-3 in gain, and the "
            "least eigenvalue carries a small share of the loss; finite samples add O(P^-1/2)",
        ),
        applies=_small_start,
    ),
)
