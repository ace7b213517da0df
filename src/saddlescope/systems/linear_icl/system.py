"""In-context linear regression with linear attention, stated once for all three faces."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from saddlescope.core.errors import BadArgument
from saddlescope.core.observable import Coordinate, Observable
from saddlescope.core.parts import (
    Descent,
    ExactDescent,
    Flow,
    HasFreshData,
    HasInvariants,
    HasJacobian,
    HasLandmarks,
    HasProducts,
    HasSamples,
    Limit,
    Symmetry,
    Theory,
    part,
)
from saddlescope.core.stage import Ending, Mark, Prediction, Stage
from saddlescope.core.start import Start
from saddlescope.core.system import System

from . import data, reduction
from .data import Frame, Weights
from .spec import LEAST_DROP, LinearICLSpec

SAMPLE_NOTE = (
    "finite P: plateau losses are those to which the population's fixed points relax on the sample. Meanwhile weights "
    "creep along directions that only the sample's noise fixes, which the times neglect: the first is good, later ones "
    "are rough (often a few percent, at times a factor of two)"
)


class Attention(System):
    """What linear and softmax attention share: the task and the weights."""

    paper = "zhang2025"
    spec_type = LinearICLSpec
    spec: LinearICLSpec
    time = Observable("time of the gradient flow", symbol="t", units="τ")
    objective: ClassVar[str | None] = None  # what a variant is about, and so cannot be set
    errors: ClassVar[tuple[str, ...]] = ("squared",)

    def __init__(self, spec: LinearICLSpec | None = None):
        super().__init__(spec)
        if self.objective not in (None, self.spec.objective):
            raise BadArgument(f"`objective` of {self.name} is {self.objective}, got {self.spec.objective!r}")
        if self.spec.error not in self.errors:
            raise BadArgument(f"`error` of {self.name} is {' or '.join(self.errors)}, got {self.spec.error!r}")

    def clock(self, frame: Frame) -> float:
        return reduction.CLOCK

    def coordinates(self) -> dict[str, Coordinate]:
        return {
            "head": Coordinate("head", "head", symbol="i"),
            "pair": Coordinate("key-query pair of a head", "pair", symbol="r"),
            "mode": Coordinate("eigenvector of Λ, by falling eigenvalue", "mode", symbol="d"),
            "eigenvalue": Coordinate("eigenvalue of Λ", "mode", values=self.spec.eigenvalues, symbol="λ_d"),
        }

    def view(self, point: Weights, frame: Frame) -> reduction.View:
        return reduction.View(*point, map=reduction.attention_map(point))


# ---- training --------------------------------------------------------------------------------------------


class Batches(Descent, HasSamples, HasFreshData):
    """What all trainings share: batches, and the symmetries of the weights."""

    def samples(self, frame: Frame) -> data.Sequences:
        if frame.sequences is None:
            raise BadArgument("mini-batches need a training set: set `sequences`, or fresh_data=true")
        return frame.sequences

    def draw(self, frame: Frame, key: Any, size: int) -> data.Sequences:
        from . import network

        return network.draw(frame, key, size, self.spec.context_length)

    def symmetries(self, seed: int) -> Sequence[Symmetry]:
        rng = np.random.default_rng((seed, 8))
        order = np.roll(np.arange(self.spec.heads), 1)
        factor = np.exp(rng.normal(size=(self.spec.heads, self.spec.rank, 1)))
        return (
            Symmetry("heads are exchangeable", lambda w: Weights(*(part[order] for part in w))),
            Symmetry(
                "a key may be scaled against its query",
                lambda w: w._replace(key=w.key * factor, query=w.query / factor),
            ),
        )


class OnSequences(Batches):
    """Every sequence is read by the network."""

    def loss(self, weights: Weights, frame: Frame, batch: data.Sequences | None = None, key: Any = None) -> Any:
        from . import network

        sequences = frame.sequences if batch is None else batch
        if sequences is None:  # the population
            return reduction.loss_of_map(reduction.attention_map(weights), frame.moments)
        forward = network.predict_last if self.spec.objective == "last_token" else network.predict_each
        return network.mean_error(forward(weights, sequences), sequences)

    def symmetries(self, seed: int) -> Sequence[Symmetry]:
        return (*super().symmetries(seed), _flip(self.spec.heads))


class ByStatistics(OnSequences, ExactDescent):
    """The whole problem is known by its moments: no sequence is read twice."""

    def loss(self, weights: Weights, frame: Frame, batch: data.Sequences | None = None, key: Any = None) -> Any:
        if batch is None:
            return reduction.loss_of_map(reduction.attention_map(weights), frame.moments)
        return super().loss(weights, frame, batch, key)

    def descend(self, state: Weights, frame: Frame, learning_rate: Any) -> Weights:
        move = reduction.velocity(state, frame.moments)
        return Weights(*(w + reduction.CLOCK * learning_rate * m for w, m in zip(state, move, strict=True)))


class Nonlinear(Batches):
    """Trained on its sequences alone: no reduction is known."""

    def loss(self, weights: Weights, frame: Frame, batch: data.Sequences | None = None, key: Any = None) -> Any:
        return self.system.mean_error(weights, frame.sequences if batch is None else batch)


class UnderAnyLoss(Nonlinear, HasInvariants):
    def conserved(self, point: Weights, frame: Frame) -> Any:
        return reduction.conserved(point)

    def symmetries(self, seed: int) -> Sequence[Symmetry]:
        return (*super().symmetries(seed), _flip(self.spec.heads))


# ---- flow and theory -------------------------------------------------------------------------------------


class MomentFlow(Flow, HasJacobian, HasProducts, HasInvariants):
    arrays = "batched"

    def velocity(self, state: Weights, frame: Frame) -> Weights:
        return reduction.velocity(state, frame.moments)

    def jacobian(self, frame: Frame) -> Callable[[Weights], np.ndarray]:
        return lambda state: reduction.jacobian(state, frame.moments)

    def linearize(self, state: Weights, frame: Frame) -> Any:
        return reduction.linearized(state, frame.moments)

    def conserved(self, point: Weights, frame: Frame) -> Any:
        return reduction.conserved(point)


class Plateaus(Theory, HasLandmarks):
    def landmarks(self, frame: Frame) -> Prediction:
        from .plateaus import plateau_weights

        spec = self.spec
        plateaus = plateau_weights(frame, spec.stage_count, spec.heads, spec.rank)
        levels = [float(reduction.loss_of_map(reduction.attention_map(p), frame.moments)) for p in plateaus]
        # A few sequences are fitted exactly by a few pairs: what follows is rounding, not learning.
        drops = [before - after > LEAST_DROP * levels[0] for before, after in itertools.pairwise(levels)]
        count = drops.index(False) if False in drops else len(drops)
        levels, plateaus = levels[: count + 1], plateaus[: count + 1]
        # A sample's plateaus are only approached (see plateaus.py): near enough is 1% of the last drop.
        near = None
        if spec.sequences is not None and count:
            near = Mark("loss", levels[-1] + 0.01 * (levels[-2] - levels[-1]))
        return Prediction(
            stages=tuple(Stage(m, None, level, f"eigenvector {m}") for m, level in enumerate(levels[1:], start=1)),
            marks=tuple(Mark("loss", (before + after) / 2) for before, after in itertools.pairwise(levels)),
            initial_loss=levels[0],
            plateaus=tuple(plateaus),
            observables=reduction.measure(self.system.view(plateaus[-1], frame), frame),
            notes=() if spec.sequences is None else (SAMPLE_NOTE,),
            ending=Ending(arrival=near) if near else Ending(),
        )

    def predict(self, start: Start) -> Prediction:
        from .escape import Way, escape_times

        known = self.landmarks(start.frame)
        escape = escape_times(start.point, Way(start.frame, np.array(known.levels), known.plateaus, self.spec.rank))
        stages = [replace(stage, time=time) for stage, time in zip(known.stages, escape.times, strict=True)]
        solver = f"stage algorithm, {escape.evaluations} evaluations"
        # On a sample the plateaus are not isolated critical points, so they are not handed out as such.
        plateaus = known.plateaus if self.spec.sequences is None else ()
        return replace(known, stages=tuple(stages), plateaus=plateaus, solver=solver)

    def describe(self, stage: Stage, before: Mapping[str, Any], after: Mapping[str, Any]) -> Stage:
        """Near ties, eigenvectors may be learned out of order: the one whose gain rose most is named."""
        return replace(stage, label=f"eigenvector {int(np.argmax(after['gain'] - before['gain'])) + 1}")

    @property
    def limit(self) -> Limit | None:
        # On a sample the plateaus creep, and no limit is known in which the times become exact.
        return Limit("init_scale", (0.03, 0.01, 0.003), {}) if self.spec.sequences is None else None


# ---- systems ---------------------------------------------------------------------------------------------


class LinearICL(Attention):
    name = "linear_icl"
    summary = "multi-head linear attention learns in-context regression one eigenvector at a time"
    presets = {
        "tiny": {"eigenvalues": (0.5, 0.25), "context_length": 7, "heads": 3, "init_scale": 0.1},
        "tiny_rank": {
            "eigenvalues": (0.5, 0.3, 0.1),
            "context_length": 7,
            "heads": 2,
            "rank": 2,
            "init_scale": 0.1,
        },
        "tiny_sample": {
            "eigenvalues": (0.5, 0.25),
            "context_length": 7,
            "heads": 2,
            "init_scale": 0.1,
            "sequences": 500,
            "statistics": False,
        },
        "quick": {},
        "paper": {"init_scale": 0.001, "learning_rate": 0.1975},
    }
    observables = {
        "loss": Observable("loss", symbol="L"),
        "value": Observable("value of each head", "head", symbol="v_i"),
        "key": Observable("keys, along the eigenvectors", "head", "pair", "mode", symbol="k_ir"),
        "query": Observable("queries, along the eigenvectors", "head", "pair", "mode", symbol="q_ir"),
        "gain": Observable("share of each eigenvector that is learned", "mode", symbol="M_dd a_d/λ_d"),
        "alignment": Observable("alignment of keys with each eigenvector", "head", "mode", symbol="|k_id|/|k_i|"),
        "stray": Observable("norm of the weights that start at zero"),
    }
    flow = part(MomentFlow)
    theory = part(Plateaus)

    @part
    def training(self) -> Batches:
        return ByStatistics(self) if self.spec.statistics else OnSequences(self)

    def start(self, seed: int) -> Start:
        return Start(data.initial_weights(self.spec, seed), self._frame)

    @cached_property
    def _frame(self) -> Frame:
        """Built once: the moments of many sequences take seconds, and no seed changes them."""
        return data.build_frame(self.spec)

    def measure(self, view: reduction.View, frame: Frame) -> dict[str, Any]:
        return reduction.measure(view, frame)


class NextToken(LinearICL):
    """Trained on every context length up to N (Eq. (9)): the data enter through E(1/N) alone (section B.3)."""

    name = "linear_icl/next_token"
    objective = "next_token"
    summary = "the same with the loss of every token, contexts of length 1 to N"
    presets = {
        name: {**fields, "objective": "next_token"} for name, fields in LinearICL.presets.items() if name != "tiny_rank"
    }


class _SequencesAlone(Attention):
    objective = "last_token"
    observables = {name: one for name, one in LinearICL.observables.items() if name != "gain"}

    def start(self, seed: int) -> Start:
        if self.spec.sequences is None:
            raise BadArgument(f"`sequences` must be a number, got null: {self.name} has no population form here")
        return Start(data.initial_weights(self.spec, seed), data.build_frame(self.spec, with_moments=False))

    @abstractmethod
    def forward(self, weights: Weights, sequences: data.Sequences) -> Any:
        """What the network answers to each sequence."""

    def mean_error(self, weights: Weights, sequences: Any) -> Any:
        from . import network

        return network.mean_error(self.forward(weights, sequences), sequences, self.spec.error)

    def measure(self, view: reduction.View, frame: Frame) -> dict[str, Any]:
        found = reduction.measure(view, frame)
        del found["gain"]  # the fixed points of linear attention are no yardstick here
        return {**found, "loss": self.mean_error(Weights(view.value, view.key, view.query), frame.sequences)}


class Softmax(_SequencesAlone):
    """Softmax in place of 1/N (section B.1, Fig. 3)."""

    name = "linear_icl/softmax"
    summary = "the same with softmax attention"
    training = part(Nonlinear)
    presets = {
        "tiny": {
            "eigenvalues": (0.5, 0.25),
            "context_length": 7,
            "heads": 2,
            "init_scale": 0.3,
            "sequences": 64,
            "steps": 50,
        },
        "quick": {"init_scale": 0.1, "sequences": 1000, "steps": 6000},
        "paper": {"init_scale": 0.1, "sequences": 5000, "steps": 20_000},
    }

    def forward(self, weights: Weights, sequences: data.Sequences) -> Any:
        from . import network

        return network.predict_softmax(weights, sequences)


class OtherLoss(_SequencesAlone):
    """Linear attention under another loss, for what the paper says of any loss (sections D.7, E.6)."""

    name = "linear_icl/other_loss"
    summary = "linear attention under another loss than the squared error"
    training = part(UnderAnyLoss)
    errors = ("absolute", "log_cosh", "quartic")
    presets = {
        "tiny": {**Softmax.presets["tiny"], "error": "log_cosh"},
        "quick": {"init_scale": 0.5, "sequences": 200, "steps": 2000, "error": "log_cosh"},
        "paper": {"init_scale": 0.5, "sequences": 5000, "steps": 20_000, "error": "log_cosh"},
    }

    def forward(self, weights: Weights, sequences: data.Sequences) -> Any:
        from . import network

        return network.predict_last(weights, sequences)


def _flip(heads: int) -> Symmetry:
    sign = np.where(np.arange(heads) % 2 == 0, -1.0, 1.0)[:, None]
    return Symmetry(
        "value and keys may flip sign", lambda w: w._replace(value=w.value * sign, key=w.key * sign[:, None])
    )
