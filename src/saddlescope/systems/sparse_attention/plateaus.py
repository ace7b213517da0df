"""Plateaus of the Markov task: the best that can be said from the first i intervals alone, a convex problem."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from saddlescope.core.source import source

from .chain import draw_features, lag_tables, sample, truncated_truth
from .spec import Chain, MarkovSpec

SEQUENCES = 2000
"""On which the regression is fitted, and as many on which it is tried: levels are right to about half a percent."""

FIT = {"ftol": 1e-6, "maxcor": 20, "maxiter": 1000}


class _Side(NamedTuple):
    means: np.ndarray  # (n, i d)
    truth: np.ndarray  # probabilities of the next token (n, d)
    entropy: float

    def excess(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """Mean excess loss of softmax(means @ weights), and its gradient. Single precision: 1e-6 is asked for."""
        n = len(self.means)
        logits = self.means @ weights.reshape(self.means.shape[1], self.truth.shape[1]).astype(np.float32)
        logits -= logits.max(1, keepdims=True)
        share = np.exp(logits)
        total = share.sum(1, keepdims=True)
        loss = (np.log(total).sum(dtype=float) - (self.truth * logits).sum(dtype=float)) / n
        share /= total
        share -= self.truth
        return loss - self.entropy, (self.means.T @ share).astype(float).ravel() / n


def _side(chain: Chain, features: np.ndarray, learned: int, rng: np.random.Generator) -> _Side:
    tokens = sample(lag_tables(features, chain.lags), chain.positions, SEQUENCES, rng)
    truth = truncated_truth(chain, features, tokens, len(features)).reshape(-1, chain.vocabulary)
    share = np.exp(truth)
    entropy = float(-(share * truth).sum() / len(truth))
    return _Side(interval_means(chain, tokens, learned), share.astype(np.float32), entropy)


def interval_means(chain: Chain, tokens: np.ndarray, learned: int) -> np.ndarray:
    """Σ_{j in I(k)} α_j x_{t-j} for the first i = `learned` intervals, side by side (n T, i d)."""
    w, d, length = chain.window, chain.vocabulary, tokens.shape[1]
    means = np.zeros((len(tokens), length - w, learned, d), np.float32)
    one_hot = np.eye(d, dtype=np.float32)
    for place, interval in enumerate(chain.lags[:learned]):
        for lag in interval:
            means[:, :, place] += one_hot[tokens[:, w - lag : length - lag]] / len(interval)
    return means.reshape(len(tokens) * (length - w), learned * d)


@source("yuksel2025", "section 2", "Fig. 3")
@lru_cache(maxsize=64)
def plateau_excess(chain: Chain, learned: int) -> float:
    """P_i: the least excess loss of softmax(Σ_{k<=i} W_k z_k), z_k the mean of I(k)'s tokens, W_k any matrices.

    The truncated truth f_{A*_{1:i}} of Eq. (3) is such a predictor but not the best: it takes the missing intervals for
    silent, not for unknown. What a fit wins on its own sequences it loses on others, so the mean of both is taken.
    """
    from scipy.optimize import minimize

    features = draw_features(chain)
    rng = np.random.default_rng((chain.seed, 5))
    fitted, tried = (_side(chain, features, learned, rng) for _ in range(2))
    weights = np.array([feature.T for feature in features[:learned]]).ravel()
    if learned:
        weights = minimize(fitted.excess, weights, jac=True, method="L-BFGS-B", options=FIT).x
    return float(np.mean([side.excess(weights)[0] for side in (fitted, tried)]))


def sample_excess(spec: MarkovSpec, weights: int) -> float:
    """What a model with p weights, all of them fitted to n sequences of T tokens, has to pay for it: p / (2 n T)."""
    return weights / (2 * spec.samples * spec.positions)
