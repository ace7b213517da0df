"""System: one paper's problem, stated once, so that it can be trained, flowed and predicted."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

from .errors import Undeclared
from .spec import Spec
from .stage import Mark, Prediction, Stage
from .subject import Subject


class Start(NamedTuple):
    """point: what moves (weights, or the reduced state where weights cannot be formed).  frame: what does not."""

    point: Any
    frame: Any


class Limit(NamedTuple):
    """The ladder along which the prediction becomes exact: values of a field, from far to near.

    overrides: other fields to set on every rung.
    """

    field: str
    values: tuple[float, ...]
    overrides: Mapping[str, Any]


class Symmetry(NamedTuple):
    """A map of the weights that leaves the network's function, and so the loss, as it is."""

    name: str
    apply: Callable[[Any], Any]


class System(Subject):
    """The contract. Points, frames, states and views are named tuples of arrays.

    A system has no loop of its own: `dynamics` moves what is stated here. Methods below `start` are written for
    jax arrays; a system with `arrays = "any"` uses only operators and methods that NumPy shares, so that SciPy
    solvers and predictions can call them without jax; with `batched = True`, velocity, jacobian, view, measure
    and conserved also take points with a leading batch axis.

    Class attributes beside those of a Subject: ends_on_arrival (whether a run without a set horizon ends as soon as it
    has arrived), watched (when training looks for passages: a system whose observables cost as much as a step of
    training looks at snapshots only), remembered (fields of the frame that record the start: the seed moves them). Its
    presets are at least tiny, quick and paper; each "tiny..." is checked by the conformance suite. `observables` are
    what `measure` returns.
    """

    spec_type: ClassVar[type[Spec]]
    arrays: ClassVar[Literal["any", "jax"]] = "any"
    batched: ClassVar[bool] = False
    ends_on_arrival: ClassVar[bool] = False
    watched: ClassVar[Literal["every step", "snapshots"]] = "every step"
    remembered: ClassVar[tuple[str, ...]] = ()

    @property
    def code(self) -> Hashable:
        """What velocity, view and measure depend on besides their arguments: equal ones share compiled code."""
        return self.identity

    def declares(self, name: str) -> bool:
        """Whether this system offers an optional part of the contract."""
        return getattr(type(self), name) is not getattr(System, name)

    @property
    def starts_reduced(self) -> bool:
        """Whether `start` hands out the reduced state because the weights cannot be formed (alpha = 1e-1000)."""
        return False

    @property
    def trains_exactly(self) -> bool:
        """Whether plain full-batch GD is trained by `descend` instead of by the network's own gradient."""
        return self.declares("descend")

    # ---- what every system states -----------------------------------------------------------------------

    @abstractmethod
    def start(self, seed: int) -> Start:
        """The shared beginning of all faces, drawn with NumPy; `seed` moves the initial weights only."""

    def view(self, point: Any, frame: Any) -> Any:
        """The arrays that fix the network's function, from weights or from a state."""
        raise self._undeclared("view")

    def measure(self, view: Any, frame: Any) -> dict[str, Any]:
        """Named observables, "loss" among them, with the dimensions that `observables` declares."""
        raise self._undeclared("measure")

    def clock(self, frame: Any) -> float:
        """Time of this system per unit of gradient-flow time: a step of GD advances clock * learning_rate."""
        return 1.0

    # ---- train -------------------------------------------------------------------------------------------

    def loss(self, weights: Any, frame: Any, batch: Any = None, key: Any = None) -> Any:
        """Of the network with these weights; batch None: the whole problem. `key` drives dropout."""
        raise self._undeclared("loss")

    def samples(self, frame: Any) -> Any:
        """The training set as a named tuple of arrays with the sample axis first, for mini-batches."""
        raise self._undeclared("samples")

    def draw(self, frame: Any, key: Any, size: int) -> Any:
        """A fresh batch, for online training."""
        raise self._undeclared("draw")

    def evaluate(self, weights: Any, frame: Any) -> Any:
        """The loss that schedules listen to."""
        return self.loss(weights, frame)

    def descend(self, state: Any, frame: Any, learning_rate: Any) -> Any:
        """The exact image, under `reduce`, of one step of gradient descent on the whole problem."""
        raise self._undeclared("descend")

    def stable_rate(self, frame: Any) -> float | None:
        """The learning rate above which full-batch GD overshoots from the start on; None where nothing is known."""
        return None

    # ---- flow --------------------------------------------------------------------------------------------

    def reduce(self, weights: Any, frame: Any) -> Any:
        """The exactly reduced state; need only hold along plain GD and the flow."""
        return weights

    def velocity(self, state: Any, frame: Any) -> Any:
        """d state / d time of the gradient flow, in this system's clock."""
        raise self._undeclared("velocity")

    def jacobian(self, state: Any, frame: Any) -> Any:
        """d velocity / d state as a matrix over the ravelled state."""
        raise self._undeclared("jacobian")

    def cheap_jacobian(self, frame: Any) -> Callable[[Any], Any]:
        """state -> the Jacobian, or nearly: a function for one integration, which may reuse what it computed before.

        Implicit solvers need no more; the first call must be exact.
        """
        return lambda state: self.jacobian(state, frame)

    def linearize(self, state: Any, frame: Any) -> Any:
        """x -> J x for states x, without forming the Jacobian J; declared only where J is symmetric.

        It is so where the state moves by a plain gradient; large states are then flowed without a matrix.
        """
        raise self._undeclared("linearize")

    def conserved(self, point: Any, frame: Any) -> Any:
        """Array of quantities that the flow keeps."""
        raise self._undeclared("conserved")

    def largest_weight(self, point: Any, frame: Any) -> Any:
        """In size, of one point or of many: what drifts are measured against. A state that is no weights says more."""
        return max(abs(leaf).max() for leaf in point)

    def warp(self, frame: Any) -> float:
        """Scale T: the flow is integrated in log(1 + time/T)."""
        raise self._undeclared("warp")

    # ---- predict -----------------------------------------------------------------------------------------

    def predict(self, start: Start) -> Prediction:
        raise self._undeclared("predict")

    def horizon(self, prediction: Prediction, frame: Any) -> float | None:
        """End of a run whose Spec sets none; None where the system has no default."""
        return None if prediction.last_time is None else 1.3 * prediction.last_time

    def arrival(self, prediction: Prediction) -> Mark | None:
        """What a run without a set horizon is prolonged for: the last plateau, to one part in a million."""
        last = prediction.stages[-1].loss if prediction.stages else None
        return None if last is None else Mark("loss", last + 1e-6 * abs(last))

    def awaited(self, prediction: Prediction) -> Sequence[Mark]:
        """Marks that a run must have passed to have seen everything.

        A stage to which theory gives no time, while it does to others, is one that does not happen.
        """
        timed = [stage.time is not None for stage in prediction.stages]
        return [mark for mark, known in zip(prediction.marks, timed, strict=True) if known or not any(timed)]

    def describe(self, stage: Stage, before: Mapping[str, Any], after: Mapping[str, Any]) -> Stage:
        """A measured stage with what it taught, from the observables on the plateaus before and after it."""
        return stage

    def epilogue(self, prediction: Prediction, last: Mapping[str, Any]) -> str:
        """What a user should know of a finished run, from its last observables; "" for nothing."""
        return ""

    def landmarks(self, frame: Any) -> Prediction:
        """The part of a prediction that holds for every start: stages without times, marks, plateaus.

        With `batched`, it lets an ensemble of flows run without a prediction for each seed.
        """
        raise self._undeclared("landmarks")

    def limit(self) -> Limit:
        raise self._undeclared("limit")

    # ---- further declarations ----------------------------------------------------------------------------

    def random_weights(self, seed: int) -> Any:
        """Weights of order one, far from any special point, at which conformance checks identities."""
        raise self._undeclared("random_weights")

    def symmetries(self, seed: int) -> Sequence[Symmetry]:
        raise self._undeclared("symmetries")

    def _undeclared(self, part: str) -> Undeclared:
        return Undeclared(f"{self.name} does not declare `{part}`")
