"""In-context linear regression with linear attention, stated once for all three faces."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from saddlescope.core.errors import BadArgument, Undeclared
from saddlescope.core.stage import Mark, Prediction, Stage
from saddlescope.core.system import Limit, Start, Symmetry, System

from . import claims, data, reduction
from .data import Frame, Weights
from .spec import LinearICLSpec

SAMPLE_NOTE = (
    "finite P: plateau losses are those to which the population's fixed points relax on the sample. Meanwhile weights "
    "creep along directions that only the sample's noise fixes, which the times neglect: the first is good, later ones "
    "are rough (often a few percent, at times a factor of two)"
)


class _Attention(System):
    """What linear and softmax attention share: the task, the weights and their symmetries."""

    paper = "zhang2025"
    spec_type = LinearICLSpec
    spec: LinearICLSpec
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

    def view(self, point: Weights, frame: Frame) -> reduction.View:
        return reduction.View(*point, map=reduction.attention_map(point))

    def samples(self, frame: Frame) -> data.Sequences:
        if frame.sequences is None:
            raise BadArgument("mini-batches need a training set: set `sequences`, or fresh_data=true")
        return frame.sequences

    def draw(self, frame: Frame, key: Any, size: int) -> data.Sequences:
        from . import network

        return network.draw(frame, key, size, self.spec.context_length)

    def random_weights(self, seed: int) -> Weights:
        shapes = [part.shape for part in data.initial_weights(self.spec, 0)]
        rng = np.random.default_rng((seed, 7))
        return Weights(*(rng.normal(size=shape) for shape in shapes))

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


class LinearICL(_Attention):
    name = "linear_icl"
    summary = "multi-head linear attention learns in-context regression one eigenvector at a time"
    faces = ("train", "flow", "predict")
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
        "loss": (),
        "value": ("head",),
        "key": ("head", "pair", "mode"),
        "query": ("head", "pair", "mode"),
        "gain": ("mode",),
        "alignment": ("head", "mode"),
        "stray": (),
    }
    claims = claims.CLAIMS
    batched = True

    def start(self, seed: int) -> Start:
        return Start(data.initial_weights(self.spec, seed), self._frame)

    @cached_property
    def _frame(self) -> Frame:
        """Built once: the moments of many sequences take seconds, and no seed changes them."""
        return data.build_frame(self.spec)

    def measure(self, view: reduction.View, frame: Frame) -> dict[str, Any]:
        return reduction.measure(view, frame)

    # ---- train

    def loss(self, weights: Weights, frame: Frame, batch: data.Sequences | None = None, key: Any = None) -> Any:
        sequences = batch
        if batch is None and not self.spec.statistics:
            sequences = frame.sequences
        if sequences is None:
            return reduction.loss_of_map(reduction.attention_map(weights), frame.moments)
        from . import network

        forward = network.predict_last if self.spec.objective == "last_token" else network.predict_each
        return network.mean_error(forward(weights, sequences), sequences)

    @property
    def trains_exactly(self) -> bool:
        return self.spec.statistics

    def descend(self, state: Weights, frame: Frame, learning_rate: Any) -> Weights:
        move = self.velocity(state, frame)
        return Weights(*(w + reduction.CLOCK * learning_rate * m for w, m in zip(state, move, strict=True)))

    # ---- flow

    def velocity(self, state: Weights, frame: Frame) -> Weights:
        return reduction.velocity(state, frame.moments)

    def jacobian(self, state: Weights, frame: Frame) -> np.ndarray:
        return reduction.jacobian(state, frame.moments)

    def linearize(self, state: Weights, frame: Frame) -> Any:
        return reduction.linearized(state, frame.moments)

    def conserved(self, point: Weights, frame: Frame) -> Any:
        return reduction.conserved(point)

    # ---- predict

    def landmarks(self, frame: Frame) -> Prediction:
        from .plateaus import plateau_weights

        spec = self.spec
        plateaus = plateau_weights(frame, spec.stage_count, spec.heads, spec.rank)
        levels = [float(reduction.loss_of_map(reduction.attention_map(p), frame.moments)) for p in plateaus]
        # A few sequences are fitted exactly by a few pairs: what follows is rounding, not learning.
        drops = [before - after > 1e-9 * levels[0] for before, after in itertools.pairwise(levels)]
        count = drops.index(False) if False in drops else len(drops)
        levels, plateaus = levels[: count + 1], plateaus[: count + 1]
        return Prediction(
            stages=tuple(Stage(m, None, level, f"eigenvector {m}") for m, level in enumerate(levels[1:], start=1)),
            marks=tuple(Mark("loss", (before + after) / 2) for before, after in itertools.pairwise(levels)),
            initial_loss=levels[0],
            plateaus=tuple(plateaus),
            observables=reduction.measure(self.view(plateaus[-1], frame), frame),
            notes=() if spec.sequences is None else (SAMPLE_NOTE,),
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

    def arrival(self, prediction: Prediction) -> Mark | None:
        if self.spec.sequences is None:
            return super().arrival(prediction)
        # A sample's plateaus are only approached (see plateaus.py): near enough is 1% of the last drop.
        before, last = prediction.levels[-2:]
        return Mark("loss", last + 0.01 * (before - last))

    def describe(self, stage: Stage, before: Mapping[str, Any], after: Mapping[str, Any]) -> Stage:
        """Near ties, eigenvectors may be learned out of order: the one whose gain rose most is named."""
        return replace(stage, label=f"eigenvector {int(np.argmax(after['gain'] - before['gain'])) + 1}")

    def limit(self) -> Limit:
        if self.spec.sequences is not None:
            raise Undeclared("on a sample the plateaus creep, and no limit is known in which the times become exact")
        return Limit("init_scale", (0.03, 0.01, 0.003), {})

    def symmetries(self, seed: int) -> Sequence[Symmetry]:
        return (*super().symmetries(seed), _flip(self.spec.heads))


class NextToken(LinearICL):
    """Trained on every context length up to N (Eq. (9)): the data enter through E(1/N) alone (section B.3)."""

    name = "linear_icl/next_token"
    objective = "next_token"
    summary = "the same with the loss of every token, contexts of length 1 to N"
    presets = {
        name: {**fields, "objective": "next_token"} for name, fields in LinearICL.presets.items() if name != "tiny_rank"
    }


class _OnSequences(_Attention):
    """Trained on its sequences alone: no reduction is known."""

    objective = "last_token"
    faces = ("train",)
    observables = {name: dims for name, dims in LinearICL.observables.items() if name != "gain"}
    arrays = "jax"

    def start(self, seed: int) -> Start:
        if self.spec.sequences is None:
            raise BadArgument(f"`sequences` must be a number, got null: {self.name} has no population form here")
        return Start(data.initial_weights(self.spec, seed), data.build_frame(self.spec, with_moments=False))

    def forward(self, weights: Weights, sequences: data.Sequences) -> Any:
        raise self._undeclared("forward")

    def loss(self, weights: Weights, frame: Frame, batch: data.Sequences | None = None, key: Any = None) -> Any:
        from . import network

        sequences = frame.sequences if batch is None else batch
        assert sequences is not None
        return network.mean_error(self.forward(weights, sequences), sequences, self.spec.error)

    def measure(self, view: reduction.View, frame: Frame) -> dict[str, Any]:
        found = reduction.measure(view, frame)
        del found["gain"]  # the fixed points of linear attention are no yardstick here
        return {**found, "loss": self.loss(Weights(view.value, view.key, view.query), frame)}


class Softmax(_OnSequences):
    """Softmax in place of 1/N (section B.1, Fig. 3)."""

    name = "linear_icl/softmax"
    summary = "the same with softmax attention"
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


class OtherLoss(_OnSequences):
    """Linear attention under another loss, for what the paper says of any loss (sections D.7, E.6)."""

    name = "linear_icl/other_loss"
    summary = "linear attention under another loss than the squared error"
    errors = ("absolute", "log_cosh", "quartic")
    presets = {
        "tiny": {**Softmax.presets["tiny"], "error": "log_cosh"},
        "quick": {"init_scale": 0.5, "sequences": 200, "steps": 2000, "error": "log_cosh"},
        "paper": {"init_scale": 0.5, "sequences": 5000, "steps": 20_000, "error": "log_cosh"},
    }

    def forward(self, weights: Weights, sequences: data.Sequences) -> Any:
        from . import network

        return network.predict_last(weights, sequences)

    def conserved(self, point: Weights, frame: Frame) -> Any:
        return reduction.conserved(point)

    def symmetries(self, seed: int) -> Sequence[Symmetry]:
        return (*super().symmetries(seed), _flip(self.spec.heads))


def _flip(heads: int) -> Symmetry:
    sign = np.where(np.arange(heads) % 2 == 0, -1.0, 1.0)[:, None]
    return Symmetry(
        "value and keys may flip sign", lambda w: w._replace(value=w.value * sign, key=w.key * sign[:, None])
    )
