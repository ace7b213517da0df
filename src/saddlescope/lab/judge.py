"""Verdicts on a system's claims."""

from __future__ import annotations

from saddlescope.core.claim import Evidence, Verdict, judge_run
from saddlescope.core.system import System

from .run import Outcome, run_face


def evidence_of(outcome: Outcome) -> Evidence:
    assert outcome.prediction is not None and outcome.trajectory is not None
    return Evidence(outcome.system, outcome.trajectory, outcome.stages, outcome.prediction)


def judge(system: System, seed: int = 0) -> list[Verdict]:
    """Run the flow from one seed and judge every claim of the system by it."""
    evidence = evidence_of(run_face(system, "flow", seed))
    return [judge_run(claim, evidence) for claim in system.claims]
