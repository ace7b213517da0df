"""Large stiff gradient flows without a matrix: Rodas5P whose linear systems are solved by conjugate gradients.

For a gradient flow the Jacobian J is symmetric, and I/(hγ) − J is positive definite as long as nothing grows by
more than a factor e^(1/γ) within a step, which accuracy forbids anyway. Only products J x are needed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .integrate import DIVERGED, FINISHED, HOPE, MAX_STEPS, STOPPED, Path, beyond_reach
from .rodas5p import GAMMA, first_change, quintic, stages, step_factor

Product = Callable[[np.ndarray], np.ndarray]

DENSE = 400
"""Numbers in a state above which products with the Jacobian are cheaper than the matrix."""

CG_TOLERANCE = 0.01
"""Error of each linear solve as a share of the error allowed to the step."""

CG_STEPS = 500


def integrate_free(
    velocity: Callable[[float, np.ndarray], np.ndarray],
    linearize: Callable[[np.ndarray], Product],
    state: np.ndarray,
    start: float,
    end: float,
    *,
    rtol: float,
    atol: float,
    watch: Callable[[np.ndarray], np.ndarray] | None = None,
    stop: Callable[[float, np.ndarray], bool] | None = None,
    max_steps: int = 1_000_000,
) -> Path:
    """As `integrate`, with `linearize(state)` giving x -> J x."""
    time, speed = start, velocity(start, state)
    size = max(float(np.linalg.norm(state)), atol)  # a flow may start at the origin
    step = 0.01 * size / max(float(np.linalg.norm(speed)), np.finfo(float).tiny)
    signals = watch(state) if watch else np.zeros(0)
    times, states, crossings = [time], [state.copy()], []
    outcome, products, rejected = FINISHED, 0, False
    steps, reached, hopeless = 0, start, False
    while time < end:
        step = min(step, end - time)
        product = linearize(state)
        scale = atol + rtol * np.abs(state)
        new, error, used = _step(velocity, product, state, speed, step, scale)
        products += used
        scale = atol + rtol * np.maximum(np.abs(state), np.abs(new))
        size = float(np.sqrt(np.mean((error / scale) ** 2)))
        if not np.isfinite(size):
            step, rejected = step / 4, True
            if step < 1e-14 * max(abs(time), 1.0):
                outcome = DIVERGED
                break
            continue
        factor = float(step_factor(size, rejected))
        rejected = size > 1
        if not rejected:
            new_speed = velocity(time + step, new)
            if watch:
                after = watch(new)
                for which in np.flatnonzero(np.sign(after) != np.sign(signals)):
                    bend = np.stack([product(speed), linearize(new)(new_speed)])
                    inside = quintic(np.stack([state, new]), np.stack([speed, new_speed]), bend, step)
                    share = first_change(
                        lambda x, w=which, at=inside: np.array([watch(y)[w] for y in at(x)]), signals[which]
                    )
                    crossings.append((time + share * step, int(which)))
                    times.append(time + share * step)
                    states.append(inside(np.array([share]))[0])
                signals = after
            time, state, speed = time + step, new, new_speed
            times.append(time)
            states.append(state.copy())
            if stop and stop(time, state):
                outcome = STOPPED
                break
            steps += 1
            if steps % HOPE == 0:
                hopeless = beyond_reach(reached, time, end, HOPE, max_steps - steps)
                reached = time
            if hopeless or len(times) > max_steps:
                outcome = MAX_STEPS
                break
        step *= factor
    order = np.argsort(times, kind="stable")
    return Path(np.array(times)[order], np.array(states)[order], outcome, tuple(sorted(crossings)), products)


def _step(
    velocity, product: Product, state: np.ndarray, speed: np.ndarray, step: float, scale: np.ndarray
) -> tuple[np.ndarray, np.ndarray, int]:
    """New state and error of one step, and the products it took; an error of NaN where the step is too long."""
    shift, products = 1 / (step * GAMMA), 0

    def solve(pull: np.ndarray) -> np.ndarray:
        nonlocal products
        solved, used = _conjugate_gradients(product, shift, pull, scale)
        products += used
        return solved

    new, error = stages(lambda at: velocity(0.0, at), solve, state, speed, 1 / step)
    return new, error, products


def _conjugate_gradients(product: Product, shift: float, pull: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, int]:
    """(shift − J)⁻¹ pull to CG_TOLERANCE of `scale`; NaN if the operator is not positive definite."""
    x, rest = np.zeros_like(pull), pull.copy()
    along, square = rest, float(rest @ rest)
    for count in range(1, CG_STEPS + 1):
        image = shift * along - product(along)
        bend = float(along @ image)
        if not bend > 0:
            return np.full_like(pull, np.nan), count
        x += (square / bend) * along
        rest = rest - (square / bend) * image
        if np.sqrt(np.mean((rest / (shift * scale)) ** 2)) < CG_TOLERANCE:
            return x, count
        previous, square = square, float(rest @ rest)
        along = rest + (square / previous) * along
    return np.full_like(pull, np.nan), CG_STEPS
