"""Starts on a plateau, pushed off it, for Assumptions 4.3 and 4.4."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .plateaus import Logs, Plateau
from .prediction import Step
from .reduction import LogState, state_of

NOTICEABLE = 1e-5
"""|u| or |v| above which the paper perturbs a weight."""


class PlateauPoint(NamedTuple):
    """A moment of an undisturbed run on a plateau."""

    plateau: Plateau
    logs: Logs


def on_plateau(unit: Logs, steps: Sequence[Step], stage: int, moment: float, scale: float) -> PlateauPoint:
    """Where a run is after `stage` stages, at this share of the way to the next, by Algorithm 1 to leading order.

    Exact for the active coordinates; logarithms of the others are right to O(1), against B: this decides only how far
    away the next stage is.
    """
    here = steps[stage].before
    begin = steps[stage - 1].time if stage else 0.0
    exponents = steps[stage].exponents + here.force * (1 - moment) * (steps[stage].time - begin)
    rise = -scale * exponents
    logs = Logs(rise, unit.whole - 2 * scale - rise)
    return PlateauPoint(here, logs.anchored(here.support, here.product[here.support]))


def kicked(place: PlateauPoint, entering: Sequence[int], how: str, noise: float, seed: int) -> LogState:
    """The place with noise added to u and v: to both alike (signs kept) or, for "noticeable", to each apart."""
    rng = np.random.default_rng((seed, 9))
    first, second = noise * rng.normal(size=(2, len(place.logs.rise)))
    moved = _apart(place.logs, first, second) if how == "noticeable" else _alike(place, first)
    if how == "newcomer":
        new = np.array(entering)
        moved = moved.anchored(new, np.sign(place.plateau.force[new]) * (NOTICEABLE + first[new]) ** 2)
    return state_of(moved)


def _alike(place: PlateauPoint, noise: np.ndarray) -> Logs:
    product, on = place.plateau.product, place.plateau.support
    return place.logs.anchored(on, np.sign(product[on]) * (np.sqrt(np.abs(product[on])) + noise[on]) ** 2)


def _apart(logs: Logs, first: np.ndarray, second: np.ndarray) -> Logs:
    plus, minus = map(np.exp, state_of(logs))
    u, v = (plus + minus) / 2, (plus - minus) / 2
    # Where nothing is added the logarithms stay: u − v of an active entry is lost in the difference.
    where = np.flatnonzero((u > NOTICEABLE) & ((first != 0) | (second != 0)))
    u, v = u[where] + first[where], v[where] + second[where]
    rise, fall = logs.rise.copy(), logs.fall.copy()
    with np.errstate(divide="ignore"):
        rise[where], fall[where] = np.log(np.abs(u + v)), np.log(np.abs(u - v))
    return Logs(rise, fall)
