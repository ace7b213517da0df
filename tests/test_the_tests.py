"""The suite must catch what it is there to catch: each fault in a system has to fail the check that names it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import saddlescope as ss
from saddlescope.core.parts import part
from saddlescope.core.room import Line, Room
from saddlescope.templates.squares import Squares
from saddlescope.templates.squares.data import State, Weights
from saddlescope.templates.squares.evidence.claims import CLAIMS
from saddlescope.templates.squares.spec import SquaresSpec
from saddlescope.testing.conformance import all_checks, run_check

from .neighbours import Pairs, tiny

CHECKS = {one.name.split()[0]: one for one in all_checks()}
"""By the first word of their names."""


def report(kind, check):
    return run_check(CHECKS[check], tiny(kind), "tiny")


@cache
def report_of_the_right_one(kind, check):
    return report(kind, check)


def faulty(kind: Any, place: str, wrong) -> Any:
    """`kind` with one method whose results are spoiled. place: of a part, "flow.velocity", or its own, "clock"."""
    owner, _, name = place.rpartition(".")
    base = getattr(kind, owner).make if owner else kind

    def spoiled(self, *arguments, **others):
        return wrong(getattr(super(spoiled_class, self), name)(*arguments, **others), *arguments)

    spoiled_class: Any = type("Faulty", (base,), {name: spoiled})
    return type("Faulty", (kind,), {owner: part(spoiled_class)}) if owner else spoiled_class


class ForgetfulSpec(SquaresSpec):
    def to_dict(self):
        return {**super().to_dict(), "data_seed": 0}


class ForgetsAField(Squares):
    spec_type = ForgetfulSpec


class WithoutLoss(Squares):
    observables = {"p": Squares.observables["p"]}


class DeclaresTooMuch(Squares):
    observables = {**Squares.observables, "q": ss.Observable("what nobody measures")}


class DeclaresANumber(Squares):
    observables = {**Squares.observables, "p": ss.Observable("a number")}


class Undescribed(Squares):
    observables = {**Squares.observables, "p": ss.Observable("", "coordinate")}


class NamesNoDimension(Squares):
    def coordinates(self):
        return {"mode": ss.Coordinate("eigenvector", "modes")}


class NeverEqual(Squares):
    """No two of these are the same problem, so compiled code is never shared."""

    @property
    def identity(self):
        return (id(self),)


def seeded_frame(start, seed):
    return ss.Start(start.point, State(start.frame.p * (1 + seed)))


def late(prediction, _):
    """The later the stage, the later: the error grows where starts are smaller."""
    return replace(prediction, stages=tuple(replace(s, time=s.time + 1e-3 * s.time**2) for s in prediction.stages))


def one_percent_low(prediction, _):
    return replace(prediction, stages=tuple(replace(s, loss=0.99 * s.loss) for s in prediction.stages))


def off_the_plateaus(prediction, _):
    first, *others = prediction.plateaus
    return replace(prediction, plateaus=(first, *(State(0.99 * plateau.p) for plateau in others)))


def one_stage_more(prediction, _):
    """A stage after the last one, which never comes: nothing is left to be learned."""
    last, mark = prediction.stages[-1], prediction.marks[-1]
    return replace(
        prediction,
        stages=(*prediction.stages, replace(last, index=last.index + 1, time=2 * last.time)),
        marks=(*prediction.marks, mark._replace(level=3 * mark.level)),
        plateaus=(*prediction.plateaus, prediction.plateaus[-1]),
    )


UNIT = np.ones(2)
DOUBLE = ss.Symmetry("double", lambda weights: Weights(2 * weights.u))
STAY = ss.Symmetry("stay", lambda weights: weights)

# The check, what it says of the fault, the right system, and the wrong one or what is wrong about it.
FAULTS: list[tuple[str, str, Any, Any]] = [
    ("spec", "the digest ignores a field", Squares, ForgetsAField),
    ("same", "the seed moves the frame", Squares, ("start", seeded_frame)),
    ("same", "the seed moves nothing", Squares, ("start", lambda start, _: ss.Start(Weights(UNIT), start.frame))),
    ("observables", "declares 'q', but `measure`", Squares, DeclaresTooMuch),
    ("observables", "returns 'loss', which", Squares, WithoutLoss),
    ("observables", "'p' has the dimensions ()", Squares, DeclaresANumber),
    ("everything", "'p' has no description", Squares, Undescribed),
    ("everything", "'mode' is along 'modes', which no observable has", Squares, NamesNoDimension),
    ("faces", "flow starts with another", Squares, ("flow.state_of", lambda state, _: State(2 * state.p))),
    ("trajectories", "lacks `loss`", Squares, WithoutLoss),
    ("second", "the second call compiled", Squares, NeverEqual),
    ("reduction", "velocity differs", Squares, ("flow.velocity", lambda v, state, _: State(v.p + 1e-6 * state.p))),
    ("reduction", "velocity differs", Squares, ("clock", lambda *_: 2.0)),
    ("view", "view(reduce(w)) differs", Squares, ("flow.reduce", lambda state, *_: State(2 * state.p))),
    ("loss", "differs from the network's", Squares, ("training.loss", lambda loss, *_: 2 * loss)),
    ("descend", "descend differs", Squares, ("training.descend", lambda s, *_: State(s.p * (1 - 1e-6)))),
    ("symmetries", "double: the loss changes", Pairs, ("training.symmetries", lambda *_: (DOUBLE,))),
    ("symmetries", "stay: the map moves nothing", Pairs, ("training.symmetries", lambda *_: (STAY,))),
    ("jacobian", "the Jacobian differs", Pairs, ("flow.jacobian", lambda right, _: lambda s: 0.5 * right(s))),
    ("linearize", "products with the", Pairs, ("flow.linearize", lambda J, *_: lambda x: Weights(0.5 * J(x).u))),
    ("energy", "dL/dt = ", Squares, ("flow.velocity", lambda v, *_: State(-v.p))),
    ("energy", "dL/dt = ", Squares, ("clock", lambda *_: 2.0)),
    ("conserved", "conserved quantities drift", Pairs, ("flow.conserved", lambda _, w, frame: w.u[..., 0, :] ** 2)),
    ("flow", "showed 2 of 3 stages", Squares, ("theory.predict", one_stage_more)),
    ("train", "fall with the power", Squares, ("clock", lambda *_: 2.0)),
    ("plateaus", "plateau 1 has loss", Squares, ("theory.predict", one_percent_low)),
    ("plateaus", "plateau 1 is not stationary", Squares, ("theory.predict", off_the_plateaus)),
    ("plateaus", "plateau 2 cannot be left", Squares, ("theory.predict", one_stage_more)),
    ("prediction", "do not fall", Squares, ("theory.predict", late)),
]

EMPTY = ss.Claim(
    name="cannot_lose",
    says="The loss is a number.",
    source=("nobody2026", "nowhere"),
    measured=lambda run: np.zeros_like(run.series("loss")),
    relation=ss.bounded(1.0, because="zero is below one whatever happens"),
)

# The check, what it says of the fault, and what the room then holds.
FAULTY_ROOMS = [
    ("claims", "gives no reason", "claims", (replace(CLAIMS[0], relation=ss.bounded(1.0, because="")),)),
    ("claims", "two claims share a name", "claims", (*CLAIMS, CLAIMS[0])),
    ("supported", "cannot_lose survives every sabotage", "claims", (*CLAIMS, EMPTY)),
    ("room", "1 points nowhere", "inventory", (Line("1", "equation", "Eq. (1)", "the loss", ()),)),
]


def test_every_check_has_a_fault_to_catch():
    assert {check for check, *_ in (*FAULTS, *FAULTY_ROOMS)} == set(CHECKS)
    assert len(CHECKS) == len(all_checks())


@pytest.mark.parametrize(("check", "words", "right", "wrong"), FAULTS)
def test_fault_is_caught(check, words, right, wrong):
    found = report(wrong if isinstance(wrong, type) else faulty(right, *wrong), check)
    assert found.outcome == "failed" and words in found.reason, found
    assert report_of_the_right_one(right, check).outcome == "passed"


@pytest.mark.parametrize(("check", "words", "name", "held"), FAULTY_ROOMS)
def test_fault_of_a_room_is_caught(check, words, name, held, monkeypatch):
    assert report_of_the_right_one(Squares, check).outcome == "passed"
    monkeypatch.setattr(Room, name, held)
    found = report(Squares, check)
    assert found.outcome == "failed" and words in found.reason, found
