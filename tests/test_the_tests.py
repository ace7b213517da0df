"""The suite must catch what it is there to catch: each broken system has to fail the check that names its fault."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from saddlescope.core.claim import Claim, bounded
from saddlescope.core.start import Start
from saddlescope.systems.linear_icl import LinearICL
from saddlescope.systems.linear_icl.data import Weights
from saddlescope.testing.conformance import all_checks, run_check

CHECKS = {one.name: one for one in all_checks()}


def outcome(kind, check, preset="tiny"):
    return run_check(CHECKS[check], kind(kind.preset(preset)), preset).outcome


class WrongVelocity(LinearICL):
    """Forgets the transpose of Eq. (24c), as printed."""

    def velocity(self, state, frame):
        from saddlescope.systems.linear_icl.reduction import attention_map, pull_back, residual

        good = super().velocity(state, frame)
        E = residual(attention_map(state), frame.moments)
        return good._replace(query=pull_back(E.swapaxes(-1, -2), state).query)


class HalfFactor(LinearICL):
    """Takes the paper's flow to be along −grad L instead of −½ grad L."""

    def clock(self, frame):
        return 1.0


class SwappedSign(LinearICL):
    def velocity(self, state, frame):
        return Weights(*(-part for part in super().velocity(state, frame)))


class LeakyDescent(LinearICL):
    def descend(self, state, frame, learning_rate):
        return Weights(*(part * (1 - 1e-6) for part in super().descend(state, frame, learning_rate)))


class SeededFrame(LinearICL):
    def start(self, seed):
        point, frame = super().start(seed)
        return Start(point, frame._replace(eigenvalues=frame.eigenvalues * (1 + seed)))


class NotConserved(LinearICL):
    def conserved(self, point, frame):
        return (point.key**2).sum(-1).reshape(-1)


class WrongJacobian(LinearICL):
    def jacobian(self, state, frame):
        return 0.5 * super().jacobian(state, frame)


class FalseSymmetry(LinearICL):
    def symmetries(self, seed):
        (first, *_) = super().symmetries(seed)
        return (first._replace(name="doubling", apply=lambda w: w._replace(key=2 * w.key)),)


class WrongPlateaus(LinearICL):
    """Every plateau one percent too low."""

    def landmarks(self, frame):
        known = super().landmarks(frame)
        stages = tuple(
            dataclasses.replace(stage, loss=0.99 * level)
            for stage, level in zip(known.stages, known.levels[1:], strict=True)
        )
        return dataclasses.replace(known, stages=stages)


class LatePrediction(LinearICL):
    def predict(self, start):
        good = super().predict(start)
        stages = tuple(dataclasses.replace(stage, time=1.05 * (stage.time or 0)) for stage in good.stages)
        return dataclasses.replace(good, stages=stages)


class EmptyClaim(LinearICL):
    claims = (
        *LinearICL.claims,
        Claim(
            name="cannot_lose",
            says="The loss is a number.",
            source=("zhang2025", "nowhere"),
            measured=lambda e: np.zeros_like(e.trajectory["loss"].values),
            relation=bounded(1.0, because="zero is below one whatever happens"),
        ),
    )


class UnreasonedClaim(LinearICL):
    claims = (dataclasses.replace(LinearICL.claims[0], relation=bounded(1.0, because="")),)


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        (WrongVelocity, "reduction commutes"),
        (WrongVelocity, "energy falls by the squared gradient"),
        (HalfFactor, "reduction commutes"),
        (HalfFactor, "train tends to flow"),
        (SwappedSign, "reduction commutes"),
        (SwappedSign, "energy falls by the squared gradient"),
        (LeakyDescent, "descend is a step of gradient descent"),
        (SeededFrame, "same seed same arrays"),
        (NotConserved, "conserved quantities are kept"),
        (WrongJacobian, "jacobian is the slope of velocity"),
        (FalseSymmetry, "symmetries leave the loss"),
        (WrongPlateaus, "plateaus are stationary and all but the last can be left"),
        (LatePrediction, "prediction error falls along the limit"),
        (EmptyClaim, "supported claims can lose"),
        (UnreasonedClaim, "claims name source and reason"),
    ],
    ids=lambda value: getattr(value, "__name__", value).replace(" ", "_"),
)
def test_fault_is_caught(kind, check):
    assert outcome(kind, check) == "failed"
    assert outcome(LinearICL, check) == "passed"
