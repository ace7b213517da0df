"""The three parts that a subject may have, one per face, and the abilities that a part may have beside what it must.

training: `Descent` (a network moved by the engine of `dynamics`), `ExactDescent`, or `OwnLoop` (a loop of its own).
flow: `Flow`.  theory: `Theory`.  What more a part can do is a type that it also is (`HasJacobian`, ...): a part that
cannot do it does not mention it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar, overload

import numpy as np

from .extras import check_installed, needed_by
from .progress import Tick
from .stage import Prediction, Stage
from .start import ReducedStart, Start

if TYPE_CHECKING:
    import xarray

P = TypeVar("P")


class part(Generic[P]):
    """Gives a subject a part: `training = part(MyTraining)`, or as a decorator of a class or of a method.

    make: (subject) -> the part; it is called when the part is first asked for, which is then kept with the subject.
    """

    def __init__(self, make: Callable[[Any], P]):
        self.make = make

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, subject: None, owner: type) -> part[P]: ...
    @overload
    def __get__(self, subject: object, owner: type) -> P: ...
    def __get__(self, subject: Any, owner: type) -> part[P] | P:
        if subject is None:
            return self
        return vars(subject).setdefault(self.name, self.make(subject))


class Part(ABC):  # noqa: B024  (what is abstract is said by each kind of part)
    """system: the subject whose part this is.

    engines: functions that make runs of it, by name, and the module of each. A run's name depends on these modules.
    needs: libraries that it cannot do without, as they are imported, beside those of its engines.
    """

    engines: ClassVar[Mapping[str, str]] = {}
    needs: ClassVar[tuple[str, ...]] = ()

    def engine(self, name: str) -> Callable[..., Any]:
        """The function of this name; `MissingLibrary` if it, or the part, needs one that is not installed."""
        face = name.partition("_")[0]
        check_installed(face, self.needs)
        with needed_by(face):
            return getattr(import_module(self.engines[name]), name)

    def __init__(self, system: Any):
        self.system = system

    @property
    def spec(self) -> Any:
        return self.system.spec


# ---- training --------------------------------------------------------------------------------------------


class Training(Part):
    """How a network is trained.

    alone: whether a run needs the whole machine, e.g. its GPU, so that no other is made beside it.
    libraries: names of packages that numbers depend on, beside those of the engines.
    keeps: where a training that is not done keeps what the next call goes on from.
    steady: whether drops of the loss, where no theory names stages, are stages and not noise.
    costly: whether long runs are worth recording beside the code.
    """

    alone: ClassVar[bool] = False
    libraries: ClassVar[tuple[str, ...]] = ()
    keeps: ClassVar[Literal["file", "folder"]] = "file"
    steady: ClassVar[bool] = True
    costly: ClassVar[bool] = False

    def lacks(self) -> str:
        """Why this machine cannot make a run (data or a library is missing), with the way out; "" where it can."""
        return ""


class OwnLoop(Training):
    """A training loop of the subject's own.

    Importing a study's package is cheap: the library that it trains with is imported by `train`.
    """

    engines = {"train": "saddlescope.dynamics.own_loop"}
    keeps = "folder"
    steady = False
    costly = True

    @abstractmethod
    def train(self, seed: int, folder: Path | None, tick: Tick) -> xarray.Dataset | None:
        """The whole run, as `build_trajectory` makes it, with `step`, and `device` and `dtype` among its attributes.

        `seed` moves the initial weights. folder: exists, and is this run's own: checkpoints and partial results live
        there, so that the same call goes on where a killed one stopped; None: nothing is kept. attrs["seconds"] counts
        all calls together. None, of a process that only helps another one which has the results.
        """


class Descent(Training):
    """A network whose loss the engine lowers by an optimizer.

    watched: when training looks for passages: a system whose observables cost as much as a step of training looks at
    snapshots only.
    """

    engines = {"train": "saddlescope.dynamics.train"}
    watched: ClassVar[Literal["every step", "snapshots"]] = "every step"

    @abstractmethod
    def loss(self, weights: Any, frame: Any, batch: Any = None, key: Any = None) -> Any:
        """Of the network with these weights; batch None: the whole problem. `key` drives dropout."""

    def stable_rate(self, frame: Any) -> float | None:
        """The learning rate above which full-batch GD overshoots from the start on; None where nothing is known."""
        return None

    def random_weights(self, seed: int) -> Any:
        """Weights of order one, far from any special point, at which conformance checks identities."""
        point, rng = self.system.start(seed).point, np.random.default_rng((seed, 7))
        return type(point)(*(rng.normal(size=np.shape(leaf)) for leaf in point))

    def symmetries(self, seed: int) -> Sequence[Symmetry]:
        """Maps of the weights that leave the network's function, and so the loss, as it is."""
        return ()


class ExactDescent(Descent):
    """A `Descent` whose steps of plain gradient descent on the whole problem are made in the reduced state.

    Adds `descend`.
    """

    @abstractmethod
    def descend(self, state: Any, frame: Any, learning_rate: Any) -> Any:
        """The exact image, under the flow's `reduce`, of one step of gradient descent on the whole problem."""


class HasSamples(ABC):
    """Of a `Descent` that can be trained on mini-batches. Adds `samples`."""

    @abstractmethod
    def samples(self, frame: Any) -> Any:
        """The training set as a named tuple of arrays with the sample axis first."""


class HasFreshData(ABC):
    """Of a `Descent` that can be trained online, every batch new. Adds `draw`."""

    @abstractmethod
    def draw(self, frame: Any, key: Any, size: int) -> Any:
        """A fresh batch."""


class Symmetry(NamedTuple):
    """A map of the weights that leaves the loss as it is. name: in words.  apply: weights -> weights."""

    name: str
    apply: Callable[[Any], Any]


# ---- flow ------------------------------------------------------------------------------------------------


class Flow(Part):
    """The gradient flow of the exactly reduced state.

    arrays: what `velocity`, and the system's `view` and `measure`, are written for. "any": operators and methods that
    NumPy and jax share, so that SciPy's solvers and predictions can call them without jax; "batched": the same, and
    points may have a leading batch axis, as in `jacobian` and `conserved`; "jax": jax arrays alone.
    log_time: None, or the scale T of a flow that is integrated in log(1 + time/T).
    """

    engines = {"flow": "saddlescope.dynamics.flow", "flow_together": "saddlescope.dynamics.ensemble"}
    arrays: ClassVar[Literal["any", "batched", "jax"]] = "any"
    log_time: ClassVar[float | None] = None

    @property
    def code(self) -> Hashable:
        """What velocity, view and measure depend on besides their arguments: equal ones share compiled code."""
        return self.system.identity

    def reduce(self, weights: Any, frame: Any) -> Any:
        """The exactly reduced state; need only hold along plain GD and the flow."""
        return weights

    @abstractmethod
    def velocity(self, state: Any, frame: Any) -> Any:
        """d state / d time of the gradient flow, in the system's clock."""

    def state_of(self, start: Start) -> Any:
        """The reduced state of a start."""
        return start.point if isinstance(start, ReducedStart) else self.reduce(start.point, start.frame)


class HasJacobian(ABC):
    """Of a `Flow` whose Jacobian is known: implicit solvers need not find it by differences. Adds `jacobian`."""

    @abstractmethod
    def jacobian(self, frame: Any) -> Callable[[Any], Any]:
        """state -> d velocity / d state, as a matrix over the ravelled state: a function for one integration.

        It may reuse what it computed before, since implicit solvers need no more; its first call must be exact.
        """


class HasProducts(ABC):
    """Of a `Flow` whose Jacobian J is symmetric, as where the state moves by a plain gradient.

    Large states are then flowed without a matrix.
    """

    @abstractmethod
    def linearize(self, state: Any, frame: Any) -> Callable[[Any], Any]:
        """x -> J x for states x, without forming J."""


def largest_entry(point: Any) -> Any:
    """In size, of a point or of many."""
    return max(abs(leaf).max() for leaf in point)


class HasInvariants(ABC):
    """Of a `Flow` that keeps some quantities; of a `Descent` where there is no flow. Adds `conserved`."""

    @abstractmethod
    def conserved(self, point: Any, frame: Any) -> Any:
        """Array of quantities that the flow keeps."""

    def largest_weight(self, point: Any, frame: Any) -> Any:
        """In size, of one point or of many: what drifts are measured against. Override it if the state is not made of
        weights."""
        return largest_entry(point)


# ---- theory ----------------------------------------------------------------------------------------------


class Theory(Part):
    """What is known of a run before it is made.

    columns: what tables show of a stage beside its label, time and loss: heading -> (system, stage) -> text.
    limit: the ladder along which predictions become exact; None where none is known.
    """

    columns: ClassVar[Mapping[str, Callable[[Any, Stage], str]]] = {}
    limit: Limit | None = None

    @abstractmethod
    def predict(self, start: Start) -> Prediction:
        """Stages, marks and plateaus of the run from here."""

    def describe(self, stage: Stage, before: Mapping[str, Any], after: Mapping[str, Any]) -> Stage:
        """A measured stage with what it taught, from the observables on the plateaus before and after it."""
        return stage

    def remark(self, prediction: Prediction, last: Mapping[str, Any]) -> str:
        """What a user should know of a finished run, from its last observables; "" for nothing."""
        return ""


class HasLandmarks(ABC):
    """Of a `Theory` that knows all but the times from the frame alone. Adds `landmarks`.

    With a batched flow, an ensemble then runs without a prediction for each seed.
    """

    @abstractmethod
    def landmarks(self, frame: Any) -> Prediction:
        """The part of a prediction that holds for every start: stages without times, marks, plateaus."""


class Limit(NamedTuple):
    """The ladder along which the prediction becomes exact: values of a field, from far to near.

    overrides: other fields to set on every rung.
    """

    field: str
    values: tuple[float, ...]
    overrides: Mapping[str, Any]
