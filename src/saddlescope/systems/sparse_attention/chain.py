"""The Markov chain of Eq. (1): its features, exact samples, true and truncated predictions. NumPy."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from saddlescope.core.source import source

from .data import haar
from .spec import Chain, MarkovSpec

TOGETHER = 512
"""Sequences that are drawn together: their logits stay in the cache."""


class Tokens(NamedTuple):
    """tokens (n, w + T): x_{-w+1}, ..., x_T."""

    tokens: Any


class Frame(NamedTuple):
    """features (h, d, d): A_k*.  tables (w, d, d): see lag_tables.

    train: the training set.  test: sequences that are never trained on; truths (h, n, T, d): log f_{A*_{1:i}} at each
    of their tokens; entropy: mean loss of the truth on them.  probes (m, 2): sequence and position at which
    predictions are recorded.
    """

    features: Any
    tables: Any
    train: Tokens
    test: Any
    truths: Any
    entropy: Any
    probes: Any


@source("yuksel2025", "Appendix B, ground truth")
def draw_features(chain: Chain) -> np.ndarray:
    """A_k* = m_k times a uniformly distributed orthogonal matrix (h, d, d)."""
    rng = np.random.default_rng(chain.seed)
    return np.stack([m * haar(rng, chain.vocabulary) for m in chain.strengths])


def lag_tables(features: np.ndarray, lags: tuple[tuple[int, ...], ...]) -> np.ndarray:
    """(w, d, d): row x of the i-th is what a token x at lag i+1 adds to the logits, α A_k* x with α = 1/|I(k)|."""
    tables = np.zeros((sum(map(len, lags)), *features.shape[1:]))
    for feature, interval in zip(features, lags, strict=True):
        for lag in interval:
            tables[lag - 1] = feature.T / len(interval)
    return tables


def next_logits(tables: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Σ_k A_k* Σ_{i in I(k)} α_i x_{t-i} (n, d) from the w tokens before t (n, w), the latest last."""
    total = np.zeros((len(before), tables.shape[-1]), tables.dtype)
    for lag, table in enumerate(tables, start=1):
        total += table[before[:, -lag]]
    return total


@source("yuksel2025", "Eq. (1)")
def sample(tables: np.ndarray, positions: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Sequences (count, w + T): w uniform tokens, then T of the chain.

    The next token of all sequences is drawn at once, as the largest of logits plus independent Gumbel variables, whose
    law is exactly the softmax.
    """
    w, d = tables.shape[:2]
    tokens = np.empty((count, w + positions), np.int32)
    tokens[:, :w] = rng.integers(d, size=(count, w))
    for first in range(0, count, TOGETHER):
        part = tokens[first : first + TOGETHER]
        for t in range(w, w + positions):
            # Minus the logarithm of an exponential variable is a Gumbel variable.
            gumbel = -np.log(rng.standard_exponential((len(part), d)))
            part[:, t] = (next_logits(tables, part[:, t - w : t]) + gumbel).argmax(1)
    return tokens


@source("yuksel2025", "Eq. (3)")
def truncated_truth(chain: Chain, features: np.ndarray, tokens: np.ndarray, learned: int) -> np.ndarray:
    """log f_{A*_{1:i}}, i = `learned`, at every token after the first w (n, T, d); i = h is the truth."""
    kept = features * (np.arange(len(features)) < learned)[:, None, None]
    tables, w = lag_tables(kept, chain.lags), chain.window
    return np.stack([log_softmax(next_logits(tables, tokens[:, t - w : t])) for t in range(w, tokens.shape[1])], 1)


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


@lru_cache(maxsize=4)
def held_out(chain: Chain, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Features, tables, test sequences and their truths: shared by all runs on one chain."""
    features = draw_features(chain)
    tables = lag_tables(features, chain.lags)
    test = sample(tables, chain.positions, count, np.random.default_rng((chain.seed, 2)))
    truths = [truncated_truth(chain, features, test, i) for i in range(1, len(features) + 1)]
    return features, tables, test, np.stack(truths)


def build_frame(spec: MarkovSpec) -> Frame:
    features, tables, test, truths = held_out(spec.chain, spec.test_samples)
    train = sample(tables, spec.positions, spec.samples, np.random.default_rng((spec.data_seed, 3)))
    rng = np.random.default_rng((spec.data_seed, 4))
    probes = np.stack([rng.integers(high, size=spec.probes) for high in (spec.test_samples, spec.positions)], 1)
    return Frame(
        features,
        tables.astype(spec.precision),
        Tokens(train),
        test,
        truths.astype(spec.precision),
        np.array(-(np.exp(truths[-1]) * truths[-1]).sum(-1).mean()),
        probes,
    )


# ---- what a network reads of a sequence


def shape(spec: MarkovSpec) -> tuple[int, int]:
    """(outputs, inputs) of the network: one prediction from c tokens where it is trained on windows."""
    if spec.context is not None and spec.restriction == "windows":
        return 1, spec.context
    return spec.positions, spec.inputs


def lags(spec: MarkovSpec) -> np.ndarray:
    """How far each input lies behind the token that is predicted (outputs, inputs); below 1 it must not be seen."""
    outputs, inputs = shape(spec)
    return np.arange(outputs)[:, None] + (inputs - outputs + 1) - np.arange(inputs)
