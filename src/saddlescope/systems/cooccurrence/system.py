"""The one-layer transformer of Eq. (1) on the co-occurrence task, at any width; and variants that are only trained."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from saddlescope.core.parts import (
    Descent,
    ExactDescent,
    Flow,
    HasInvariants,
    HasSamples,
    Limit,
    Symmetry,
    Theory,
    part,
)
from saddlescope.core.stage import Ending, Mark, Prediction, Stage
from saddlescope.core.start import ReducedStart, Start
from saddlescope.core.subject import OverTime
from saddlescope.core.system import System

from . import data
from .data import PAPER, Frame, Sentences, State, Weights
from .spec import APPENDIX, CooccurrenceSpec, VariantSpec

TINY = {"width": 64, "samples": 12, "tokens": 3, "test_sets": 1, "horizon": 1e3, "steps": 50, "learning_rate": 1e-3}
MARKS = (Mark("one_signal_rate", 0.0, "falls"), Mark("worst_margin", 0.0, "stays above"))
STAGES = (
    Stage(1, None, None, "T0.5: one-signal loss peaks"),
    Stage(2, None, None, "T1: all sentences right"),
)


# ---- training --------------------------------------------------------------------------------------------


class InWeights(Descent, HasSamples):
    """By the network's own gradient."""

    def loss(self, weights: Weights, frame: Frame, batch: Sentences | None = None, key: Any = None) -> Any:
        from . import network

        return network.mean_loss(weights, frame, frame.train if batch is None else batch)

    def samples(self, frame: Frame) -> Sentences:
        return frame.train

    def stable_rate(self, frame: Frame) -> float | None:
        from .prediction import curvature, frozen

        # With large outputs, or values as long as s, the loss has other curvatures than those of a kernel at F = 0.
        small = self.spec.init == "gaussian" and self.spec.init_scale <= 0.5
        return 2 / (curvature(frozen(frame)) * self.system.clock(frame)) if small else None

    def random_weights(self, seed: int) -> Weights:
        spec, rng, (_, _, size) = self.spec, np.random.default_rng((seed, 7)), self.system.sentences
        maps = rng.standard_normal((3, spec.width, size)) * data.learned_words(spec, size)
        neurons = rng.standard_normal((spec.hidden, spec.width))
        value, key, query = maps / spec.width**0.5
        return Weights(value, key, query, neurons / spec.width**0.5)

    def symmetries(self, seed: int) -> Sequence[Symmetry]:
        mirror = _mirror(self.spec.width, seed)
        return (
            Symmetry(
                "keys and queries may be turned together",
                lambda w: w._replace(key=mirror(w.key), query=mirror(w.query)),
            ),
            Symmetry(
                "values and neurons may be turned together",
                lambda w: w._replace(value=mirror(w.value), neuron=mirror(w.neuron.T).T),
            ),
        )


class InGrams(InWeights, ExactDescent):
    """In Gram matrices, at the same cost for any width."""

    def descend(self, state: State, frame: Frame, learning_rate: Any) -> State:
        from . import reduction

        return reduction.descend(state, frame, learning_rate)


def _mirror(width: int, seed: int) -> Any:
    """A reflection: the cheapest orthogonal map."""
    normal = np.random.default_rng((seed, 8)).standard_normal(width)
    normal /= np.linalg.norm(normal)
    return lambda x: x - 2 * np.outer(normal, normal @ x)


# ---- flow and theory -------------------------------------------------------------------------------------


class GramFlow(Flow, HasInvariants):
    arrays = "jax"
    log_time = 1.0

    @property
    def code(self) -> Hashable:
        return (type(self.system),)

    def reduce(self, weights: Weights, frame: Frame) -> State:
        from . import reduction

        return reduction.reduce(weights, frame)

    def velocity(self, state: State, frame: Frame) -> State:
        from . import reduction

        return reduction.velocity(state, frame)

    def conserved(self, point: Weights | State, frame: Frame) -> Any:
        from . import reduction

        return reduction.conserved(self.system.view(point, frame), frame)

    def largest_weight(self, point: Weights | State, frame: Frame) -> Any:
        from . import reduction

        return reduction.largest_weight(self.system.view(point, frame), frame)


def _limit_time(system: Any, stage: Stage) -> str:
    moment = stage.extra.get("limit_time")
    return "" if moment is None else f"{moment:.6g}"


class FrozenKernel(Theory):
    columns = {"from zero": _limit_time}
    limit = Limit("width", (64, 512, 4096), {})

    def predict(self, start: Start) -> Prediction:
        from saddlescope.analysis.stages import stages_at_marks

        from . import prediction

        spec, frame = self.spec, start.frame
        grams = data.grams_of(start.point, frame.output, 0) if isinstance(start.point, Weights) else start.point
        horizon = spec.horizon or prediction.LONGEST
        whole, course = prediction.course_of(frame, np.asarray(grams.value), horizon)
        late, pace = prediction.late_of(spec, frame), prediction.pace(frame)
        distinct = spec.samples is None or prediction.words_differ(frame)
        limit = prediction.limit_course(spec, frame)
        losses = prediction.log_loss(whole.margin) @ frame.train.weights
        series = {"loss": losses, "one_signal_rate": whole.rate, "worst_margin": whole.margin.min(-1)}
        found = {stage.index: stage for stage in stages_at_marks(whole.time, series, MARKS, STAGES)}
        final = float(prediction.log_loss(course.margin[-1]) @ frame.train.weights)
        stages = tuple(
            replace(
                found.get(stage.index, stage),
                extra={"limit_time": float(moment) / pace if moment is not None and distinct else None},
                **({"loss": final} if stage.index == len(STAGES) else {}),
            )
            for stage, moment in zip(STAGES, (limit.turn, limit.right), strict=True)
        )
        return Prediction(
            stages=stages,
            marks=MARKS,
            initial_loss=float(losses[0]),
            observables={
                "loss": final,
                "train_loss": final,
                "test_loss": float(prediction.test_losses(frame, course.state[-1:])[0]),
                "balance_ratio": late.ratio,
                "loss_tau": late.loss_tau / pace,
                "value_slopes": late.slopes,
                "pace": pace,
                "train_exponent": 1.0,
                "test_exponent": late.exponent if late.exponent > 0 else None,
            },
            solver="Gram matrices frozen at the start; ratios and exponents in closed form",
            ending=Ending(prediction.LONGEST, arrival=None),
            notes=tuple(filter(None, [_outlook(late), _moving(prediction.growth(frame, late, horizon))])),
        )


def _moving(growth: float) -> str:
    if growth < 0.1:
        return ""
    return (
        f"until the horizon |s|^2 grows by some {growth:.0%}, which the prediction leaves out: the more width, the less"
    )


def _outlook(late: Any) -> str:
    if late.exponent > 1e-9:
        return f"the training loss ends as 1/tau, the test loss as tau^-{late.exponent:.3g}"
    if late.exponent > -1e-9:
        return "the training loss ends as 1/tau, and the test loss stays: margins of some fresh sentences do not grow"
    failing = ("with both signals", "with the first signal", "with the second signal", "without a signal")
    wrong = " and ".join(name for name, slope in zip(failing, late.fresh_margins, strict=True) if slope < -1e-9)
    return (
        f"the training loss ends as 1/tau, but fresh sentences {wrong} end up wrong: more training sentences would help"
    )


# ---- systems ---------------------------------------------------------------------------------------------


def loss_times_time(time: np.ndarray, observables: Mapping[str, np.ndarray]) -> np.ndarray:
    return time * observables["loss"]


class Cooccurrence(System):
    name = "cooccurrence"
    paper = PAPER
    summary = "the MLP learns which words count, then attention and MLP widen the margin together"
    spec_type = CooccurrenceSpec
    spec: CooccurrenceSpec
    presets = {
        "tiny": {**TINY, "sampled_neurons": 2},
        "tiny_drawn": {**TINY, "width": 5000, "neurons": 2, "sampled_neurons": 2, "learning_rate": 1e-5},
        "tiny_repeats": {**TINY, "vocabulary": 12, "init": "kaiming", "output": "kaiming", "sampled_neurons": 0},
        "tiny_endless": {**TINY, "samples": None, "tokens": 4, "sampled_neurons": 1},
        "quick": {},
        "paper": APPENDIX,
    }
    observables = {
        "loss": (),
        "train_loss": (),
        "test_loss": (),
        "type_loss": ("type",),
        "test_type_loss": ("type",),
        "pull": ("type",),
        "margin": ("sample",),
        "worst_margin": (),
        "test_margin": ("type",),
        "balance_ratio": (),
        "one_signal_loss": (),
        "one_signal_rate": (),
        "value": ("word",),
        "value_rate": ("signal",),
        "value_rate_by_neurons": ("signal",),
        "neuron_share": (),
        "attention_share": (),
        "readout_change": (),
        "score_change": ("key", "query"),
        "score_rate": ("key", "query"),
        "value_gram_change": ("key", "query"),
        "value_gram_rate": ("key", "query"),
        "attention_change": ("key", "query"),
        "attention_rate": ("key", "query"),
        "moved_scores": (),
        "moved_word_scores": (),
        "moved_values": (),
        "moved_keys": (),
        "moved_queries": (),
        "moved_attention": (),
        "moved_word_attention": (),
        "signal_word_attention_rate": (),
        "cross_value": (),
        "neuron_value": ("neuron", "signal"),
        "neuron_change": ("neuron", "signal"),
        "neuron_rate": ("neuron", "signal"),
        "neuron_word_change": ("neuron",),
        "neuron_word_rate": ("neuron",),
        "neuron_output_change": ("neuron",),
        "neuron_gram_change": ("neuron",),
        "cross_neuron": ("neuron",),
        "loss_tau": OverTime(loss_times_time),
    }
    flow = part(GramFlow)
    theory = part(FrozenKernel)

    @part
    def training(self) -> InWeights:
        return InGrams(self) if self.spec.gram else InWeights(self)

    def start(self, seed: int) -> Start:
        spec, (train, test, size) = self.spec, self.sentences
        if spec.reduced_start:
            grams, energy, output = data.draw_grams(spec, size, seed)
        else:
            weights, output = data.initial_weights(spec, size, seed)
            grams, energy = data.grams_of(weights, output, spec.followed), float(output @ output)
        frame = Frame(
            train,
            test,
            data.learned_words(spec, size),
            np.array(np.sqrt(spec.width)),
            data.units_of(spec),
            State(*map(np.asarray, grams))._replace(value=np.zeros(size)),
            np.array(energy),
            output,
        )
        if spec.reduced_start:
            return ReducedStart(State(grams.value, *(np.zeros_like(part) for part in grams[1:])), frame)
        return Start(weights, frame)

    @cached_property
    def sentences(self) -> tuple[Sentences, Sentences, int]:
        return data.draw_sentences(self.spec)

    def view(self, point: Weights | State, frame: Frame) -> State:
        return self.flow.reduce(point, frame) if isinstance(point, Weights) else point

    def measure(self, view: State, frame: Frame) -> dict[str, Any]:
        from . import observe

        return observe.measure(view, frame)

    def clock(self, frame: Frame) -> float:
        return float(frame.start.readout)


class OnVariant(Descent, HasSamples):
    watched = "snapshots"

    def loss(self, weights: Any, frame: Any, batch: Sentences | None = None, key: Any = None) -> Any:
        from . import network

        return network.variant_loss(weights, self.spec, frame.train if batch is None else batch)

    def samples(self, frame: Any) -> Sentences:
        return frame.train

    def random_weights(self, seed: int) -> Any:
        start, rng = self.system.start(seed).point, np.random.default_rng((seed, 7))
        return type(start)(*(rng.standard_normal(part.shape) / self.spec.width**0.5 for part in start))

    def symmetries(self, seed: int) -> Sequence[Symmetry]:
        order = np.roll(np.arange(self.spec.hidden), 1)
        return (
            Symmetry("neurons are exchangeable", lambda w: w._replace(neuron=w.neuron[order], output=w.output[order])),
        )


class Variant(System):
    name = "cooccurrence/variant"
    paper = PAPER
    summary = "the same task with ReLU, trained output, more heads or layers"
    spec_type = VariantSpec
    spec: VariantSpec
    presets = {
        "tiny": {**TINY, "width": 8, "neurons": 6, "heads": 2, "layers": 2, "activation": "relu"},
        "tiny_trained": {**TINY, "width": 8, "neurons": 6, "trained_output": True},
        "quick": {"learning_rate": 1e-3, "steps": 3000},
        "paper": APPENDIX,
    }
    observables = {
        "loss": (),
        "train_loss": (),
        "test_loss": (),
        "type_loss": ("type",),
        "worst_margin": (),
        "test_margin": ("type",),
        "score_change": ("key", "query"),
    }
    training = part(OnVariant)

    @cached_property
    def sentences(self) -> tuple[Sentences, Sentences, int]:
        return data.draw_sentences(self.spec)

    def start(self, seed: int) -> Start:
        from . import network

        train, test, size = self.sentences
        weights = network.initial_variant(self.spec, size, seed)
        return Start(weights, network.VariantFrame(train, test, weights))

    def view(self, point: Any, frame: Any) -> Any:
        return point

    def measure(self, view: Any, frame: Any) -> dict[str, Any]:
        from . import network

        return network.measure_variant(view, self.spec, frame)
