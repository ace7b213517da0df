"""The rules that tie the faces of one system together. Each tolerance carries its reason."""

from __future__ import annotations

import dataclasses
import itertools
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from saddlescope.core.claim import judge
from saddlescope.core.errors import told_with_place
from saddlescope.core.parts import (
    Descent,
    ExactDescent,
    Flow,
    HasInvariants,
    HasJacobian,
    HasProducts,
    Theory,
    largest_entry,
)
from saddlescope.core.precision import on_device
from saddlescope.core.room import room_of
from saddlescope.core.spec import Spec
from saddlescope.core.start import fields_of_the_start
from saddlescope.core.system import System
from saddlescope.core.trajectory import check_schema
from saddlescope.core.tree import layout_of, ravel
from saddlescope.dynamics.field import Field
from saddlescope.dynamics.flow import flow
from saddlescope.dynamics.solvers import solver
from saddlescope.dynamics.train import train
from saddlescope.lab.judge import claims_of_one_run
from saddlescope.lab.run import run
from saddlescope.lab.stages import measured_stages
from saddlescope.numerics.integrate import STOPPED, integrate

from .conformance import NotApplicable, check
from .sabotage import survivors

IDENTITY = 1e-9
"""For algebraic identities at weights of order one: rounding is 1e-16, sums have up to some thousand terms."""

FROM_START = (Descent, Flow, Theory)
"""Parts whose runs begin at what `start` gives."""

compilations = 0


def _count_compilation(event: str, *_: Any, **__: Any) -> None:
    global compilations
    compilations += event == "/jax/core/compile/backend_compile_duration"


jax.monitoring.register_event_duration_secs_listener(_count_compilation)


def deviation(found: Any, expected: Any) -> float:
    """Largest difference over all leaves, relative to the largest entry of what is expected."""
    pairs = list(zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True))
    size = max(float(np.abs(e).max(initial=0.0)) for _, e in map(_arrays, pairs))
    worst = max(float(np.abs(f - e).max(initial=0.0)) for f, e in map(_arrays, pairs))
    return worst / size if size else worst


def _arrays(pair: tuple[Any, Any]) -> tuple[np.ndarray, np.ndarray]:
    found, expected = np.asarray(pair[0]), np.asarray(pair[1])
    assert found.shape == expected.shape, f"shapes differ: {found.shape} and {expected.shape}"
    return found, expected


def _fields(frame: Any) -> list[tuple[str, Any]]:
    return list(zip(frame._fields, frame, strict=True))


def _frame(system: System) -> Any:
    return system.start(0).frame


def _loss_of_state(system: System, frame: Any):
    return lambda state: system.measure(system.view(state, frame), frame)["loss"]


@lru_cache(maxsize=4)
def _flowed(system: System) -> Any:
    """The flow from seed 0, which several checks look at."""
    return flow(system)


@lru_cache(maxsize=4)
def _trained(system: System) -> Any:
    """Two steps of training from seed 0."""
    return train(system.changed(steps=2, horizon=None))


# ---- parameters and starts -------------------------------------------------------------------------------


@check(FROM_START)
def spec_survives_json(system: System) -> None:
    kind: type[Spec] = type(system.spec)
    again = kind.from_json(system.spec.to_json())
    assert again == system.spec, f"{again} is not {system.spec}"
    assert again.digest == system.spec.digest
    assert system.changed(data_seed=system.spec.data_seed + 1).spec.digest != again.digest, "the digest ignores a field"


@check(FROM_START)
def same_seed_same_arrays(system: System) -> None:
    first, second, other = system.start(3), system.start(3), system.start(4)
    assert deviation(first, second) == 0.0, "two starts from one seed differ"
    assert deviation(first.point, other.point) > 0.0, "the seed moves nothing"
    moves = fields_of_the_start(first.frame)
    frames = [[part for name, part in _fields(start.frame) if name not in moves] for start in (first, other)]
    assert deviation(*frames) == 0.0, "the seed moves the frame: only initial weights may depend on it"


@check(FROM_START)
def observables_are_what_measure_returns(system: System) -> None:
    start = system.start(0)
    found, declared = system.measure(system.view(start.point, start.frame), start.frame), system.measured()
    for name in declared.keys() - found.keys():
        raise AssertionError(f"`observables` declares {name!r}, but `measure` does not return it")
    for name in found.keys() - declared.keys():
        raise AssertionError(f"`measure` returns {name!r}, which `observables` does not declare")
    for name, dims in declared.items():
        shape = np.shape(found[name])
        assert len(shape) == len(dims), f"{name!r} has the dimensions {dims}, but `measure` returns the shape {shape}"


@check()
def everything_measured_is_described(system: System) -> None:
    """In words, which label every picture of it."""
    dims = {dim for one in system.observables.values() for dim in one.dims}
    for name, one in {**system.observables, **system.coordinates(), "time": system.time}.items():
        assert one.says.strip(), f"{name!r} has no description: say in a few words what it is"
    for name, one in system.coordinates().items():
        (dim,) = one.dims
        assert dim in dims, f"coordinate {name!r} is along {dim!r}, which no observable has, but {sorted(dims)}"


@check(Flow, Descent, long=True)
def faces_share_the_start(system: System) -> None:
    start = system.start(0)
    expected = system.measure(system.view(start.point, start.frame), start.frame)
    for trajectory in (_flowed(system), _trained(system)):
        for name in system.measured():
            found = trajectory[name].values[0]
            assert deviation(found, expected[name]) < IDENTITY, f"{trajectory.attrs['face']} starts with another {name}"


@check((Descent, Flow), long=True)
def trajectories_keep_the_schema(system: System) -> None:
    for part, made in ((system.flow, _flowed), (system.training, _trained)):
        if part is not None:
            check_schema(made(system))


@check(Descent)
def second_call_compiles_nothing(system: System) -> None:
    short = system.changed(steps=7, horizon=None)
    train(short, 0)
    before = compilations
    train(system.changed(steps=7, horizon=None), 1)
    assert compilations == before, f"the second call compiled {compilations - before} functions"


# ---- identities between network and state ----------------------------------------------------------------


@check(Flow, Descent)
def reduction_commutes(system: System) -> None:
    """Pushing −grad loss through `reduce` gives `velocity`, in the system's clock."""
    weights, frame = system.training.random_weights(0), _frame(system)

    @jax.jit
    def both(weights):
        slope = jax.grad(system.training.loss)(weights, frame)
        down = jax.tree.map(lambda leaf: -leaf / system.clock(frame), slope)
        state, pushed = jax.jvp(lambda w: system.flow.reduce(w, frame), (weights,), (down,))
        return system.flow.velocity(state, frame), pushed

    gap = deviation(*both(on_device(weights)))
    assert gap < IDENTITY, f"velocity differs from the reduced gradient by {gap:.1e}, relatively"


@check(Flow, Descent)
def view_is_kept_by_reduce(system: System) -> None:
    weights, frame = system.training.random_weights(1), _frame(system)
    both = jax.jit(lambda w: (system.view(system.flow.reduce(w, frame), frame), system.view(w, frame)))
    gap = deviation(*both(on_device(weights)))
    assert gap < IDENTITY, f"view(reduce(w)) differs from view(w) by {gap:.1e}"


@check(Flow, Descent)
def loss_agrees_between_network_and_state(system: System) -> None:
    weights, frame = system.training.random_weights(2), _frame(system)
    both = jax.jit(
        lambda w: (_loss_of_state(system, frame)(system.flow.reduce(w, frame)), system.training.loss(w, frame))
    )
    gap = deviation(*both(on_device(weights)))
    assert gap < IDENTITY, f"the state's loss differs from the network's by {gap:.1e}"


@check(ExactDescent)
def descend_is_a_step_of_gradient_descent(system: System) -> None:
    weights, frame, rate = system.training.random_weights(3), _frame(system), 0.03
    descend, reduce = system.training.descend, system.flow.reduce

    @jax.jit
    def both(weights):
        slope = jax.grad(system.training.loss)(weights, frame)
        stepped = jax.tree.map(lambda w, g: w - rate * g, weights, slope)
        return descend(reduce(weights, frame), frame, rate), reduce(stepped, frame)

    gap = deviation(*both(on_device(weights)))
    assert gap < IDENTITY, f"descend differs from the image of a GD step by {gap:.1e}"


@check(Descent)
def symmetries_leave_the_loss(system: System) -> None:
    weights, frame = system.training.random_weights(4), _frame(system)
    loss_of = jax.jit(lambda w: system.training.loss(w, frame))
    loss = float(loss_of(on_device(weights)))
    symmetries = system.training.symmetries(5)
    if not symmetries:
        raise NotApplicable("states no symmetries")
    for symmetry in symmetries:
        moved = symmetry.apply(weights)
        assert deviation(moved, weights) > 0.0, f"{symmetry.name}: the map moves nothing"
        gap = abs(float(loss_of(on_device(moved))) / loss - 1)
        assert gap < IDENTITY, f"{symmetry.name}: the loss changes by {gap:.1e}"


# ---- the flow --------------------------------------------------------------------------------------------


@check(Descent, HasJacobian)
def jacobian_is_the_slope_of_velocity(system: System) -> None:
    frame = _frame(system)
    state = system.flow.reduce(system.training.random_weights(6), frame)
    layout = layout_of(state)

    def flat_velocity(flat):
        return jnp.concatenate([jnp.ravel(leaf) for leaf in system.flow.velocity(layout.unravel(flat), frame)])

    gap = deviation(system.flow.jacobian(frame)(state), jax.jit(jax.jacfwd(flat_velocity))(jnp.asarray(ravel(state))))
    assert gap < IDENTITY, f"the Jacobian differs from the velocity's derivative by {gap:.1e}"


@check(Descent, HasProducts)
def linearize_is_the_symmetric_slope_of_velocity(system: System) -> None:
    frame = _frame(system)
    state, x, y = (system.flow.reduce(system.training.random_weights(seed), frame) for seed in (6, 7, 8))
    product = system.flow.linearize(state, frame)
    slope = jax.jit(lambda s, x: jax.jvp(lambda s: system.flow.velocity(s, frame), (s,), (x,))[1])
    gap = deviation(product(x), slope(on_device(state), on_device(x)))
    assert gap < IDENTITY, f"products with the Jacobian differ from the velocity's derivative by {gap:.1e}"
    one, other = ravel(product(x)) @ ravel(y), ravel(product(y)) @ ravel(x)
    assert abs(one - other) < IDENTITY * abs(one), f"the Jacobian is not symmetric: {one} and {other}"


@check(Flow, Descent)
def energy_falls_by_the_squared_gradient(system: System) -> None:
    """dL/dt = −|grad L|² / clock along the flow."""
    weights, frame = on_device(system.training.random_weights(7)), _frame(system)

    @jax.jit
    def both(weights):
        state = system.flow.reduce(weights, frame)
        _, rate = jax.jvp(_loss_of_state(system, frame), (state,), (system.flow.velocity(state, frame),))
        return rate, sum((leaf**2).sum() for leaf in jax.tree.leaves(jax.grad(system.training.loss)(weights, frame)))

    rate, squares = map(float, both(weights))
    gap = deviation(rate, -squares / system.clock(frame))
    assert gap < IDENTITY, f"dL/dt = {rate:.6g}, but −|grad L|²/clock = {-squares / system.clock(frame):.6g}"


@check(Flow, HasInvariants, long=True)
def conserved_quantities_are_kept(system: System) -> None:
    """To 1e-7 of the largest squared weight: the default solver's rtol is 1e-8 and errors add over the steps."""
    drift = _flowed(system).attrs["conserved_drift"]
    assert drift <= 1e-7, f"conserved quantities drift by {drift:.1e}"


@check(Theory, Flow, long=True)
def flow_is_converged(system: System) -> None:
    """Stage times agree to 1e-5 and the final loss to 1e-6 with a tighter tolerance and with another method.

    A local error of 1e-8 while a head is small shifts a drop by about that share of the plateau; 1e-5 leaves room
    for the hundreds of steps in between.
    """
    start = system.start(0)
    prediction = system.theory.predict(start)
    runs = {
        name: flow(system, start=start, prediction=prediction, solver=name) for name in ("default", "tight", "second")
    }
    expected = measured_stages(runs["tight"], prediction)
    assert len(expected) == len(prediction.stages), (
        f"the flow showed {len(expected)} of {len(prediction.stages)} stages"
    )
    for name in ("default", "second"):
        found = measured_stages(runs[name], prediction)
        for one, other in zip(found, expected, strict=True):
            assert one.time is not None and other.time is not None
            gap = abs(one.time / other.time - 1)
            assert gap < 1e-5, f"{name}: stage {one.index} comes at {one.time}, tight says {other.time} ({gap:.1e})"
        gap = abs(float(runs[name]["loss"][-1] - runs["tight"]["loss"][-1])) / float(runs["tight"]["loss"][0])
        assert gap < 1e-6, f"{name}: final loss differs from tight by {gap:.1e} of the initial loss"


@check(Theory, Flow, Descent, long=True)
def train_tends_to_flow(system: System) -> None:
    """At first order in the learning rate: at the first predicted drop the error's slope is within 0.8-1.2."""
    start = system.start(0)
    prediction = system.theory.predict(start)
    moment = prediction.stages[0].time
    if moment is None:
        raise NotApplicable("no theory gives the first stage a time")
    end = {
        "horizon": moment,
        "schedule": "constant",
        "optimizer": "gd",
        "batch_size": None,
        "fresh_data": False,
    }
    exact = flow(system.changed(**end), start=start, prediction=prediction, solver="tight")
    names = system.measured().keys() - _rounding_errors(system, start, moment)
    counts = np.array([1600, 3200, 6400])
    errors = []
    for count in counts:
        rate = moment / (count * system.clock(start.frame))
        trained = system.changed(**{**end, "horizon": None}, learning_rate=rate, steps=int(count))
        last = train(trained, start=start, prediction=prediction).isel(time=-1)
        assert abs(float(last["time"]) / moment - 1) < 1e-9, "steps x learning rate x clock is not the time"
        gaps = {name: deviation(last[name].values, exact[name].values[-1]) for name in names}
        worst = max(gaps, key=lambda name: gaps[name])
        errors.append(gaps[worst])
    slope = -np.polyfit(np.log(counts), np.log(errors), 1)[0]
    assert 0.8 <= slope <= 1.2, (
        f"errors {errors} at {counts} steps fall with the power {slope:.2f} of the rate; the largest is that of {worst}"
    )


def _rounding_errors(system: System, start: Any, moment: float) -> set[str]:
    """Observables that are, at this time, differences of equal numbers: no order can be seen in them.

    Moving each number of the state by 1e-12 of it moves them by a millionth or more.
    """
    field = Field.of(system, start)
    path = integrate(
        field.velocity,
        field.origin,
        0.0,
        float(field.inner(moment)),
        rtol=1e-8,
        atol=solver().atol_for(field.origin),
        jacobian=field.jacobian,
    )
    state, rng = path.state[-1], np.random.default_rng(12)
    found = [field.measure(state * (1 + 1e-12 * rng.standard_normal(state.shape))) for _ in range(8)]
    several = {name: np.stack([one[name] for one in found]) for name in system.measured()}
    return {
        name
        for name, values in several.items()
        if np.ptp(values, axis=0).max(initial=0.0) > 1e-6 * np.abs(values).max(initial=0.0)
    }


# ---- the prediction --------------------------------------------------------------------------------------


@check(Theory, Flow, long=True)
def plateaus_are_stationary_and_all_but_the_last_can_be_left(system: System) -> None:
    start = system.start(0)
    prediction = system.theory.predict(start)
    if not prediction.plateaus:
        raise NotApplicable("the prediction gives no points on its plateaus")
    frame, known = start.frame, system.invariants
    largest = largest_entry if known is None else lambda point: known.largest_weight(point, frame)
    losses = prediction.levels
    loss_of = _loss_of_state(system, frame)
    for number, (point, expected) in enumerate(zip(prediction.plateaus, losses, strict=True)):
        # By dL/dt = −|grad L|² / clock: logarithms of negligible weights may go on moving where nothing else does.
        _, rate = jax.jvp(loss_of, (on_device(point),), (system.flow.velocity(point, frame),))
        slope, size = np.sqrt(abs(float(rate)) * system.clock(frame)), float(largest(point))
        # 1e-10: closed forms reach rounding, plateaus found by minimisation the accuracy of a Newton step.
        assert slope < 1e-10 * max(size, 1.0), f"plateau {number} is not stationary: |grad L| = {slope:.1e}"
        gap = abs(float(loss_of(point)) - expected) / losses[0]
        assert gap < IDENTITY, f"plateau {number} has loss {float(loss_of(point))}, predicted {expected}"
    for number in range(len(losses) - 1):
        drop = losses[number] - losses[number + 1]
        assert _can_be_left(system, frame, prediction.plateaus[number], losses[number] - 0.01 * drop), (
            f"plateau {number} cannot be left: from 8 perturbations the loss never fell by a hundredth of the drop"
        )


def _can_be_left(system: System, frame: Any, point: Any, target: float) -> bool:
    """Whether the flow from a small random perturbation falls below `target`: a decrease of some order exists."""
    rng = np.random.default_rng(11)
    loss_of = _loss_of_state(system, frame)
    for _ in range(8):
        nudged = type(point)(*(leaf + 0.03 * rng.standard_normal(np.shape(leaf)) for leaf in point))
        field = dataclasses.replace(Field.of(system, system.start(0)), origin=ravel(nudged))
        path = integrate(
            field.velocity,
            field.origin,
            0.0,
            float(field.inner(1e6)),
            rtol=1e-6,
            atol=1e-9,
            jacobian=field.jacobian,
            stop=lambda _, flat, layout=field.layout: float(loss_of(layout.unravel(flat))) < target,
        )
        if path.outcome == STOPPED:
            return True
    return False


@check(Theory, Flow, long=True)
def prediction_error_falls_along_the_limit(system: System) -> None:
    """Median relative error of predicted times over three seeds, at each rung of the ladder.

    Below 1e-7 it is the flow's own: its default tolerance is 1e-8 per step.
    """
    ladder = system.theory.limit
    if ladder is None:
        raise NotApplicable("no limit is known in which predictions become exact")
    errors = []
    for value in ladder.values:
        rung = system.changed(**{**ladder.overrides, ladder.field: value})
        gaps = []
        for seed in range(3):
            found = run(rung, "flow", seed)
            assert found.prediction is not None
            expected = {stage.index: stage.time for stage in found.stages}
            for stage in found.prediction.stages:
                measured = expected.get(stage.index)
                if stage.time and measured:
                    gaps.append(abs(stage.time / measured - 1))
        assert gaps, f"no stage could be compared at {ladder.field}={value}"
        errors.append(float(np.median(gaps)))
    falling = all(later < earlier or later < 1e-7 for earlier, later in itertools.pairwise(errors))
    assert falling, f"errors {errors} do not fall along {ladder.field} = {ladder.values}"


# ---- claims and inventory --------------------------------------------------------------------------------


@check()
def claims_name_source_and_reason(system: System) -> None:
    claims = room_of(type(system)).claims
    if not claims:
        raise NotApplicable("its room makes no claims")
    names = [claim.name for claim in claims]
    assert len(set(names)) == len(names), f"two claims share a name: {names}"
    for claim in claims:
        assert claim.says and all(claim.source), f"claim {claim.name} lacks its statement or source"
        assert len(claim.relation.because) > 10, f"claim {claim.name} gives no reason for its tolerance"


@check(Flow, Theory, long=True)
def supported_claims_can_lose(system: System) -> None:
    claims = claims_of_one_run(system, "flow")
    if not claims:
        raise NotApplicable("makes no claims on a flow")
    found = run(system, "flow", 0)
    supported = []
    for claim in (claim.of_one_run() for claim in claims):
        try:
            supported += [claim] if judge(claim, [found]).verdict == "supported" else []
        except Exception as error:
            raise AssertionError(f"claim {claim.name}: {told_with_place(error)}") from error
    assert supported, "no claim is supported by the tiny run"
    for claim in survivors(supported, [found]):
        raise AssertionError(
            f"claim {claim.name} survives every sabotage of its run, so it cannot lose: tighten its bound, or measure "
            "what learning changes"
        )


@check()
def room_is_complete(system: System) -> None:
    """All files can be loaded, all names lead somewhere, and the inventory names every claim, figure and erratum."""
    room = room_of(type(system))
    wrong = room.broken or room.adrift() + room.astray() + (room.left_out() if room.inventory else [])
    assert not wrong, "; ".join(wrong)
    if not room.inventory:
        raise NotApplicable("its room declares no inventory.tsv")
