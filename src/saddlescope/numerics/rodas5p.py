"""The Rosenbrock method Rodas5P: coefficients, step control, and its interpolant.

G. Steinebach, Construction of Rosenbrock-Wanner method Rodas5P, BIT 63:27 (2023). Order 5, stiffly accurate,
one linear operator per step; here in its autonomous form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

GAMMA = 0.21193756319429014
STAGE = (
    (3.0,),
    (2.849394379747939, 0.45842242204463923),
    (-6.954028509809101, 2.489845061869568, -10.358996098473584),
    (2.8029986275628964, 0.5072464736228206, -0.3988312541770524, -0.04721187230404641),
    (-7.502846399306121, 2.561846144803919, -11.627539656261098, -0.18268767659942256, 0.030198172008377946),
)
COUPLING = (
    (-14.155112264123755,),
    (-17.97296035885952, -2.859693295451294),
    (147.12150275711716, -1.41221402718213, 71.68940251302358),
    (165.43517024871676, -0.4592823456491126, 42.90938336958603, -5.961986721573306),
    (24.854864614690072, -3.0009227002832186, 47.4931110020768, 5.5814197821558125, -0.6610691825249471),
    (
        30.91273214028599,
        -3.1208243349937974,
        77.79954646070892,
        34.28646028294783,
        -19.097331116725623,
        -28.087943162872662,
    ),
    (
        37.80277123390563,
        -3.2571969029072276,
        112.26918849496327,
        66.9347231244047,
        -40.06618937091002,
        -54.66780262877968,
        -9.48861652309627,
    ),
)


def stages(
    velocity: Callable[[np.ndarray], np.ndarray],
    solve: Callable[[np.ndarray], np.ndarray],
    state: np.ndarray,
    speed: np.ndarray,
    inverse_step: Any,
) -> tuple[np.ndarray, np.ndarray]:
    """One step of states (..., n): the state after it and its error.

    solve: x -> (1/(hγ) − J)⁻¹ x, by whatever means.  inverse_step: 1/h, a number or (..., 1).
    """
    increments = np.empty((8, *state.shape))
    at = state
    for stage in range(8):
        pull = speed
        if stage:
            done = increments[:stage].reshape(stage, -1)
            if stage <= len(STAGE):
                at = state + (np.array(STAGE[stage - 1]) @ done).reshape(state.shape)
            else:
                at = at + increments[stage - 1]
            pull = velocity(at) + (np.array(COUPLING[stage - 1]) @ done).reshape(state.shape) * inverse_step
        increments[stage] = solve(pull)
    return at + increments[7], increments[7]


def step_factor(error: Any, rejected: Any) -> Any:
    """Factor for the next step: between a fifth and six, no growth after a rejection. Arrays or numbers."""
    growth = 0.9 * np.maximum(error, 1e-10) ** -0.2
    return np.clip(growth, 0.2, np.where((error <= 1) & ~np.asarray(rejected), 6.0, 1.0))


def quintic(ends: np.ndarray, speed: np.ndarray, bend: np.ndarray, step: float) -> Callable[[np.ndarray], np.ndarray]:
    """The quintic through both ends (2, n) of a step with their first and second derivatives.

    Returns a function of shares of the step (m,) that gives states (m, n).
    """
    (y0, y1), (f0, f1), (g0, g1) = ends, speed * step, bend * step * step
    rise = y1 - y0
    terms = np.stack(
        [
            y0,
            f0,
            g0 / 2,
            10 * rise - 6 * f0 - 4 * f1 - 1.5 * g0 + 0.5 * g1,
            -15 * rise + 8 * f0 + 7 * f1 + 1.5 * g0 - g1,
            6 * rise - 3 * f0 - 3 * f1 - 0.5 * g0 + 0.5 * g1,
        ]
    )
    return lambda share: (share[:, None] ** np.arange(6)) @ terms


def first_change(signal: Callable[[np.ndarray], np.ndarray], start: float) -> float:
    """Share of a step at which a signal first leaves the sign that it has at the step's start."""
    sign = np.sign(start)
    low, high = 0.0, 1.0
    for _ in range(3):
        # Each round looks at 65 points at once: three rounds narrow the step to 4e-6 of it, then a secant.
        points = np.linspace(low, high, 65)
        after = int(np.argmax(np.sign(signal(points)) != sign))
        low, high = points[max(after - 1, 0)], points[after] if after else high
    a, b = signal(np.array([low, high]))
    return float(low + (high - low) * (a / (a - b) if a != b else 0.5))
