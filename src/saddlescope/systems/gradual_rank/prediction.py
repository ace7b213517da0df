"""Algorithm 1, and its correction for finite alpha.

Along the plateaus log|u±v| moves with constant speed, so that each is a straight line in time, broken at every move.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from saddlescope.core.source import source

from .plateaus import DROP, JOIN, SEED, Logs, Orbit, Plateau, RunsOff, follow

TIE = 1e-9
"""Relative difference of two times until active below which they are one: no alpha that can be run tells them apart."""

ENDED = "no coordinate outside the support is pulled any more: the next time is infinite"


@dataclass(frozen=True)
class Step:
    """One stage of Algorithm 1.

    entering: coordinates that become active; several only where they tie.  left: those that were active, and no longer
    are.  time: T, in units of B.
    runner_up: how much later, as a share of the time, the next coordinate would have come.
    exponents: b of Algorithm 1, the logarithms of u+v to the base alpha, when it begins.
    """

    entering: tuple[int, ...]
    left: tuple[int, ...]
    time: float
    runner_up: float
    exponents: np.ndarray
    before: Plateau
    after: Plateau

    @property
    def lead(self) -> int:
        """The entering coordinate that becomes largest: of some that tie, others may be pushed out again."""
        return max(self.entering, key=lambda index: abs(self.after.product[index]))

    @property
    def level(self) -> float:
        """Half of what it becomes."""
        return float(self.after.product[self.lead]) / 2


@dataclass(frozen=True)
class Walk:
    """ended: why there are no more steps, "" if there are as many as were asked for."""

    steps: tuple[Step, ...]
    ended: str


class Line(NamedTuple):
    """slope * B + offset, of every coordinate: as alpha falls, only the slope counts, but where slopes tie."""

    slope: np.ndarray
    offset: np.ndarray

    def moved(self, amount: np.ndarray, slope: float, offset: float, drift: np.ndarray) -> Line:
        """Further by amount * (slope B + offset) + drift."""
        return Line(self.slope + amount * slope, self.offset + amount * offset + drift)


@source("boix2023", "Algorithm 1", "Eq. (8)", "Eq. (9)", "Eq. (10)")
def algorithm_1(origin: Plateau, unit: Logs, count: int) -> Walk:
    """The first `count` stages in the limit alpha -> 0.

    unit: logarithms of |u±v| of theta_0, so that those of alpha theta_0 are −B + unit: b^0 = 1.
    """
    lines = [Line(np.where(np.isfinite(part), -1.0, -np.inf), np.where(np.isfinite(part), part, 0.0)) for part in unit]
    whole = Line(lines[0].slope + lines[1].slope, lines[0].offset + lines[1].offset)
    here, steps = origin, []
    while len(steps) < count:
        slope, offset = _arrivals(here, *lines)
        candidates = np.flatnonzero(np.isfinite(slope))
        if not candidates.size:
            return Walk(tuple(steps), ENDED)
        least = float(slope.min())
        tied = np.flatnonzero(slope - least <= TIE * least)
        tied = tied[np.argsort(offset[tied], kind="stable")]
        first, others = float(offset[tied[0]]), np.setdiff1d(candidates, tied)
        try:
            orbit = _enter(here, tied, 2 * np.abs(here.force[tied]) * (first - offset[tied]))
        except RunsOff as reason:
            return Walk(tuple(steps), str(reason))
        there = orbit.to
        assert there is not None
        steps.append(
            Step(
                entering=tuple(tied.tolist()),
                left=_left(here, there),
                time=least,
                runner_up=float(slope[others].min() / least - 1) if others.size else np.inf,
                exponents=-(lines[0].slope + here.force * least),
                before=here,
                after=there,
            )
        )
        change, drift = here.force - there.force, orbit.drift(here)
        rise, fall = (line.moved(s * change, least, first, s * drift) for line, s in zip(lines, (1, -1), strict=True))
        lines = _anchored(there, rise, fall, whole)
        here = there
    return Walk(tuple(steps), "")


def _arrivals(here: Plateau, rise: Line, fall: Line) -> Line:
    """When each coordinate would reach |p| = 1: where log|u+v|, or log|u−v|, reaches log 2."""
    force = here.force
    grows = Line(*(np.where(force > 0, a, b) for a, b in zip(rise, fall, strict=True)))
    able = (force != 0) & np.isfinite(grows.slope)
    pace = np.where(able, np.abs(force), 1.0)
    return Line(
        np.where(able, -grows.slope / pace, np.inf),
        np.where(able, (np.log(2) - grows.offset) / pace, 0.0),
    )


def _enter(here: Plateau, entering: np.ndarray, head_start: np.ndarray) -> Orbit:
    if len(entering) == 1:
        return here.move(int(entering[0]))
    return here.joint_move(dict(zip(entering.tolist(), head_start.tolist(), strict=True)))


def _left(here: Plateau, there: Plateau) -> tuple[int, ...]:
    return tuple(np.setdiff1d(here.support, there.support).tolist())


def _anchored(there: Plateau, rise: Line, fall: Line, whole: Line) -> list[Line]:
    """Active coordinates rest where |p| is the plateau's: slope 0 and log(2 sqrt|p|), on the side of its sign."""
    on = there.support
    high, positive = np.log(2 * np.sqrt(np.abs(there.product[on]))), there.product[on] > 0
    lines = [Line(line.slope.copy(), line.offset.copy()) for line in (rise, fall)]
    for line, grown in zip(lines, (positive, ~positive), strict=True):
        line.slope[on] = np.where(grown, 0.0, whole.slope[on])
        line.offset[on] = np.where(grown, high, whole.offset[on] - high)
    return lines


class Passage(NamedTuple):
    """When a stage's lead passes its level, in the flow's own units, for the count-th time; NaN if it does not."""

    time: float
    count: int


class Course(NamedTuple):
    """passages: of Algorithm 1's stages.  rests: the plateaus at which the run rests.  lost: why it was not followed
    to the last stage, "" if it was.
    """

    passages: list[Passage]
    rests: list[Plateau]
    lost: str


def at_finite_alpha(origin: Plateau, logs: Logs, steps: Sequence[Step]) -> Course:
    """The flow from these initial logarithms, through Algorithm 1's stages.

    Plateaus are skipped along their lines. Where a coordinate joins before the last move has come to rest, both are
    followed together; else a move is Algorithm 1's own, and its drift all that is added.
    """
    follower = _Follower(origin, logs, steps)
    lost = follower.run()
    return Course(follower.passages(), follower.rests, lost)


class _Follower:
    def __init__(self, origin: Plateau, logs: Logs, steps: Sequence[Step]):
        self.here, self.logs, self.time = origin, logs, 0.0
        self.steps = list(steps)
        self.rises: list[list[float]] = [[] for _ in steps]
        self.rests: list[Plateau] = [origin]
        # Below this, u² − v² is negligible, and orbits are those of the limit.
        self.pure = bool(logs.whole.max(initial=-np.inf) - np.log(4) < np.log(DROP * origin.units.product))

    def run(self) -> str:
        """Why it ended before the last stage, if not because nothing is left that is pulled."""
        while any(np.isnan(passage.time) for passage in self.passages()):
            wait = self._wait(SEED * self.here.units.product)
            if not np.isfinite(wait.min()):
                break
            lead = int(np.argmin(wait))
            sooner = float(self._wait(self.here.seed(lead))[lead])
            jump = max(sooner, 0.0)
            logs = self.logs.moved(self.here.force * jump)
            # A start that is itself beyond the seed has not come along the unstable manifold.
            how = {"slaved": sooner >= 0, "enough": self._enough}
            try:
                orbit = self._alone(lead, logs, self.time + jump) or follow(
                    self.here, logs, self.time + jump, [lead], **how
                )
            except RunsOff as reason:
                return str(reason)
            for place, step in enumerate(self.steps):
                if step.level:
                    self.rises[place] += orbit.rises(step.lead, step.level)
            if orbit.to is None:
                break
            self.logs = logs.moved(orbit.gained).anchored(orbit.to.support, orbit.to.product[orbit.to.support])
            self.here, self.time = orbit.to, orbit.end
            self.rests.append(orbit.to)
        return ""

    def passages(self) -> list[Passage]:
        """The first rise of each stage's lead; one that has left since it last entered, the first after it left."""
        found: list[Passage] = []
        for place, step in enumerate(self.steps):
            left = [found[k].time for k in range(place) if step.lead in self.steps[k].left]
            later = [(moment, count) for count, moment in enumerate(self.rises[place], 1) if moment > max([0.0, *left])]
            # One that does not happen is not to be taken for an earlier one of the same coordinate.
            never = Passage(float("nan"), len(self.rises[place]) + 1)
            found.append(Passage(*later[0]) if later and not np.isnan(left).any() else never)
        return found

    def _wait(self, size: float) -> np.ndarray:
        """How long until each coordinate outside the support has |p| of this size."""
        force = self.here.force
        side = np.where(force > 0, self.logs.rise, self.logs.fall)
        able = (force != 0) & np.isfinite(side)
        return np.where(able, (np.log(4 * size) / 2 - side) / np.where(able, np.abs(force), 1.0), np.inf)

    def _alone(self, index: int, logs: Logs, begin: float) -> Orbit | None:
        """The orbit of one coordinate, if it is known and no other is noticeable before it ends."""
        # Also those that nothing pulls here: keys and queries at the origin are pulled only once a value has grown.
        others = np.setdiff1d(np.arange(len(logs.rise)), [*self.here.support, index])
        least = np.log(JOIN * self.here.units.product)
        if not self.pure or index not in self.here.moves or np.any(logs.size[others] >= least):
            return None
        orbit = self.here.moves[index]
        after = logs.moved(orbit.gained)
        return None if np.any(after.size[others] >= least) else orbit.shifted(begin - orbit.begin)

    def _enough(self, product: np.ndarray) -> bool:
        """Whether all stages have been passed; one that enters again can be told only afterwards."""
        if len({step.lead for step in self.steps}) < len(self.steps):
            return False
        return all(product[step.lead] * np.sign(step.level) >= abs(step.level) for step in self.steps)
