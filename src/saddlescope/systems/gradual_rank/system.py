"""Networks with diagonal weights, f(x; u, v) = h(x; u*v), stated once for all three faces."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from saddlescope.core.errors import BadArgument
from saddlescope.core.observable import Coordinate, Observable
from saddlescope.core.parts import (
    Descent,
    ExactDescent,
    Flow,
    HasInvariants,
    HasJacobian,
    HasSamples,
    Limit,
    Symmetry,
    Theory,
    largest_entry,
    part,
)
from saddlescope.core.stage import Prediction, Stage
from saddlescope.core.start import ReducedStart, Start
from saddlescope.core.system import System

from . import data
from .data import ACTIVE, Frame, FullFrame, Matrices, Samples, Weights
from .spec import DiagonalSpec, FullSpec, LinearSpec, PerturbedSpec, TransformerSpec

MOST_PROBLEMS = 16
_PROBLEMS: dict[Any, Any] = {}
"""The latest problems by what decides them, so that runs that differ in alpha or seed share data and plateaus."""


class DiagonalProblem(System):
    """What every h(x; u*v) shares. A network adds `size`, `objective` and `arrays_of_problem`."""

    paper = "boix2023"
    spec: DiagonalSpec
    time = Observable("time of the gradient flow", symbol="t", units="log(1/α)")
    observables = {
        "loss": Observable("loss", symbol="L"),
        "product": Observable("product of the factors", "coordinate", symbol="u*v"),
        "log_size": Observable("logarithm of the factors' size", "coordinate", symbol="log(|u|+|v|)"),
    }

    @property
    @abstractmethod
    def size(self) -> int:
        """p, the number of coordinates."""

    @property
    @abstractmethod
    def objective(self) -> Any:
        """L(p), a network.Objective."""

    @abstractmethod
    def arrays_of_problem(self) -> tuple[Samples, tuple[Any, ...]]:
        """The samples, and the frozen arrays that the network reads."""

    def coordinate_name(self, index: int) -> str:
        """For labels; counted from 1."""
        return f"coordinate {index + 1}"

    def coordinates(self) -> dict[str, Coordinate]:
        return {"coordinate": Coordinate("coordinate of u*v", "coordinate", symbol="i")}

    @property
    def problem(self) -> Any:
        """What alpha and the seed do not change, shared by all runs of it (a forecast.Problem)."""
        key = self.problem_key
        if key not in _PROBLEMS:
            from saddlescope.core.precision import start_with_one_thread

            from .forecast import Problem

            start_with_one_thread()
            if len(_PROBLEMS) >= MOST_PROBLEMS:
                _PROBLEMS.pop(next(iter(_PROBLEMS)))
            _PROBLEMS[key] = Problem(*self.arrays_of_problem(), self.objective, self.size)
        return _PROBLEMS[key]

    @property
    def problem_key(self) -> Hashable:
        """What decides the problem: the same for systems that differ in their start alone."""
        return type(self).arrays_of_problem, self.objective, self.spec.problem

    def force(self, state: Any, frame: Frame) -> Any:
        """−dL/dp at a reduced state."""
        from . import reduction

        return self.objective.force(reduction.product(state), frame)

    def start(self, seed: int) -> Start:
        unit = self.unit_weights(seed)
        data.check_unit_weights(unit, self.spec.equal_start)
        if not self.spec.weights_exist:
            from .reduction import log_weights

            return ReducedStart(log_weights(unit, self.spec.log_inverse_alpha), self._frame)
        return Start(data.scaled(unit, self.spec.log10_alpha), self._frame)

    def unit_weights(self, seed: int) -> Weights:
        """theta_0, which alpha scales."""
        return data.unit_weights(self.size, seed, self.spec.equal_start)

    @cached_property
    def _frame(self) -> Frame:
        return Frame(self.problem.samples, self.problem.frozen, self.spec.log_inverse_alpha)

    def clock(self, frame: Frame) -> float:
        return 1 / frame.log_inverse_alpha

    def view(self, point: Any, frame: Frame) -> Any:
        from . import reduction

        if isinstance(point, Weights):
            return reduction.view_of_weights(point)
        return reduction.view_of_state(point)

    def measure(self, view: Any, frame: Frame) -> dict[str, Any]:
        loss = self.objective(view.product, frame) + self.spec.weight_penalty * view.squares / 2
        return {"loss": loss, "product": view.product, "log_size": view.log_size}


# ---- training --------------------------------------------------------------------------------------------


class Product(Descent, HasSamples):
    """By the network's own gradient."""

    def loss(self, weights: Weights, frame: Frame, batch: Samples | None = None, key: Any = None) -> Any:
        u, v = weights
        return self.system.objective(u * v, frame, batch) + self.spec.weight_penalty * ((u**2).sum() + (v**2).sum()) / 2

    def samples(self, frame: Frame) -> Samples:
        return frame.samples

    def random_weights(self, seed: int) -> Weights:
        rng = np.random.default_rng((seed, 7))
        return Weights(*(rng.normal(size=self.system.size) for _ in range(2)))

    def symmetries(self, seed: int) -> Sequence[Symmetry]:
        sign = np.where(np.arange(self.system.size) % 2 == 0, -1.0, 1.0)
        factor = np.exp(np.random.default_rng((seed, 8)).normal(size=self.system.size))
        return (
            Symmetry("u and v are exchangeable", lambda w: Weights(w.v, w.u)),
            Symmetry("u_i and v_i may flip their signs together", lambda w: Weights(w.u * sign, w.v * sign)),
            Symmetry("u_i may be scaled against v_i", lambda w: Weights(w.u * factor, w.v / factor)),
        )


class InLogarithms(Product, ExactDescent):
    """In log|u ± v|, where weights of 1e-1000 move like any other."""

    def descend(self, state: Any, frame: Frame, learning_rate: Any) -> Any:
        from . import reduction

        return reduction.descend(state, self.system.force(state, frame), learning_rate, self.spec.weight_penalty)


# ---- flow and theory -------------------------------------------------------------------------------------


class LogFlow(Flow, HasJacobian, HasInvariants):
    arrays = "jax"

    @property
    def code(self) -> Hashable:
        return type(self.system), self.system.objective, self.spec.weight_penalty

    def reduce(self, weights: Weights, frame: Frame) -> Any:
        from . import reduction

        return reduction.reduce(weights)

    def velocity(self, state: Any, frame: Frame) -> Any:
        from . import reduction

        return reduction.velocity(self.system.force(state, frame), frame.log_inverse_alpha, self.spec.weight_penalty)

    def jacobian(self, frame: Frame) -> Callable[[Any], np.ndarray]:
        """Of k active coordinates, k products with the Hessian, and of those that moved little, the last ones."""
        from . import network, reduction

        def columns_of(product: np.ndarray, which: np.ndarray) -> np.ndarray:
            return network.hessian_columns(self.system.objective, product, frame, which)

        memory = reduction.Columns(self.system.size, columns_of)
        scale = frame.log_inverse_alpha
        return lambda state: reduction.jacobian(state, memory.at(state), scale)

    def largest_weight(self, point: Any, frame: Frame) -> Any:
        if isinstance(point, Weights):
            return largest_entry(point)
        return np.exp(max(float(np.max(part)) for part in point))  # |u ± v| are at most twice |u|, |v|

    def conserved(self, point: Any, frame: Frame) -> Any:
        from . import reduction

        return reduction.conserved(point)


def _left(system: Any, stage: Stage) -> str:
    return ", ".join(system.coordinate_name(index) for index in stage.extra.get("left") or ())


def _limit_time(system: Any, stage: Stage) -> str:
    moment = stage.extra.get("limit_time")
    return "" if moment is None else f"{moment:.6g}"


class Greedy(Theory):
    columns = {"in the limit": _limit_time, "left": _left}
    limit = Limit("log10_alpha", (-8.0, -16.0, -32.0), {})

    def predict(self, start: Start) -> Prediction:
        from .forecast import forecast

        return forecast(self.system, start)

    def describe(self, stage: Stage, before: Mapping[str, Any], after: Mapping[str, Any]) -> Stage:
        """Coordinates that left the support are those that the run itself lost."""
        sizes = [np.abs(values["product"]) for values in (before, after)]
        old, new = (size > ACTIVE * max(size.max() for size in sizes) for size in sizes)
        gone = np.flatnonzero(old & ~new)
        return replace(stage, extra={"coordinates": stage.extra["coordinates"], "left": gone.tolist()})

    def remark(self, prediction: Prediction, last: Mapping[str, Any]) -> str:
        if not prediction.stages:
            return ""
        size = np.abs(last["product"])
        listed = {index for stage in prediction.stages for index in stage.extra["coordinates"]}
        more = len(set(np.flatnonzero(size > ACTIVE * size.max()).tolist()) - listed)
        return f"{more} more coordinates than the {len(prediction.stages)} listed stages have grown" if more else ""


# ---- systems ---------------------------------------------------------------------------------------------


class Diagonal(DiagonalProblem):
    """One that is trained, flowed and predicted."""

    flow = part(LogFlow)
    theory = part(Greedy)

    @part
    def training(self) -> Product:
        exact = self.spec.arithmetic == "log" or not self.spec.weights_exist
        return InLogarithms(self) if exact else Product(self)


class TransformerProblem(DiagonalProblem):
    spec_type = TransformerSpec
    spec: TransformerSpec

    @property
    def size(self) -> int:
        return self.spec.size

    @property
    def objective(self) -> Any:
        from .network import ERRORS, TRANSFORMERS, Objective, head

        h = head if self.spec.is_head else TRANSFORMERS[self.spec.activation]
        return Objective(h, ERRORS[self.spec.error], self.spec.penalty)

    def arrays_of_problem(self) -> tuple[Samples, tuple[Any, ...]]:
        from .network import compiled_output

        frozen, inputs = data.feed_forward(self.spec), data.tokens(self.spec)
        truth = data.teacher(self.spec.teacher_seed, (self.spec.layers, self.spec.heads, self.spec.dim))
        targets = compiled_output(self.objective.h)(inputs, truth, *frozen)
        return Samples(inputs, np.asarray(targets)), frozen

    def coordinate_name(self, index: int) -> str:
        """For labels: where a coordinate stands, counted from 1."""
        spec = self.spec
        unit, place = divmod(index, spec.dim)
        block, kind = divmod(unit, 2)
        words = f"{('KQ', 'VO')[kind]} {place + 1}"
        if spec.is_head:
            return words
        layer, head = divmod(block, spec.heads)
        return f"layer {layer + 1} head {head + 1} {words}"

    def coordinates(self) -> dict[str, Coordinate]:
        names = [self.coordinate_name(index) for index in range(self.size)]
        entry = Coordinate("entry of W_K W_Qᵀ (KQ) or W_V W_Oᵀ (VO)", "coordinate", values=names)
        return {**super().coordinates(), "entry": entry}


class Transformer(TransformerProblem, Diagonal):
    name = "gradual_rank"
    summary = "attention with diagonal weights learns one entry of W_K W_Q^T or W_V W_O^T at a time"
    presets = {
        "tiny": {"dim": 4, "tokens": 4, "samples": 40, "log10_alpha": -12.0, "stages": 3},
        "tiny_layers": {
            "dim": 3,
            "tokens": 3,
            "samples": 30,
            "layers": 2,
            "log10_alpha": -12.0,
            "stages": 3,
            "arithmetic": "log",
        },
        "tiny_heads": {"dim": 2, "tokens": 3, "samples": 30, "heads": 2, "log10_alpha": -12.0, "stages": 2},
        "quick": {},
        "paper": {"samples": 1000, "horizon": 1000.0, "learning_rate": 0.43},
    }


class Perturbed(TransformerProblem):
    """Beyond the start: from a plateau, pushed off it. No prediction: what it should do is known from the plateaus."""

    name = "gradual_rank/perturbed"
    summary = "the same, started on a plateau and pushed off it"
    spec_type = PerturbedSpec
    spec: PerturbedSpec
    presets = {
        "tiny": {**Transformer.presets["tiny"], "horizon": 10.0},
        "quick": {"horizon": 20.0},
        "paper": {"samples": 1000, "horizon": 20.0},
    }

    flow = part(LogFlow)

    def start(self, seed: int) -> Start:
        from .perturbation import kicked, on_plateau

        spec = self.spec
        logs, steps = self.algorithm
        if len(steps) <= spec.stage:
            raise BadArgument(f"`stage` must be below {len(steps)}, got {spec.stage}: there are no more stages")
        place = on_plateau(logs, steps, spec.stage, spec.moment, spec.log_inverse_alpha)
        point = kicked(place, steps[spec.stage].entering, spec.kicked, spec.noise, seed)
        return ReducedStart(point, self._frame)

    def goal(self) -> np.ndarray:
        """Where it should go: p of its own plateau, or, with the newcomer, of the next."""
        step = self.algorithm[1][self.spec.stage]
        return (step.after if self.spec.kicked == "newcomer" else step.before).product

    @cached_property
    def algorithm(self) -> Any:
        """log|u±v| of seed 0's theta_0, which all seeds of the noise share, and its stages by Algorithm 1."""
        from .forecast import logs_of
        from .prediction import algorithm_1

        logs = logs_of(self.unit_weights(0))
        return logs, algorithm_1(self.problem.origin, logs, self.spec.stages).steps


class Linear(Diagonal):
    name = "gradual_rank/linear"
    summary = "the diagonal linear network sum_i u_i v_i x_i"
    spec_type = LinearSpec
    spec: LinearSpec
    presets = {
        "tiny": {"coefficients": (1.0, -0.7, 0.4), "log10_alpha": -12.0, "stages": 3},
        "tiny_samples": {"coefficients": (1.0, -0.7, 0.4), "samples": 20, "log10_alpha": -12.0, "stages": 3},
        "quick": {},
        "paper": {"samples": 1000},
    }

    @property
    def size(self) -> int:
        return len(self.spec.coefficients)

    @property
    def objective(self) -> Any:
        from .network import ERRORS, Objective, linear

        return Objective(linear, ERRORS[self.spec.error], self.spec.penalty)

    def arrays_of_problem(self) -> tuple[Samples, tuple[Any, ...]]:
        return data.regression(self.spec), ()


class WithMatrices(Descent, HasSamples, HasInvariants):
    def loss(self, weights: Matrices, frame: FullFrame, batch: Samples | None = None, key: Any = None) -> Any:
        return self.system.mean_error(weights, frame, batch)

    def samples(self, frame: FullFrame) -> Samples:
        return frame.samples

    def conserved(self, point: Matrices, frame: FullFrame) -> Any:
        """W_K^T W_K − W_Q^T W_Q and W_V^T W_V − W_O^T W_O: what Lemma 4.1 is for matrices."""
        import jax.numpy as jnp

        key, query, value, output = self.system.view(point, frame)
        return jnp.stack([key.T @ key - query.T @ query, value.T @ value - output.T @ output])

    def symmetries(self, seed: int) -> Sequence[Symmetry]:
        turn = np.diag(np.where(np.arange(self.spec.width) % 2 == 0, -1.0, 1.0))
        return (
            Symmetry("W_K and W_Q may turn together", lambda w: w._replace(key=w.key @ turn, query=w.query @ turn)),
            Symmetry(
                "W_V and W_O may turn together", lambda w: w._replace(value=w.value @ turn, output=w.output @ turn)
            ),
        )


class Full(System):
    """Beyond the theory: matrices that are full, or diagonal in blocks."""

    name = "gradual_rank/full"
    paper = "boix2023"
    summary = "attention with full or block-diagonal weight matrices"
    spec_type = FullSpec
    spec: FullSpec
    presets = {
        "tiny": {"dim": 4, "tokens": 3, "samples": 20, "log10_alpha": -2.0, "steps": 50},
        "tiny_blocks": {"dim": 4, "tokens": 3, "samples": 20, "log10_alpha": -2.0, "steps": 50, "block": 2},
        "quick": {},
        "paper": {"samples": 1000},
    }
    observables = {
        "loss": Observable("loss", symbol="L"),
        "kq_values": Observable("singular values of W_K W_Qᵀ", "direction"),
        "vo_values": Observable("singular values of W_V W_Oᵀ", "direction"),
    }

    training = part(WithMatrices)

    def start(self, seed: int) -> Start:
        return Start(data.matrices(self.spec, seed), self._frame)

    @cached_property
    def _frame(self) -> FullFrame:
        from .network import compiled_output, head

        spec, inputs = self.spec, data.tokens(self.spec)
        targets = compiled_output(head)(inputs, data.teacher(spec.teacher_seed, (1, 1, spec.dim)))
        return FullFrame(Samples(inputs, np.asarray(targets)), data.block_mask(spec.dim, spec.width, spec.block))

    def coordinates(self) -> dict[str, Coordinate]:
        return {"direction": Coordinate("direction, by falling singular value", "direction")}

    def view(self, point: Matrices, frame: FullFrame) -> Matrices:
        return Matrices(*(part * frame.mask for part in point))

    def measure(self, view: Matrices, frame: FullFrame) -> dict[str, Any]:
        import jax.numpy as jnp

        pairs = {"kq_values": (view.key, view.query), "vo_values": (view.value, view.output)}
        values = {name: jnp.linalg.svd(a @ b.T, compute_uv=False) for name, (a, b) in pairs.items()}
        return {"loss": self.mean_error(view, frame), **values}

    def mean_error(self, weights: Matrices, frame: FullFrame, batch: Samples | None = None) -> Any:
        from .network import full_head

        inputs, targets = frame.samples if batch is None else batch
        return ((full_head(inputs, *self.view(weights, frame)) - targets) ** 2).mean() / 2
