"""Verdicts on claims."""

from __future__ import annotations

from saddlescope.core.claim import Claim, Evidence, Verdict, judge_run
from saddlescope.core.room import room_of
from saddlescope.core.subject import Face, Subject

from .outcome import Outcome
from .run import run_face


def evidence_of(outcome: Outcome) -> Evidence:
    return Evidence(
        outcome.system,
        outcome.face,
        outcome.seed,
        outcome.trajectory,
        outcome.stages,
        outcome.prediction,
        outcome.result,
    )


def claims_of_one_run(system: Subject, face: Face) -> list[Claim]:
    """The claims that a single run of this face can speak to: not those that take many runs together."""
    experiments = room_of(type(system)).experiments
    # A variant that builds on another system speaks to its claims as well.
    names = {getattr(kind, "name", "") for kind in type(system).__mro__}

    def speaks(claim: Claim) -> bool:
        experiment = experiments.get(claim.experiment or "")
        about = face == "flow" if experiment is None else experiment.face == face and experiment.system in names
        return not claim.seeds.together and about

    return [claim for claim in system.claims if speaks(claim)]


def judge(system: Subject, seed: int = 0) -> list[Verdict]:
    """Run the flow from one seed and judge by it every claim that one flow can decide."""
    evidence = evidence_of(run_face(system, "flow", seed))
    return [judge_run(claim, evidence) for claim in claims_of_one_run(system, "flow")]
