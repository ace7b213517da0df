"""The regression flow of section 3, and the transformers that are trained on the Markov chain of section 2."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from saddlescope.core.observable import Coordinate, Observable
from saddlescope.core.parts import (
    Descent,
    ExactDescent,
    Flow,
    HasFreshData,
    HasInvariants,
    HasJacobian,
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

from . import chain, data, reduction
from .data import Frame, State, Weights
from .spec import PAPER_FULL, PAPER_MINIMAL, FullSpec, MarkovSpec, RegressionSpec

ARRIVED = 1e-3
"""Of the loss at V = 0: a run without a horizon ends when no more than this is left above the last plateau."""

HEAD = Coordinate("head", "head", symbol="k")

TINY_FLOW = {"positions": 6, "patterns": 2, "heads": 2, "dimension": 3, "base_scale": 3.0, "init_noise": 0.2}


# ---- the regression of section 3 -------------------------------------------------------------------------


class OnTensor(ExactDescent):
    """The whole problem is a tensor: there are no samples to draw."""

    def loss(self, weights: Weights, frame: Frame, batch: Any = None, key: Any = None) -> Any:
        return reduction.tensor_loss(weights, frame, self.spec.positions)

    def descend(self, state: State, frame: Frame, learning_rate: Any) -> State:
        move = reduction.velocity(state, frame)
        return State(*(part + learning_rate * step for part, step in zip(state, move, strict=True)))

    def random_weights(self, seed: int) -> Weights:
        return data.random_weights(self.spec, self.system.start(0).frame, seed)

    def symmetries(self, seed: int) -> Sequence[Symmetry]:
        order = np.roll(np.arange(self.spec.heads), 1)
        shift = np.random.default_rng((seed, 8)).standard_normal((self.spec.heads, 1))
        shifts = Symmetry("logits may be shifted", lambda w: w._replace(logits=w.logits + shift))
        if self.spec.coupled:
            return (shifts,)
        return (shifts, Symmetry("heads are exchangeable", lambda w: Weights(*(part[order] for part in w))))


class Competition(Flow, HasJacobian, HasProducts, HasInvariants):
    arrays = "batched"

    def reduce(self, weights: Weights, frame: Frame) -> State:
        return reduction.reduce(weights, frame, self.spec.rows)

    def velocity(self, state: State, frame: Frame) -> State:
        return reduction.velocity(state, frame)

    def jacobian(self, frame: Frame) -> Callable[[State], Any]:
        return lambda state: reduction.jacobian(state, frame)

    def linearize(self, state: State, frame: Frame) -> Any:
        return reduction.linearized(state, frame)

    def conserved(self, point: Weights | State, frame: Frame) -> Any:
        state = self.reduce(point, frame) if isinstance(point, Weights) else point
        return reduction.conserved(state, frame)


class SymmetricStart(Theory):
    limit = Limit("init_noise", (0.03, 0.003, 0.0003), {"value_noise": 0.0})

    def predict(self, start: Start) -> Prediction:
        from . import prediction

        spec, (point, frame) = self.spec, start
        state = self.system.flow.reduce(point, frame)
        first = float(reduction.measure(self.system.view(state, frame), frame)["loss"])
        levels = prediction.plateau_losses(spec)[: 2 if spec.coupled else None]  # heads in step learn one pattern
        times = [prediction.first_stage(spec, state, frame)] + [None] * (len(levels) - 2)
        first_pattern = f"pattern {spec.by_importance[0] + 1}"
        notes = [
            f"heads that start alike learn {first_pattern} together; the noise of the start decides when they part"
        ]
        if times[0] is None:
            notes = [f"from here, heads that stay together do not learn {first_pattern}: they begin with another"]
        return Prediction(
            stages=tuple(
                Stage(k + 1, time, level, f"pattern {place + 1}")
                for k, (time, level, place) in enumerate(zip(times, levels[1:], spec.by_importance, strict=False))
            ),
            marks=tuple(Mark("residual", 0.5, "falls", (place,)) for place in spec.by_importance[: len(times)]),
            initial_loss=first,
            observables={"loss": levels[-1]},
            solver="closed form; first stage by the symmetric flow",
            notes=tuple(notes),
            ending=Ending(
                prediction.LONGEST,
                Mark("loss", levels[-1] + ARRIVED * levels[0]),
                awaited=spec.stages,  # no theory gives later stages a time, but they do come
                at_once=True,
            ),
        )


class Regression(System):
    name = "sparse_attention"
    paper = "yuksel2025"
    summary = "attention heads first compete for the strongest pattern, then share out the rest"
    spec_type = RegressionSpec
    spec: RegressionSpec
    presets = {
        "tiny": TINY_FLOW,
        "tiny_any": {**TINY_FLOW, "heads": 3, "value_noise": 0.1, "features": "orthogonal"},
        "tiny_lumped": {**TINY_FLOW, "positions": 9, "lumped": True},
        "tiny_coupled": {**TINY_FLOW, "coupled": True},
        "quick": {},
        "paper": {"features": "orthogonal"},
    }
    observables = {
        "loss": Observable("loss", symbol="L"),
        "residual": Observable("share of each pattern that is not learned", "pattern", symbol="R_jj/m_j*"),
        "loss_parts": Observable("loss by feature and position", "feature", "position", symbol="½ R_ji²"),
        "attention": Observable("attention of each head", "head", "position", symbol="s_k"),
        "value": Observable("each feature in each head's value", "head", "pattern", symbol="⟨V_k, V_j*⟩"),
        "value_norm": Observable("norm of each head's value", "head", symbol="|V_k|"),
        "deviation": Observable("largest distance of a head from the mean of all"),
    }
    training = part(OnTensor)
    flow = part(Competition)
    theory = part(SymmetricStart)

    def start(self, seed: int) -> Start:
        return Start(data.initial_weights(self.spec, self._frame, seed), self._frame)

    @cached_property
    def _frame(self) -> Frame:
        return data.build_frame(self.spec)

    def coordinates(self) -> dict[str, Coordinate]:
        return {
            "head": HEAD,
            "pattern": Coordinate("pattern", "pattern", symbol="j"),
            "strength": Coordinate("strength of a pattern", "pattern", values=self.spec.strengths, symbol="m_j*"),
            "feature": Coordinate("feature; the last: all other directions", "feature", symbol="j"),
            "position": Coordinate("position; the last: all that no pattern needs", "position", symbol="i"),
        }

    def view(self, point: Weights | State, frame: Frame) -> reduction.View:
        state = self.flow.reduce(point, frame) if isinstance(point, Weights) else point
        return reduction.view_state(state, frame, self.spec.heads)

    def measure(self, view: reduction.View, frame: Frame) -> dict[str, Any]:
        return reduction.measure(view, frame)


# ---- transformers on the chain of section 2 --------------------------------------------------------------


class OnChain(Descent, HasSamples, HasFreshData):
    watched = "snapshots"

    def loss(self, weights: Any, frame: chain.Frame, batch: chain.Tokens | None = None, key: Any = None) -> Any:
        from . import network

        return network.cross_entropy(weights, self.spec, frame.train if batch is None else batch, key)

    def samples(self, frame: chain.Frame) -> chain.Tokens:
        return frame.train

    def draw(self, frame: chain.Frame, key: Any, size: int) -> chain.Tokens:
        from . import network

        return network.draw(self.spec, frame, key, size)

    def symmetries(self, seed: int) -> Sequence[Symmetry]:
        order = np.roll(np.arange(self.spec.heads), 1)
        return (Symmetry("heads are exchangeable", lambda w: self.system.with_heads(w, order)),)


class OnOwnWeights(OnChain):
    """Checked at the weights of a start, which are of order one."""

    def random_weights(self, seed: int) -> Any:
        return self.system.start(seed).point


class Intervals(Theory):
    def predict(self, start: Start) -> Prediction:
        from .plateaus import plateau_excess, sample_excess

        spec, entropy = self.spec, float(start.frame.entropy)
        visible = [k for k, lags in enumerate(spec.lags) if spec.context is None or max(lags) <= spec.context]
        known = next((k for k, place in enumerate(visible) if k != place), len(visible))
        levels = [np.log(spec.vocabulary) - entropy]
        levels += [plateau_excess(spec.chain, k) for k in range(1, min(known + 1, spec.patterns))]
        if known == spec.patterns:
            weights = sum(np.size(part) for part in start.point)
            levels.append(min(sample_excess(spec, weights), levels[-1] / 3))
        pairs = list(itertools.pairwise(levels))
        return Prediction(
            stages=tuple(Stage(k, None, entropy + after, f"I({k})") for k, (_, after) in enumerate(pairs, start=1)),
            marks=tuple(Mark("excess", float(np.sqrt(before * after))) for before, after in pairs),
            initial_loss=entropy + levels[0],
            observables={"loss": entropy + levels[-1], "excess": levels[-1]},
            solver="softmax regression on the means of the first intervals",
            notes=(
                "the last level is what as many weights pay for a finite training set, at most a third of the former",
            ),
            # No theory says how long training takes: it ends after its steps, whatever it has seen.
            ending=Ending(awaited=0),
        )


class Markov(System):
    """What transformers on the chain of Eq. (1) share. Weights are those of `network`."""

    paper = "yuksel2025"
    spec: MarkovSpec
    observables = {
        "loss": Observable("cross-entropy on fresh sequences", units="nats"),
        "excess": Observable("cross-entropy above that of the truth", units="nats"),
        "divergence": Observable(
            "divergence from the truth that knows I(1) to I(i)", "pattern", symbol="KL", units="nats"
        ),
        "mass": Observable("attention of each head to each interval", "head", "interval"),
        "map": Observable("attention of each head from token to token", "head", "query", "key"),
        "probe": Observable("log-probability of each next token", "context", "token"),
    }

    training = part(OnChain)
    theory = part(Intervals)

    @cached_property
    def _frame(self) -> chain.Frame:
        return chain.build_frame(self.spec)

    def coordinates(self) -> dict[str, Coordinate]:
        spec, (outputs, inputs) = self.spec, chain.shape(self.spec)
        names = [*(f"I({k})" for k in range(1, spec.patterns + 1)), "all others"]
        return {
            "head": HEAD,
            "pattern": Coordinate("pattern", "pattern", symbol="i"),
            "strength": Coordinate("strength of a pattern", "pattern", values=spec.strengths, symbol="m_i"),
            "interval": Coordinate("interval of lags; the last: all others", "interval", symbol="k"),
            "lags": Coordinate("interval of lags", "interval", values=names, symbol="I(k)"),
            "query": Coordinate("token that is predicted", "query", symbol="t"),
            "key": Coordinate("token that is looked at", "key", values=range(outputs - inputs, outputs)),
            "context": Coordinate("context in which the prediction is kept", "context"),
            "token": Coordinate("token of the vocabulary", "token"),
        }

    def view(self, point: Any, frame: chain.Frame) -> Any:
        return point

    def measure(self, view: Any, frame: chain.Frame) -> dict[str, Any]:
        from . import network

        return network.measure(view, self.spec, frame)

    @abstractmethod
    def with_heads(self, weights: Any, order: np.ndarray) -> Any:
        """The same network with its heads in another order."""


TINY = {
    "positions": 5,
    "patterns": 2,
    "heads": 2,
    "vocabulary": 4,
    "interval_length": 1,
    "samples": 40,
    "test_samples": 30,
    "batch_size": 20,
    "steps": 30,
    "precision": "float64",
}


class Minimal(Markov):
    name = "sparse_attention/minimal"
    summary = "attention by position alone learns a Markov chain, one interval of lags after the other"
    spec_type = MarkovSpec
    presets = {
        "tiny": TINY,
        "tiny_windows": {**TINY, "context": 1},
        "quick": {},
        "paper": PAPER_MINIMAL,
    }
    observables = {
        **Markov.observables,
        "feature": Observable("share of each feature that the heads at its interval hold", "pattern"),
    }

    def start(self, seed: int) -> Start:
        from . import network

        return Start(network.initial_minimal(self.spec, seed), self._frame)

    def measure(self, view: Any, frame: chain.Frame) -> dict[str, Any]:
        from . import network

        found = super().measure(view, frame)
        return {**found, "feature": network.feature_share(view, self.spec, frame, found["mass"])}

    def with_heads(self, weights: Any, order: np.ndarray) -> Any:
        return type(weights)(*(part[order] for part in weights))


class Full(Markov):
    name = "sparse_attention/full"
    summary = "a decoder block with embeddings, norms, residuals and MLP on the same chain, each removable"
    spec_type = FullSpec
    spec: FullSpec
    presets = {
        "tiny": {**TINY, "hidden": 6, "feedforward": 5, "dropout": 0.1},
        "tiny_bare": {
            **TINY,
            "hidden": 6,
            **dict.fromkeys(("layer_norm", "residual", "mlp", "keys", "output", "embedding"), False),
        },
        "quick": {},
        "paper": PAPER_FULL,
    }
    training = part(OnOwnWeights)

    def start(self, seed: int) -> Start:
        from . import network

        return Start(network.initial_full(self.spec, seed), self._frame)

    def with_heads(self, weights: Any, order: np.ndarray) -> Any:
        spec = self.spec
        columns = (order[:, None] * (spec.hidden // spec.heads) + np.arange(spec.hidden // spec.heads)).ravel()
        moved = weights._replace(
            query=weights.query[:, columns] if spec.keys else weights.query[order],
            value=weights.value[:, columns] if spec.output else weights.value[order],
        )
        if spec.keys:
            moved = moved._replace(key=weights.key[:, columns])
        return moved._replace(output=weights.output[columns]) if spec.output else moved
