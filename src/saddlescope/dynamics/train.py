"""Training by a real optimizer: compiled chunks of steps, snapshots, exact passages, resume, divergence as a result."""

from __future__ import annotations

import time as wall
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cache, partial
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from saddlescope.core.errors import BadArgument
from saddlescope.core.files import owned
from saddlescope.core.parts import ExactDescent, HasFreshData, HasJacobian, HasSamples
from saddlescope.core.precision import on_device
from saddlescope.core.progress import Tick, silent
from saddlescope.core.spec import LARGEST_INT
from saddlescope.core.stage import Prediction
from saddlescope.core.start import ReducedStart, Start
from saddlescope.core.system import System
from saddlescope.core.threads import one_thread
from saddlescope.core.trajectory import build_trajectory

from . import checkpoint, optimizers
from .compiled import Signal, read_signals, split_signals
from .flow import arrived, horizon_result, level_marks, relative_drift

if TYPE_CHECKING:
    import xarray

CHUNK = 4096
"""Most steps in one compiled call: the bar moves, Ctrl-C answers, passages are looked for after each."""

SAVE_EVERY = 10.0
"""Seconds between two writings of the file that a stopped training goes on from."""

SNAPSHOTS = 400

AROUND = 2 ** np.arange(9)
"""Distances from a passage, in steps, at which snapshots are added."""

PROLONGATIONS = 3
"""Each doubles the steps: a flow may try for longer, since its cost hardly grows."""


class Carry(NamedTuple):
    """Everything that the next step needs; nothing else, so that saving it is a complete checkpoint."""

    point: Any
    optimizer: Any
    plateau: Any
    order: Any  # permutation of the training set in this epoch; () without mini-batches
    key: Any
    step: Any
    elapsed: Any  # sum of rate factors: steps, where the rate is constant


@one_thread()
def train(
    system: System,
    seed: int = 0,
    *,
    start: Start | None = None,
    prediction: Prediction | None = None,
    snapshots: Sequence[int] | str = "log",
    save: FilePath | None = None,
    tick: Tick = silent,
) -> xarray.Dataset:
    """Train from the start of `seed` for the Spec's steps, or for as many as its horizon needs.

    snapshots: "log" or "linear" spacing, or the steps themselves.  prediction: the two steps around each of its
    passages are added, and the result says whether all its stages were seen; it is made here where neither steps nor a
    horizon is set.
    save: a file that is written as training goes on and that a later call with the same arguments goes on from.
    A learning rate that diverges ends the run, with attrs["result"] saying so.
    """
    system.needs_face("train")
    began = wall.perf_counter()
    start = system.start(seed) if start is None else start
    unknown_end = system.spec.steps is None and system.spec.horizon is None
    if prediction is None and unknown_end and system.theory is not None:
        prediction = system.theory.predict(start)
    _check_batches(system)
    steps, prolong = _steps(system, prediction, start.frame)
    at_once = prolong and prediction is not None and prediction.ending.at_once
    with nullcontext() if save is None else owned(save):
        run = _Run(system, seed, start, prediction, save)
        first, left = 0, PROLONGATIONS if prolong and not at_once else 0
        while left and int(run.carry.step) > steps:  # it had been prolonged when it was stopped
            first, steps, left = steps, 2 * steps, left - 1
        run.advance(_snapshot_steps(snapshots, first, steps), steps, tick, at_once)
        for _ in range(left):
            if run.diverged is not None or arrived(run.last, prediction):
                break
            steps *= 2
            run.advance(_snapshot_steps(snapshots, steps // 2, steps), steps, tick)
    return run.trajectory(prolong, wall.perf_counter() - began)


def _steps(system: System, prediction: Prediction | None, frame: Any) -> tuple[int, bool]:
    """How many steps, and whether they may be prolonged."""
    spec = system.spec
    if spec.steps is not None:
        return spec.steps, False
    horizon = spec.horizon or (prediction.horizon if prediction else None)
    if horizon is None:
        raise BadArgument(f"`steps` must be set: no theory says how long {system.name} trains with these parameters")
    steps = horizon / (system.clock(frame) * spec.learning_rate)
    if steps > LARGEST_INT:
        raise BadArgument(
            f"a horizon of {horizon:.3g} at learning_rate {spec.learning_rate:.3g} takes {steps:.1e} steps: too many"
        )
    if spec.schedule == "cosine" and spec.horizon is None:
        raise BadArgument(
            "`steps` (or `horizon`) must be set with schedule=cosine: the rate falls to zero at the last step"
        )
    return max(1, int(np.ceil(steps))), spec.horizon is None


def _check_batches(system: System) -> None:
    spec, training = system.spec, system.training
    ability = HasFreshData if spec.fresh_data else HasSamples
    if spec.batch_size is not None and not isinstance(training, ability):
        field = "fresh_data" if spec.fresh_data else "batch_size"
        raise BadArgument(f"`{field}` means nothing here: {system.name} has no samples to draw from; leave it out")


def _snapshot_steps(snapshots: Sequence[int] | str, first: int, last: int) -> np.ndarray:
    if isinstance(snapshots, str):
        if snapshots not in ("log", "linear"):
            raise BadArgument(f"`snapshots` must be 'log', 'linear' or a list of steps, got {snapshots!r}")
        spread = np.geomspace if snapshots == "log" else np.linspace
        return np.unique(np.r_[0, np.round(spread(first + 1, last, SNAPSHOTS)).astype(int), last])
    return np.unique(np.clip(np.r_[0, np.asarray(snapshots, int), last], 0, last))


class _Run:
    """One training run: the carry, what was recorded, and how it stands."""

    def __init__(self, system: System, seed: int, start: Start, prediction: Prediction | None, save: FilePath | None):
        spec = system.spec
        self.system, self.seed, self.frame, self.prediction, self.save = (
            system,
            seed,
            start.frame,
            prediction,
            save,
        )
        # The same problem with rate and length left open: code that is compiled for it serves them all.
        self.any_rate = type(system)(spec.replace(learning_rate=1.0, steps=None, horizon=None))
        self.marks = level_marks(prediction) if system.training.watched == "every step" else ()
        self.signals: tuple[Signal, ...] = tuple(dict.fromkeys((mark.observable, mark.index) for mark in self.marks))
        plain = spec.optimizer == "gd" and spec.batch_size is None and spec.clip_norm is None
        self.plain, self.exact = plain, plain and isinstance(system.training, ExactDescent)
        if isinstance(start, ReducedStart) and not self.exact:
            raise BadArgument(
                f"{system.name} cannot form its weights here: only optimizer=gd on the whole problem is possible"
            )
        self.carry = _initial_carry(system, start, self.exact)
        self.rows: dict[int, tuple[float, dict[str, np.ndarray]]] = {}
        self.diverged: int | None = None
        self.crossed: set[int] = set()
        if save is not None and save.exists():
            self.carry, self.rows, self.crossed = checkpoint.load(save, self.identity, self.carry)
        if not self.rows:
            self._record(self.carry)

    @property
    def identity(self) -> str:
        spec = self.system.spec
        # A run may go on for longer than was first asked, unless its schedule ends at its last step.
        if spec.schedule != "cosine":
            spec = spec.replace(steps=None, horizon=None)
        return f"{self.system.name} {spec.digest} seed {self.seed}"

    @property
    def last(self) -> dict[str, np.ndarray]:
        return self.rows[max(self.rows)][1]

    def advance(self, snapshots: np.ndarray, steps: int, tick: Tick, at_once: bool = False) -> None:
        names, places = split_signals(self.signals)
        compiled = _advance(self.any_rate, names, self.exact, _schedule_steps(self.system, steps))
        step_fn = partial(compiled, places, self.system.spec.learning_rate)
        saved = wall.monotonic()
        stops = np.unique(np.r_[snapshots, np.arange(CHUNK, steps, CHUNK), steps])
        wanted = set(snapshots.tolist()) | {steps}
        here = int(self.carry.step)
        if here > steps:
            raise BadArgument(f"{self.save} is already at step {here}, beyond the {steps} asked for: name another file")
        for there in stops[stops > here].tolist():
            if at_once and arrived(self.last, self.prediction):
                break
            before = self.carry
            self.carry, signals, finite = step_fn(before, self.frame, there - here)
            finite = np.asarray(finite)[: there - here]
            if not finite.all():
                self.diverged = here + int(np.argmin(finite)) + 1
                return
            at, reached = before, here
            for near in self._passages(here, np.asarray(signals)[: there - here]):
                # The chunk is run again up to the passage: cheaper than keeping every step's observables.
                at, reached = step_fn(at, self.frame, near - reached)[0], near
                if near not in self.rows:
                    self._record(at)
            if there in wanted or at_once:
                self._record(self.carry)
            here = there
            tick(here / steps, f"step {here:,} of {steps:,}, loss {float(self.last['loss']):.4g}")
            if self.save is not None and wall.monotonic() - saved > SAVE_EVERY:
                self._save()
                saved = wall.monotonic()
        if self.save is not None:
            self._save()

    def _save(self) -> None:
        assert self.save is not None
        checkpoint.store(self.save, self.identity, self.carry, self.rows, self.crossed)

    def _passages(self, here: int, signals: np.ndarray) -> list[int]:
        """Steps on both sides of every passage among the steps after `here`, and a few around it to draw the drop by.

        A first passage counts once; a lasting rise is noted each time it begins, and forgotten when it ends.
        """
        near: set[int] = set()
        for number, mark in enumerate(self.marks):
            lasting = not mark.once
            if number in self.crossed and not lasting:
                continue
            series = signals[:, self.signals.index((mark.observable, mark.index))]
            passed = mark.beyond(series)
            begins = np.flatnonzero(passed & ~np.r_[number in self.crossed, passed[:-1]])
            for begin in begins if lasting else begins[:1]:
                before = here + int(begin)
                near |= {before, before + 1, *(before - AROUND).tolist(), *(before + 1 + AROUND).tolist()}
            if passed[-1] if lasting else passed.any():
                self.crossed.add(number)
            else:
                self.crossed.discard(number)
        return sorted(step for step in near if here <= step <= here + len(signals))

    def _record(self, carry: Carry) -> None:
        observables, kept = _measure(self.any_rate)(carry.point, self.frame)
        row = {name: np.asarray(value) for name, value in observables.items()}
        if kept is not None and self.system.invariants is not None:
            row["_conserved"] = np.asarray(kept)
            row["_largest"] = np.asarray(self.system.invariants.largest_weight(carry.point, self.frame))
        self.rows[int(carry.step)] = (float(carry.elapsed), row)

    def _drift(self) -> float | None:
        """Largest change of a conserved quantity over all rows, relative to the largest squared weight."""
        rows = [self.rows[step][1] for step in sorted(self.rows)]
        if "_conserved" not in rows[0]:
            return None
        kept, largest = (np.stack([row[name] for row in rows]) for name in ("_conserved", "_largest"))
        return relative_drift(kept, float(largest.max()))

    def trajectory(self, prolonged: bool, seconds: float) -> xarray.Dataset:
        spec, system = self.system.spec, self.system
        order = sorted(self.rows)
        pace = system.clock(self.frame) * spec.learning_rate
        elapsed = np.array([self.rows[step][0] for step in order])
        rows = [self.rows[step][1] for step in order]
        # A schedule that has fallen to zero stops the clock: steps that do not move are left out, and so are those to
        # which an absurd learning rate gives no number.
        with np.errstate(over="ignore", invalid="ignore"):
            time = np.where(elapsed > 0, elapsed * pace, 0.0)
            moving = np.r_[True, (np.diff(time) > 0) & np.isfinite(time[1:])]
        time = time[moving]
        observables = {
            name: np.stack([row[name] for row, keep in zip(rows, moving, strict=True) if keep])
            for name in system.measured()
        }
        return build_trajectory(
            system,
            "train",
            self.seed,
            time,
            observables,
            solver=self._how(),
            result=self._result(prolonged, time, observables),
            seconds=seconds,
            conserved_drift=self._drift(),
            extra={
                "steps": int(self.carry.step),
                "horizon": float(time[-1]),
                "device": jax.devices()[0].device_kind,
                "dtype": "float64",
            },
            step=np.array(order)[moving],
        )

    def _how(self) -> str:
        spec = self.system.spec
        data = "whole problem" if spec.batch_size is None else f"batches of {spec.batch_size}"
        means = "exact reduced step" if self.exact else "network gradient"
        return f"{spec.optimizer} learning_rate={spec.learning_rate:g} on the {data} ({means})"

    def _result(self, prolonged: bool, time: np.ndarray, observables: dict[str, np.ndarray]) -> str:
        if self.diverged is not None:
            return f"diverged: weights overflowed at step {self.diverged}; {self._advice()}"
        first, last = observables["loss"][0], observables["loss"][-1]
        if not last <= 1e6 * abs(first):
            return f"diverged: the loss grew from {first:.3g} to {last:.3g}; {self._advice()}"
        rate, bound = self.system.spec.learning_rate, self._stable_rate()
        found = horizon_result(self.system, time, observables, self.prediction, float(time[-1]), prolonged)
        if bound is not None and rate > bound:
            return f"{found}: learning_rate {rate:.3g} overshoots; {self._advice()}"
        return found

    def _stable_rate(self) -> float | None:
        return self.system.training.stable_rate(self.frame) if self.plain else None

    def _advice(self) -> str:
        """What a run that diverged or overshot should try: GD is stable where the curvature is below 2 / rate."""
        system, known, rate = self.system, self.prediction, self.system.spec.learning_rate
        bound = self._stable_rate()
        if bound is not None and rate > bound:
            return f"at the start GD is stable below learning_rate {bound:.3g}"
        if self.plain and known is not None and known.plateaus and isinstance(system.flow, HasJacobian):
            slopes = np.linalg.eigvals(system.flow.jacobian(self.frame)(known.plateaus[-1])).real
            steepest = -slopes.min() * system.clock(self.frame)
            bound = 2 / steepest if steepest > 0 else np.inf
            if rate > bound:
                return f"at the last plateau GD is stable below learning_rate {bound:.3g}"
        return f"try a smaller learning_rate, say {rate / 4:.3g}"


def _schedule_steps(system: System, steps: int) -> int | None:
    """Only a schedule that ends somewhere compiles anew for another number of steps."""
    return steps if system.spec.schedule == "cosine" else None


def _initial_carry(system: System, start: Start, exact: bool) -> Carry:
    spec = system.spec
    point = system.flow.state_of(start) if exact else start.point
    point = on_device(point)
    order: Any = ()
    if spec.batch_size is not None and not spec.fresh_data:
        count = len(jax.tree.leaves(system.training.samples(start.frame))[0])
        if spec.batch_size > count:
            raise BadArgument(f"`batch_size` must be at most the number of samples, {count}, got {spec.batch_size}")
        order = jnp.arange(count)
    return Carry(
        point=point,
        optimizer=() if exact else optimizers.direction(spec).init(point),
        plateau=optimizers.plateau(spec).init(point) if spec.schedule == "plateau" else (),
        order=order,
        key=jax.random.PRNGKey(spec.data_seed),  # batches and masks are data: the seed moves the initial weights only
        step=jnp.zeros((), jnp.int64),
        elapsed=jnp.zeros(()),
    )


@cache
def _measure(system: System):
    def measured(point, frame):
        kept = None if system.invariants is None else system.invariants.conserved(point, frame)
        return system.measure(system.view(point, frame), frame), kept

    return jax.jit(measured)


@cache
def _advance(system: System, signals: tuple[str, ...], exact: bool, schedule_steps: int | None):
    """(places of the signals, learning rate, carry, frame, count) -> carry after `count` steps, signals, finiteness.

    The latter two are those of each step, (CHUNK, ...).
    """
    spec = system.spec
    factor = optimizers.rate_factor(spec, schedule_steps)
    toward = optimizers.direction(spec)

    def batch_of(carry: Carry, frame, key):
        if spec.batch_size is None:
            return None, carry.order
        if spec.fresh_data:
            return system.training.draw(frame, key, spec.batch_size), carry.order
        samples = system.training.samples(frame)
        size = len(carry.order)
        position = carry.step % max(1, size // spec.batch_size)
        order = jax.lax.cond(position == 0, lambda: jax.random.permutation(key, size), lambda: carry.order)
        chosen = jax.lax.dynamic_slice_in_dim(order, position * spec.batch_size, spec.batch_size)
        return jax.tree.map(lambda array: array[chosen], samples), order

    def evaluated(carry: Carry, frame):
        """ReduceLROnPlateau listens to the observed loss every `plateau_every` steps."""
        listen = optimizers.plateau(spec)
        value = system.measure(system.view(carry.point, frame), frame)["loss"]
        return listen.update(carry.point, carry.plateau, value=value)[1]

    def step(carry: Carry, frame, learning_rate) -> Carry:
        key, for_batch, for_loss = jax.random.split(carry.key, 3)
        plateau, scale = carry.plateau, factor(carry.step)
        if spec.schedule == "plateau":
            plateau = jax.lax.cond(
                carry.step % spec.plateau_every == 0, lambda: evaluated(carry, frame), lambda: carry.plateau
            )
            scale = scale * plateau.scale
        rate = learning_rate * scale
        if exact:
            point, optimizer, order = system.training.descend(carry.point, frame, rate), (), carry.order
        else:
            batch, order = batch_of(carry, frame, for_batch)
            slope = jax.grad(system.training.loss)(carry.point, frame, batch, for_loss)
            move, optimizer = toward.update(slope, carry.optimizer, carry.point)
            point = optax.apply_updates(carry.point, jax.tree.map(lambda m: -rate * m, move))
        return Carry(point, optimizer, plateau, order, key, carry.step + 1, carry.elapsed + scale)

    @jax.jit
    def run(places, learning_rate, carry: Carry, frame, count):
        def body(index, state):
            carry, seen, finite = state
            carry = step(carry, frame, learning_rate)
            if signals:
                observed = system.measure(system.view(carry.point, frame), frame)
                seen = seen.at[index].set(read_signals(observed, signals, places))
            good = jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(carry.point)]).all()
            return carry, seen, finite.at[index].set(good)

        seen, finite = jnp.zeros((CHUNK, len(signals))), jnp.ones(CHUNK, bool)
        return jax.lax.fori_loop(0, count, body, (carry, seen, finite))

    return run
