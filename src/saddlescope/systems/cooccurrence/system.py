"""The one-layer transformer of Eq. (1) on the co-occurrence task, at any width; and variants that are only trained."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from saddlescope.core.observable import Coordinate, Observable, OverTime
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
            staircase=False,
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


TRAIN_LOSS = Observable("training loss", symbol="L̂")
TEST_LOSS = Observable("loss on fresh sentences", symbol="L")
TYPE_LOSS = Observable("training loss of each type of sentence", "type")
WORST_MARGIN = Observable("smallest margin of a training sentence", symbol="min y F")
TEST_MARGIN = Observable("smallest margin of a fresh sentence of each type", "type", symbol="min y F")
SCORE_CHANGE = Observable("change of the scores since the start", "key", "query", symbol="C_ij")
TYPES = ("μ1 and μ2", "μ1 only", "μ2 only", "neither")
PLACES = {
    "type": Coordinate("type of sentence", "type"),
    "signals": Coordinate("signals in a sentence of each type", "type", values=TYPES),
    "key": Coordinate("word as key: μ1, μ2, μ3", "key", symbol="i"),
    "query": Coordinate("word as query: μ1, μ2, μ3", "query", symbol="j"),
}


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
        "loss": TRAIN_LOSS,
        "train_loss": TRAIN_LOSS,
        "test_loss": TEST_LOSS,
        "type_loss": TYPE_LOSS,
        "test_type_loss": Observable("loss of each type of fresh sentence", "type"),
        "pull": Observable("pull of each type of training sentence", "type", symbol="Σ g_i/n"),
        "margin": Observable("margin of each training sentence", "sample", symbol="y_i F_i"),
        "worst_margin": WORST_MARGIN,
        "test_margin": TEST_MARGIN,
        "balance_ratio": Observable("how fast G(μ3) falls over how fast G(μ1) rises", symbol="R"),
        "one_signal_loss": Observable("training loss of sentences with one signal"),
        "one_signal_rate": Observable("rate of the training loss of sentences with one signal"),
        "value": Observable("output of the MLP for each word", "word", symbol="G(μ)"),
        "value_rate": Observable("rate of the MLP's output", "signal", symbol="dG(μ)/dτ"),
        "value_rate_by_neurons": Observable("rate of the MLP's output that moving neurons make", "signal"),
        "neuron_share": Observable("largest rate of G that moving neurons make, over |s|² Σ g_i/n"),
        "attention_share": Observable("largest rate of F that moving attention makes, over |s|² Σ g_i/n"),
        "readout_change": Observable("change of |s|² since the start"),
        "score_change": SCORE_CHANGE,
        "score_rate": Observable("rate of the scores", "key", "query", symbol="dC_ij/dτ"),
        "value_gram_change": Observable("change of the products of two values since the start", "key", "query"),
        "value_gram_rate": Observable("rate of the products of two values", "key", "query"),
        "attention_change": Observable("change of attention since the start, mean over sentences", "key", "query"),
        "attention_rate": Observable("rate of attention, mean over sentences", "key", "query"),
        "moved_scores": Observable("largest change of a score since the start"),
        "moved_word_scores": Observable("largest change of an irrelevant word's score since the start"),
        "moved_values": Observable("largest change of a product of two values since the start"),
        "moved_keys": Observable("largest change of a product of two keys since the start"),
        "moved_queries": Observable("largest change of a product of two queries since the start"),
        "moved_attention": Observable("largest change of attention since the start"),
        "moved_word_attention": Observable("largest change of attention between irrelevant words"),
        "signal_word_attention_rate": Observable("largest rate of a signal's attention to an irrelevant word"),
        "cross_value": Observable("what other words add to the gradient of μ1"),
        "neuron_value": Observable("output of a neuron", "neuron", "signal", symbol="a_j w_j W_V μ"),
        "neuron_change": Observable("change of a neuron's output since the start", "neuron", "signal"),
        "neuron_rate": Observable("rate of a neuron's output", "neuron", "signal"),
        "neuron_word_change": Observable("largest change of a neuron's output for irrelevant words", "neuron"),
        "neuron_word_rate": Observable("largest rate of a neuron's output for irrelevant words", "neuron"),
        "neuron_output_change": Observable("largest change of w_j W_V X p since the start", "neuron"),
        "neuron_gram_change": Observable("largest change of a neuron's product with another", "neuron"),
        "cross_neuron": Observable("what other neurons add to a neuron's gradient for μ1", "neuron"),
        "loss_tau": OverTime("training loss times time", of=loss_times_time, symbol="L̂ τ"),
    }
    time = Observable("time of the gradient flow", symbol="τ = |s(0)|² t")
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

    def coordinates(self) -> dict[str, Coordinate]:
        return {
            **PLACES,
            "sample": Coordinate("training sentence", "sample", symbol="i"),
            "word": Coordinate("word; the first three are μ1, μ2, μ3", "word"),
            "signal": Coordinate("word: μ1, μ2, μ3", "signal"),
            "neuron": Coordinate("neuron that is followed", "neuron", symbol="j"),
        }

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
        "loss": TRAIN_LOSS,
        "train_loss": TRAIN_LOSS,
        "test_loss": TEST_LOSS,
        "type_loss": TYPE_LOSS,
        "worst_margin": WORST_MARGIN,
        "test_margin": TEST_MARGIN,
        "score_change": SCORE_CHANGE,
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

    def coordinates(self) -> dict[str, Coordinate]:
        return PLACES

    def view(self, point: Any, frame: Any) -> Any:
        return point

    def measure(self, view: Any, frame: Any) -> dict[str, Any]:
        from . import network

        return network.measure_variant(view, self.spec, frame)
