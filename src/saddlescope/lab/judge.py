"""Verdicts on claims at a user's own parameters."""

from __future__ import annotations

from collections.abc import Iterable

from saddlescope.core.claim import Claim, Verdict, judge as judge_claim
from saddlescope.core.progress import Tick, silent
from saddlescope.core.registry import named
from saddlescope.core.room import room_of
from saddlescope.core.run import Run
from saddlescope.core.shown import Shown
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


class Verdicts(Shown, list[Verdict]):
    """What one run says of the claims that it can decide: a list of verdicts that shows itself.

    run: the run that decided.
    """

    shown_by = "saddlescope.show.of_verdicts"

    def __init__(self, verdicts: Iterable[Verdict], run: Run):
        super().__init__(verdicts)
        self.run = run

    @property
    def title(self) -> str:
        return f"{self.run.system.name}, {self.run.face} from seed {self.run.seed}"


def judge(system: Subject | str, seed: int = 0, *, tick: Tick = silent) -> Verdicts:
    """Run the flow of a system from one seed; the verdicts on every claim of its room that one flow can decide.

    tick: hears of the progress.
    """
    found = run(named(system), "flow", seed, tick=tick)
    claims = claims_of_one_run(found.system, "flow")
    return Verdicts([judge_claim(claim.of_one_run(), [found]) for claim in claims], found)
