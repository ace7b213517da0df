"""Verdicts on claims at a user's own parameters."""

from __future__ import annotations

from saddlescope.core.claim import Claim, Verdict, judge as judge_claim
from saddlescope.core.registry import named
from saddlescope.core.room import room_of
from saddlescope.core.subject import Face, Subject

from .run import run


def claims_of_one_run(system: Subject, face: Face) -> list[Claim]:
    """The claims that a single run of this face can speak to: not those that take many runs together."""
    room = room_of(type(system))
    # A variant that builds on another system speaks to its claims as well.
    names = {getattr(kind, "name", "") for kind in type(system).__mro__}

    def speaks(claim: Claim) -> bool:
        experiment = room.experiments.get(claim.experiment or "")
        about = face == "flow" if experiment is None else experiment.face == face and experiment.system in names
        return not claim.seeds.together and about

    return [claim for claim in room.claims if speaks(claim)]


def judge(system: Subject | str, seed: int = 0) -> list[Verdict]:
    """Run the flow of a system from one seed; the verdicts on every claim of its room that one flow can decide."""
    found = run(named(system), "flow", seed)
    return [judge_claim(claim.of_one_run(), [found]) for claim in claims_of_one_run(found.system, "flow")]
