"""Claims of the paper, each in a form that can lose."""

from __future__ import annotations

import numpy as np

from saddlescope.core.claim import Claim, Evidence, bounded, close, ordered
from saddlescope.core.stage import Mark


def _decidable(evidence: Evidence) -> str | None:
    """Why a run cannot decide what the paper says of the population from a small start, or None."""
    spec = evidence.system.spec
    seen, expected = len(evidence.stages), len(evidence.prediction.stages)
    if spec.sequences is not None:
        return "a statement about the population, and this run has finitely many sequences"
    if spec.init_scale > 0.1:
        return f"init_scale {spec.init_scale} is not small"
    if seen < expected:
        return f"{seen} of {expected} stages were seen"
    result = evidence.trajectory.attrs["result"]
    return None if result == "finished" else result


def _learning_times(evidence: Evidence) -> list[float]:
    """When the gain of each eigenvector passes one half."""
    time, gain = evidence.trajectory["time"].values, evidence.trajectory["gain"].values
    marks = [Mark("gain", 0.5, "rises", (mode,)) for mode in range(evidence.system.spec.stage_count)]
    moments = [mark.passage(time, {"gain": gain}) for mark in marks]
    return [np.inf if moment is None else moment for moment in moments]


CLAIMS = (
    Claim(
        name="order_of_learning",
        says="Eigenvectors are learned one after the other, in descending order of their eigenvalues.",
        source=("zhang2025", "section 3.2"),
        measured=_learning_times,
        relation=ordered(because="an order has no tolerance"),
        applies=_decidable,
    ),
    Claim(
        name="last_plateau",
        says="Training ends at the loss of M_m, m the number of directions that the heads can hold.",
        source=("zhang2025", "Eq. (5)"),
        measured=lambda e: [e.trajectory["loss"].values[-1]],
        expected=lambda e: [e.prediction.stages[-1].loss],
        relation=close(rtol=1e-5, because="the run ends when the last plateau is within 1e-6"),
        applies=_decidable,
    ),
    Claim(
        name="conservation",
        says="|k|² − |q|² of each pair and Σ|k|² − v² of each head do not change.",
        source=("zhang2025", "Eq. (44), (50)"),
        measured=lambda e: [e.trajectory.attrs["conserved_drift"]],
        relation=bounded(1e-7, because="the solver's rtol is 1e-8 per step, and a run takes a few thousand steps"),
    ),
    Claim(
        name="learned_gain",
        says="At the end every eigenvector is fitted with the coefficient of Eq. (4).",
        source=("zhang2025", "Eq. (4)"),
        measured=lambda e: e.trajectory["gain"].values[-1][: e.system.spec.stage_count],
        expected=lambda e: np.ones(e.system.spec.stage_count),
        relation=close(
            rtol=2e-2,
            because="the loss is quadratic about its end: 1e-6 of it is 1e-3 in the largest gain, and more in the "
            "last, which carries a small share of the loss",
        ),
        applies=_decidable,
    ),
)
