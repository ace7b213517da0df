"""Plateaus of the limit alpha -> 0, and the orbits between them: step (B) of Algorithm 1.

A plateau is a stationary point theta of L restricted to its support. Once a coordinate outside the support has grown,
the network leaves along an orbit, on which coordinates whose p is negligible are followed by their logarithms alone. An
orbit from an isolated coordinate does not depend on alpha; at a finite alpha another coordinate may join before the
first has come to rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from saddlescope.core.source import source
from saddlescope.numerics.integrate import STOPPED, Path, integrate

SEED = 1e-6
"""|p| of an entering coordinate at which an orbit begins, as a share of what it will reach; up to there it is followed
to second order."""

JOIN, DROP = 1e-9, 1e-11
"""|p| at which a coordinate joins an orbit, and below which it is taken out again, in units of the first theta."""

NEAR = 1e-4
"""Distance from the next plateau at which an orbit ends, as a share of each entry; from there it is followed to second
order."""

GONE = 1e-5
"""|p| in units of the first theta below which an entry that is pushed back may count as one that leaves."""

RESTING = 1e-12
"""Force on the support, relative to the largest at the origin, below which a plateau is stationary."""

FORCELESS = 1e-11
"""Force, relative to the largest at the origin, that counts as none: rounding in a sum over all samples."""

RUNAWAY = 1e6
"""|p| in units of the first theta at which an orbit is given up: it runs off to infinity."""

LONGEST = 1e7
"""Time of an orbit, in units of 1 / (force on the one that enters), after which it is given up."""

MOST_STEPS = 4000
"""Of an orbit with the same coordinates; smooth ones take some hundred."""

RTOL, ATOL = 1e-8, 1e-8
"""Of the logarithms along an orbit, which last B times hundreds: times are off by 1e-9 of themselves."""


class RunsOff(Exception):
    """Step (B) has no limit: Assumption 4.3 fails."""


class Logs(NamedTuple):
    """log|u+v| and log|u−v| of every coordinate; −inf where it is zero."""

    rise: np.ndarray
    fall: np.ndarray

    @property
    def size(self) -> np.ndarray:
        """log|p|, by the larger of its two terms."""
        return 2 * np.maximum(self.rise, self.fall) - np.log(4)

    @property
    def whole(self) -> np.ndarray:
        """log|u² − v²|, conserved."""
        return self.rise + self.fall

    def product(self, largest: float) -> np.ndarray:
        """p = ((u+v)² − (u−v)²)/4, bounded so that trial steps of a solver stay finite."""
        bound = np.log(4 * largest)
        return (np.exp(np.minimum(2 * self.rise, bound)) - np.exp(np.minimum(2 * self.fall, bound))) / 4

    def moved(self, amount: np.ndarray) -> Logs:
        return Logs(self.rise + amount, self.fall - amount)

    def anchored(self, where: np.ndarray, product: np.ndarray) -> Logs:
        """With p given on some coordinates, and u² − v² kept."""
        rise, fall = self.rise.copy(), self.fall.copy()
        # (u+v)² − (u−v)² = 4p, and their product is (u² − v²)².
        whole, size = self.whole[where], 2 * np.abs(product)
        high = np.log(size + np.hypot(size, np.exp(whole))) / 2
        rise[where] = np.where(product > 0, high, whole - high)
        fall[where] = np.where(product > 0, whole - high, high)
        return Logs(rise, fall)


@dataclass(frozen=True)
class Functions:
    """The objective in NumPy: loss(p), force(p) = −dL/dp (p,), hessian(p, which) = columns of d²L/dp² (p, which)."""

    loss: Callable[[np.ndarray], float]
    force: Callable[[np.ndarray], np.ndarray]
    hessian: Callable[[np.ndarray, np.ndarray], np.ndarray]


class Units(NamedTuple):
    """force: the largest at the origin.  product: about what the entry that it pulls becomes, by its curvature."""

    force: float
    product: float


@dataclass(eq=False)
class Plateau:
    """A stationary point of L on its support. product: p, zero off the support."""

    functions: Functions
    product: np.ndarray
    units: Units
    moves: dict[int, Orbit] = field(default_factory=dict)

    @classmethod
    def origin(cls, functions: Functions, size: int) -> Plateau:
        zero = np.zeros(size)
        force = functions.force(zero)
        first = np.array([int(np.argmax(np.abs(force)))])
        bend = float(functions.hessian(zero, first)[first[0], 0])
        pull = float(np.abs(force[first[0]]))
        return cls(functions, zero, Units(pull, pull / bend if bend > 0 and pull > 0 else 1.0))

    @cached_property
    def support(self) -> np.ndarray:
        return np.flatnonzero(self.product)

    @cached_property
    def loss(self) -> float:
        return float(self.functions.loss(self.product))

    @cached_property
    def force(self) -> np.ndarray:
        """g, exactly zero on the support and where it is rounding."""
        found = self.functions.force(self.product)
        found[self.support] = 0.0
        found[np.abs(found) < FORCELESS * self.units.force] = 0.0
        return found

    @cached_property
    def columns(self) -> np.ndarray:
        """The Hessian's columns on the support (p, support)."""
        return self.functions.hessian(self.product, self.support)

    @cached_property
    def curvatures(self) -> np.ndarray:
        """Eigenvalues of the Hessian on the support, ascending."""
        return np.linalg.eigvalsh(self.columns[self.support])

    @property
    @source("boix2023", "Assumption 4.3")
    def strict(self) -> bool:
        """Whether it is a strict minimum on its support; the origin always is."""
        return not self.support.size or bool(self.curvatures[0] > 1e-9 * self.curvatures[-1])

    def seed(self, index: int) -> float:
        """|p| of an entering coordinate that is small against what it will reach, by force and curvature here."""
        bend = abs(float(self.functions.hessian(self.product, np.array([index]))[index, 0]))
        reach = abs(self.force[index]) / bend if bend > 0 else np.inf
        return SEED * min(reach, self.units.product)

    def move(self, index: int) -> Orbit:
        """The orbit on which this coordinate alone enters, with time 0 where its linear growth reaches |p| = 1."""
        if index not in self.moves:
            self.moves[index] = self.joint_move({index: 0.0})
        return self.moves[index]

    def joint_move(self, head_start: dict[int, float]) -> Orbit:
        """The orbit on which these coordinates enter; head_start: their log|p| at time 0, by linear growth."""
        nothing = np.full(len(self.product), -np.inf)
        entering = np.array(list(head_start))
        rate = 2 * np.abs(self.force[entering])
        heads = np.array(list(head_start.values()))
        begin = min(float((np.log(self.seed(i)) - heads[k]) / rate[k]) for k, i in enumerate(entering.tolist()))
        logs = Logs(nothing, nothing).anchored(self.support, self.product[self.support])
        grown = np.sign(self.force[entering]) * np.exp(rate * begin + heads)
        return follow(self, logs.anchored(entering, grown), begin, entering.tolist())


@dataclass(frozen=True)
class Orbit:
    """to: the plateau where it rests; None where it was left early.

    end, gained: from here on log|u+v| is its value at the beginning + gained + (force of `to`) * (time − end).
    delay: of its times against its pieces'.
    """

    to: Plateau | None
    begin: float
    end: float
    gained: np.ndarray
    pieces: tuple[_Piece, ...]
    delay: float = 0.0

    def drift(self, here: Plateau) -> np.ndarray:
        """J: what log|u+v| gains over following the plateaus' forces with a switch at time 0."""
        assert self.to is not None
        return self.gained - self.to.force * self.end + here.force * self.begin

    def shifted(self, time: float) -> Orbit:
        """The same, later."""
        return replace(self, begin=self.begin + time, end=self.end + time, delay=self.delay + time)

    def rises(self, index: int, product: float) -> list[float]:
        """When p of a coordinate passes a value, away from zero."""
        return [moment + self.delay for piece in self.pieces for moment in piece.rises(index, product)]


@source("boix2023", "Eq. (11)", "Algorithm 1, step (B)")
def follow(
    here: Plateau,
    logs: Logs,
    begin: float,
    lead: Sequence[int],
    *,
    slaved: bool = True,
    enough: Callable[[np.ndarray], bool] = lambda product: False,
) -> Orbit:
    """The flow from the neighbourhood of `here`, with all that is negligible left out, until it rests or is `enough`.

    logs: of all coordinates at time `begin`.  lead: coordinates that enter; others may join.
    slaved: put the support where the growth of the others has moved it.
    """
    moving = (logs.size >= np.log(JOIN * here.units.product)) | (here.product != 0)
    moving[list(lead)] = True
    entering = np.flatnonzero(moving & (here.product == 0))
    gained = np.zeros(len(here.product))
    if slaved:
        logs, gained = _on_unstable_manifold(here, logs, entering)
    pieces: list[_Piece] = []
    slowest = max(float(np.abs(here.force[list(lead)]).min()), FORCELESS * here.units.force)
    time, limit = begin, begin + LONGEST / slowest
    while True:
        piece = _Piece.along(here, logs, moving, time, limit, enough)
        pieces.append(piece)
        time, gained, logs = piece.end, gained + piece.gained, logs.moved(piece.gained)
        if piece.rest is not None:
            there, tail = piece.rest
            return Orbit(there, begin, time, gained + tail, tuple(pieces))
        if piece.enough:
            return Orbit(None, begin, time, gained, tuple(pieces))
        if piece.crossed is None:
            size = float(np.abs(piece.product(piece.gained)).max())
            raise RunsOff(
                f"step (B) from the plateau of loss {here.loss:.6g}, coordinates {entering.tolist()} entering, has "
                f"no limit: |p| is {size:.3g} after a time of {time - begin:.3g}, and not at rest ({piece.outcome})"
            )
        moving = moving.copy()
        moving[piece.crossed] = ~moving[piece.crossed]


def _on_unstable_manifold(here: Plateau, logs: Logs, entering: np.ndarray) -> tuple[Logs, np.ndarray]:
    """The support moved with what grows, to first order, and what all logarithms gained by it since time −infinity.

    With p_E growing at the rate r, p_S = theta_S + a p_E where r a = −2|theta_S| (H_SS a + H_SE).
    """
    support, count = here.support, len(here.support)
    columns = np.hstack([here.columns, here.functions.hessian(here.product, entering)])
    growing = logs.product(RUNAWAY * here.units.product)[entering]
    gained, shift = np.zeros(len(here.product)), np.zeros(count)
    stiff = 2 * np.abs(here.product[support])
    for place, index in enumerate(entering):
        rate = 2 * abs(here.force[index])
        if rate == 0:
            continue
        matrix = rate * np.eye(count) + stiff[:, None] * here.columns[support]
        slave = np.linalg.solve(matrix, -stiff * columns[support, count + place])
        shift += slave * growing[place]
        gained -= (columns[:, :count] @ slave + columns[:, count + place]) * growing[place] / rate
    moved = logs.moved(gained)
    return moved.anchored(support, here.product[support] + shift), gained


class _Piece:
    """A part of an orbit on which the same coordinates move. Its state is the integral of the force."""

    def __init__(
        self, here: Plateau, logs: Logs, moving: np.ndarray, begin: float, asked: Callable[[np.ndarray], bool]
    ):
        self.here, self.logs, self.begin = here, logs, begin
        self.asked, self.enough = asked, False
        self.moving = moving
        self.index = np.flatnonzero(moving)
        self.threshold = np.log(np.where(moving, DROP, JOIN) * here.units.product)
        # One that enters may begin below: it is taken out only once it has been above.
        self.threshold = np.where(moving & (logs.size < self.threshold), -np.inf, self.threshold)
        self.largest = RUNAWAY * here.units.product
        self.rest: tuple[Plateau, np.ndarray] | None = None
        self.crossed: int | None = None
        self.last, self.speed = (begin, self.product(np.zeros(len(moving)))), 0.0

    @classmethod
    def along(cls, here, logs, moving, begin: float, limit: float, asked: Callable[[np.ndarray], bool]) -> _Piece:
        piece = cls(here, logs, moving, begin, asked)
        path = piece.integrate(np.zeros(len(moving)), begin, limit, piece.margins, piece.stop)
        if path.crossings and piece.rest is None:  # cut where the first coordinate joins or drops out
            moment, piece.crossed = path.crossings[0]
            last = int(np.searchsorted(path.time, moment, side="right"))
            path = Path(path.time[:last], path.state[:last], STOPPED, (), path.evaluations)
        piece.path = path
        return piece

    path: Path

    @property
    def outcome(self) -> str:
        return self.path.outcome

    @property
    def end(self) -> float:
        return float(self.path.time[-1])

    @property
    def gained(self) -> np.ndarray:
        return self.path.state[-1]

    def product(self, gained: np.ndarray) -> np.ndarray:
        return np.where(self.moving, self.logs.moved(gained).product(self.largest), 0.0)

    def margins(self, gained: np.ndarray) -> np.ndarray:
        return self.logs.moved(gained).size - self.threshold

    def integrate(self, state, begin, end, watch, stop=None) -> Path:
        functions, moving = self.here.functions, self.index

        def jacobian(_: float, gained: np.ndarray) -> np.ndarray:
            logs = self.logs.moved(gained)
            answer = (np.exp(2 * logs.rise[moving]) + np.exp(2 * logs.fall[moving])) / 2  # dp/d(gained)
            matrix = np.zeros((len(gained), len(gained)))
            matrix[:, moving] = -functions.hessian(self.product(gained), moving) * answer
            return matrix

        return integrate(
            lambda _, gained: functions.force(self.product(gained)),
            state,
            begin,
            end,
            rtol=RTOL,
            atol=ATOL,
            max_steps=MOST_STEPS,
            jacobian=jacobian,
            watch=watch,
            stop=stop,
        )

    def stop(self, time: float, gained: np.ndarray) -> bool:
        if np.any((self.margins(gained) > 0) != self.moving):
            return True
        product = self.product(gained)
        if np.abs(product).max() >= self.largest / 5:
            return True
        self.enough = self.asked(product)
        if self.enough:
            return True
        speed = np.abs(product - self.last[1]).max() / (time - self.last[0])
        self.last = time, product
        # A Newton step is tried each time the motion has slowed down by half: its Hessian is dear.
        if speed > 0.5 * self.speed:
            self.speed = max(speed, self.speed)
            return False
        self.speed = speed
        return self._settle(product)

    def _settle(self, product: np.ndarray) -> bool:
        functions, moving = self.here.functions, self.index
        unit, size = self.here.units.product, np.abs(product[moving])
        leaving = (size < GONE * unit) & (product * functions.force(product) < 0)[moving]
        # Where u² − v² is noticeable, such an entry passes through zero and grows again: it does not rest.
        if np.any(self.logs.whole[moving][leaving] - np.log(4) > np.log(DROP * unit)):
            return False
        stay, gone = moving[~leaving], moving[leaving]
        theta = np.zeros_like(product)
        theta[stay] = product[stay]
        # The flow moves p in proportion to |p|. Measured so, directions in which nothing is fixed (heads that share an
        # entry) stay where they are, as the pseudo-inverse leaves them.
        root = np.sqrt(np.abs(product[stay]))
        for _ in range(50):
            curve = root[:, None] * functions.hessian(theta, stay)[stay] * root
            step = root * _solved(curve, root * functions.force(theta)[stay])
            if np.any(np.abs(theta[stay] + step - product[stay]) > NEAR * np.abs(product[stay])):
                return False
            theta[stay] += step
            if np.abs(step).max(initial=0.0) <= 1e-14 * np.abs(theta).max():
                break
        if np.abs(functions.force(theta)[stay]).max(initial=0.0) > RESTING * self.here.units.force:
            return False
        there = Plateau(functions, theta, self.here.units)
        if np.any(np.sign(theta[stay]) != np.sign(product[stay])) or np.any(product[gone] * there.force[gone] >= 0):
            return False
        self.rest = there, _tail(there, product, stay, gone)
        return True

    def rises(self, index: int, product: float) -> list[float]:
        """When p of a coordinate passes a value, away from zero: each such step is walked again to find it."""
        series = np.array([self.product(gained)[index] for gained in self.path.state])
        beyond = series * np.sign(product) >= abs(product)
        found = []
        for after in np.flatnonzero(beyond[1:] & ~beyond[:-1]) + 1:
            path = self.integrate(
                self.path.state[after - 1],
                float(self.path.time[after - 1]),
                float(self.path.time[after]),
                lambda gained: self.product(gained)[index : index + 1] - product,
            )
            found.append(path.crossings[0][0] if path.crossings else float(self.path.time[after]))
        return found


def _tail(there: Plateau, product: np.ndarray, stay: np.ndarray, gone: np.ndarray) -> np.ndarray:
    """Integral of the force's difference from the plateau's, from here to infinity, by the linearised motion.

    What leaves decays at the rate 2|g|; what stays moves by dp/dt = −2|theta| (H p + pull of what leaves).
    """
    functions, size = there.functions, np.abs(there.product[stay])
    columns, others = functions.hessian(there.product, stay), functions.hessian(there.product, gone)
    going = product[gone] / (2 * np.abs(there.force[gone]))
    root = np.sqrt(size)
    pull = (product - there.product)[stay] / (2 * size) - others[stay] @ going
    staying = root * _solved(root[:, None] * columns[stay] * root, root * pull)
    return -(columns @ staying + others @ going)


def _solved(matrix: np.ndarray, pull: np.ndarray) -> np.ndarray:
    """The least solution of a symmetric system that may have flat directions."""
    return np.linalg.lstsq(matrix, pull, rcond=1e-10)[0]
