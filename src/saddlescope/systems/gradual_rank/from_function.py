"""Anybody's smooth network h(x; u*v) as a system: trained, flowed and predicted like the paper's."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, ClassVar

import numpy as np

from saddlescope.core.errors import BadArgument, unknown
from saddlescope.core.extras import needed_by

from .data import Samples, Weights
from .spec import DiagonalSpec
from .system import Diagonal

MOST_PER_INPUT = 16
"""Largest number of coordinates, in units of an input's last axis, that is tried where none is given."""

ORDERS = ("value", "derivative of order 1", "derivative of order 2")

HALVINGS = 30
"""A jump of a derivative keeps its size while the interval that holds it shrinks by this many halves."""


class Own(Diagonal):
    """A network of the user's; made by `from_function`."""

    summary = "a network of your own, h(x; u*v)"
    spec_type = DiagonalSpec
    presets = {"tiny": {}, "quick": {}, "paper": {}}
    h: ClassVar[Callable[..., Any]]
    error: ClassVar[Callable[..., Any]]
    arrays_: ClassVar[Samples]
    found_size: ClassVar[int]
    given_start: ClassVar[Weights | None]

    @property
    def size(self) -> int:
        return self.found_size

    @property
    def problem_key(self) -> Hashable:
        return type(self), self.spec.problem  # the class holds the data

    @property
    def objective(self) -> Any:
        from .network import Objective

        kind = type(self)
        return Objective(kind.h, kind.error, self.spec.penalty)

    def arrays_of_problem(self) -> tuple[Samples, tuple[Any, ...]]:
        return self.arrays_, ()

    def unit_weights(self, seed: int) -> Weights:
        return self.given_start or super().unit_weights(seed)


@needed_by("from_function")
def from_function(
    h: Callable[[Any, Any], Any],
    loss: str | Callable[[Any, Any], Any],
    data: tuple[Any, Any],
    *,
    name: str,
    version: str | None = None,
    size: int | None = None,
    start: tuple[Any, Any] | None = None,
    smooth: bool = True,
    **fields: Any,
) -> Diagonal:
    """The system whose network is h(x, p) with p = u*v, to be flowed, trained and predicted.

    h: (x, p) -> outputs, for a whole batch x (samples first), in jax.numpy; twice differentiable in p.
    loss: (y, f) -> the error of outputs f, per sample or entry, of which the mean is taken; or "squared", "log_cosh",
        "quartic", "logistic".
    data: (x, y).  name: of the system.  version: without it, nothing that is computed is kept on disk.
    size: number of coordinates of p; null: found by trying multiples of x's last axis.
    start: (u, v) at alpha = 1, for every seed; null: standard normal.
    smooth: False if h is known not to be smooth: the theorem does not cover it, and predictions may be wrong.
    fields: of the Spec, e.g. log10_alpha=-32, stages=4.
    """
    from .network import ERRORS

    inputs, targets = _checked_data(data)
    if isinstance(loss, str):
        if loss not in ERRORS:
            raise unknown("loss", loss, ERRORS)
        loss = ERRORS[loss]
    spec = DiagonalSpec().replace(**fields)
    coordinates = _found_size(h, inputs) if size is None else _checked_size(size)
    _check_output(h, loss, inputs, targets, coordinates)
    if smooth:
        _check_smooth(h, inputs, coordinates)
    given = None if start is None else _checked_start(start, coordinates)
    members = {
        "name": f"own/{name}" if version is None else f"own/{name}@{version}",
        "h": staticmethod(h),
        "error": staticmethod(loss),
        "arrays_": Samples(inputs, targets),
        "found_size": coordinates,
        "given_start": given,
        "kept": version is not None,
        "__module__": Own.__module__,
    }
    kind: type[Own] = type("OwnNetwork", (Own,), members)
    system = kind(spec)
    system.start(0)  # says at once what is wrong with it
    return system


def _checked_data(pair: Any) -> tuple[np.ndarray, np.ndarray]:
    try:
        inputs, targets = (np.asarray(part, float) for part in pair)
    except (TypeError, ValueError) as error:
        raise BadArgument(f"`data` must be two arrays of numbers, x and y: {error}") from None
    if inputs.ndim == 0 or targets.ndim == 0 or len(inputs) != len(targets) or not len(inputs):
        raise BadArgument(f"`data` must have one y for each x, got shapes {inputs.shape} and {targets.shape}")
    for word, part in (("x", inputs), ("y", targets)):
        bad = ~np.isfinite(part)
        if bad.any():
            where = tuple(int(i) for i in np.argwhere(bad)[0])
            raise BadArgument(f"`data` has {bad.sum()} entries of {word} that are not finite, the first at {where}")
    return inputs, targets


def _checked_size(size: Any) -> int:
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
        raise BadArgument(f"`size` must be a positive whole number, got {size!r}")
    return int(size)


def _found_size(h: Callable[..., Any], inputs: np.ndarray) -> int:
    import jax

    unit = inputs.shape[-1] if inputs.ndim > 1 else 1
    able = []
    for count in range(unit, (MOST_PER_INPUT + 1) * unit, unit):
        try:
            jax.eval_shape(h, inputs, np.zeros(count))
            able.append(count)
        except Exception:  # whatever a wrong shape makes of somebody's function
            continue
    if not able or able[-1] == MOST_PER_INPUT * unit:
        tried = f"h accepts none of {unit}, {2 * unit}, ... {MOST_PER_INPUT * unit}" if not able else "h accepts any"
        raise BadArgument(f"`size` must be given, the number of coordinates of p: {tried}")
    return able[-1]


def _check_output(h, loss, inputs: np.ndarray, targets: np.ndarray, size: int) -> None:
    import jax.numpy as jnp

    point = np.random.default_rng(0).normal(size=size)
    for words, p in (("p = 0", np.zeros(size)), ("a random p", point)):
        try:
            output = h(jnp.asarray(inputs), jnp.asarray(p))
            errors = jnp.asarray(loss(jnp.asarray(targets), output))
        except Exception as error:
            raise BadArgument(f"h or loss fails at {words} with {size} coordinates: {error}") from error
        if not bool(jnp.isfinite(errors).all()):
            raise BadArgument(f"the loss is not finite at {words}: check h, loss and data")


def _check_smooth(h, inputs: np.ndarray, size: int) -> None:
    found = find_kink(h, inputs, size)
    if found is not None:
        order, point = found
        raise BadArgument(
            f"h is not smooth (Definition 3.1 wants two continuous derivatives in p): its {ORDERS[order]} "
            f"jumps near p = {np.array2string(point, precision=3, threshold=6)}. Use a smooth activation (GeLU for "
            "ReLU), or say smooth=False if you know this"
        )


def find_kink(h, inputs: np.ndarray, size: int, lines: int = 3) -> tuple[int, np.ndarray] | None:
    """Where h or one of its first two derivatives along a random line jumps: (order, p), or None.

    The interval in which a derivative changes most is halved again and again: a smooth one's change goes to zero.
    """
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(0)
    few = jnp.asarray(inputs[:64])

    def derivatives(at, along, t):
        def value(s):
            return jnp.ravel(h(few, at + s * along))

        def slope(s):
            return jax.jvp(value, (s,), (1.0,))[1]

        return jnp.stack([value(t), slope(t), jax.jvp(slope, (t,), (1.0,))[1]])

    fast = jax.jit(derivatives)
    for _ in range(lines):
        at, along = rng.normal(size=size), rng.normal(size=size)
        grid = np.linspace(-1.5, 1.5, 61)
        values = np.array([fast(at, along, t) for t in grid])  # (grid, 3, outputs)
        jumps = np.abs(np.diff(values, axis=0))
        # Against the largest of all orders: a derivative that is zero jumps by rounding alone.
        size_of = np.abs(values).max() + np.finfo(float).tiny
        for order in range(3):
            steepest = np.argsort(jumps[:, order].max(axis=1))[::-1][:6]
            for place in steepest:
                entry = order, int(np.argmax(jumps[place, order]))
                where, jump = _steepest(partial(fast, at, along), entry, float(grid[place]), float(grid[place + 1]))
                if jump > 1e-6 * size_of:
                    return order, at + where * along
    return None


def _steepest(line: Callable[[float], Any], entry: tuple[int, int], low: float, high: float) -> tuple[float, float]:
    """Where an entry of a function changes most in an interval, by halving it, and how much it still changes there."""
    below, above = (float(line(end)[entry]) for end in (low, high))
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        between = float(line(middle)[entry])
        if abs(between - below) > abs(above - between):
            high, above = middle, between
        else:
            low, below = middle, between
    return low, abs(above - below)


def _checked_start(start: tuple[Any, Any], size: int) -> Weights:
    try:
        u, v = (np.asarray(part, float) for part in start)
    except (TypeError, ValueError) as error:
        raise BadArgument(f"`start` must be two vectors of {size} numbers, u and v: {error}") from None
    if u.shape != (size,) or v.shape != (size,):
        raise BadArgument(f"`start` must be two vectors of {size} numbers, got shapes {u.shape} and {v.shape}")
    if not (np.isfinite(u).all() and np.isfinite(v).all()):
        raise BadArgument("`start` has entries that are not finite")
    return Weights(u, v)
