"""A point on every plateau: in closed form on the population, by minimisation on a sample."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from saddlescope.core.tree import layout_of, ravel

from . import prediction
from .data import Frame, PopulationMoments, SampleMoments, Weights
from .reduction import attention_map, loss_of_map, velocity


def plateau_weights(frame: Frame, stages: int, heads: int, rank: int) -> list[Weights]:
    """A point on every plateau 0..K. Population: M_m of Eq. (6). Finite P: where M_m relaxes to on the sample.

    On the sample, plateau m is the best that the first m key-query pairs can do, to a tolerance: each is found from
    the one before by adding the population's next pair. The tolerance matters. M_m fixes only the sum over heads,
    which m heads can share in a continuum of ways; the sample lifts this freedom by O(P^-1/2), so that neither a
    minimiser nor the flow itself ever quite arrives.
    """
    points = [
        prediction.fixed_point(frame.eigenvalues, frame.second_moments, range(count), heads, rank)
        for count in range(stages + 1)
    ]
    if isinstance(frame.moments, PopulationMoments):
        return points
    dim = len(frame.eigenvalues)
    gain = prediction.learned_gain(frame.eigenvalues, frame.second_moments)
    found = [Weights(np.zeros((heads, dim + 1)), np.zeros((heads, rank, dim + 1)), np.zeros((heads, rank, dim)))]
    for direction in range(stages):
        head, pair = divmod(direction, rank)
        value, key, query = (part.copy() for part in found[-1])
        if pair == 0:
            value[head, -1] = points[direction + 1].value[head, 0]
        key[head, pair, direction] = query[head, pair, direction] = np.sqrt(gain[direction] / value[head, -1])
        found.append(_lowest(Weights(value, key, query), frame.moments, direction + 1))
    return found


def _lowest(weights: Weights, moments: SampleMoments, count: int) -> Weights:
    """The nearest minimum over the first `count` pairs: with idle pairs free it would run on to the next plateau."""
    heads, rank, _ = weights.key.shape
    used = np.arange(heads * rank).reshape(heads, rank) < count
    masks = used[:, :1], used[..., None], used[..., None]
    free = np.concatenate([np.broadcast_to(m, part.shape).ravel() for m, part in zip(masks, weights, strict=True)])
    layout, flat = layout_of(weights), ravel(weights)

    def weights_of(x: np.ndarray) -> Weights:
        moved = flat.copy()
        moved[free] = x
        return layout.unravel(moved)

    def loss(x: np.ndarray) -> float:
        return float(loss_of_map(attention_map(weights_of(x)), moments))

    def slope(x: np.ndarray) -> np.ndarray:
        return -2 * ravel(velocity(weights_of(x), moments))[free]

    options = {"maxiter": 2000, "maxfun": 4000, "ftol": 1e-14, "gtol": 1e-9}
    return weights_of(minimize(loss, flat[free], jac=slope, method="L-BFGS-B", options=options).x)
