"""Sentences of the co-occurrence task, and starts: weights, or the Gram matrices that weights of any width have."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from saddlescope.core.errors import BadArgument
from saddlescope.core.source import source
from saddlescope.core.start import OfTheStart

from .spec import COMMON, SHARES, CooccurrenceSpec, TaskSpec

PAPER = "yang2024"
HOLDS = ((0, 1, 2), (0, 2), (1, 2), (2,))
"""Which of μ1, μ2, μ3 a sentence of each type has."""

LABELS = (1.0, -1.0, -1.0, -1.0)


class Sentences(NamedTuple):
    """words (n, L): numbers of the words, μ1, μ2, μ3 being 0, 1, 2.  labels (n,): y.  kinds (n,): the type, from 0.

    weights (n,): of each sentence in the loss; 1/n, or what the law gives it.
    """

    words: Any
    labels: Any
    kinds: Any
    weights: Any


class Weights(NamedTuple):
    """value, key, query (m, D): what W_V, W_K, W_Q make of each word.  neuron (m1, m): W."""

    value: Any
    key: Any
    query: Any
    neuron: Any


class State(NamedTuple):
    """Everything that the function of the network and its flow depend on. With s = Σ_j a_j w_j:

    value (D,): G = W_Vᵀ s.  readout: |s|².  value_gram, key_gram, query_gram (D, D): of W_V, W_K, W_Q.
    scores (D, D): W_Kᵀ W_Q, keys first.  Of the neurons that are followed: neuron_value (k, D): w_jᵀ W_V,
    neuron_readout (k,): ⟨w_j, s⟩, neuron_gram (k, k).

    Along a run all but `value` are changes since the start, in units of their own: beside Gram matrices of order one,
    changes of 1e-18 would be lost.
    """

    value: Any
    readout: Any
    value_gram: Any
    scores: Any
    key_gram: Any
    query_gram: Any
    neuron_value: Any
    neuron_readout: Any
    neuron_gram: Any


class Frame(NamedTuple):
    """train, test: sentences.  learns (D,): 1 for words that are learned; 0 for those that are met too rarely.

    root: √m.  units: of the changes in State.  start: what the changes are counted from, with `value` zero.
    energy: Σ_j a_j².  output (m1,): a, or what of it belongs to the neurons that are followed.
    """

    train: Sentences
    test: Sentences
    learns: Any
    root: Any
    units: State
    start: OfTheStart[State]
    energy: OfTheStart[Any]
    output: OfTheStart[Any]


# ---- sentences


@source(PAPER, "Definition 2.1", "Assumption 2.3")
def draw_sentences(spec: TaskSpec) -> tuple[Sentences, Sentences, int]:
    """Training sentences, fresh ones, and how many different words they have.

    Words that do not occur are left out: they change nothing, and nothing changes them.
    """
    if spec.samples is None:
        return _endless(spec)
    rng = np.random.default_rng(spec.data_seed)
    kinds = np.repeat(np.arange(4), spec.counts or _sampled_counts(spec, rng))
    fresh = np.tile(np.arange(4), spec.test_sets)
    if spec.vocabulary is None or not spec.repeats:
        drawn = _distinct(spec, rng, kinds, fresh)
    else:
        drawn = _repeating(spec, rng, kinds) + _repeating(spec, rng, fresh)
    words = np.stack([_sentence(kind, own, rng) for kind, own in zip(np.r_[kinds, fresh], drawn, strict=True)])
    known = np.unique(words[words >= COMMON])
    words = np.where(words < COMMON, words, COMMON + np.searchsorted(known, words))
    labels = np.array(LABELS)
    train = Sentences(words[: len(kinds)], labels[kinds], kinds, np.full(len(kinds), 1 / len(kinds)))
    law = np.array(SHARES)[fresh] / spec.test_sets
    return train, Sentences(words[len(kinds) :], labels[fresh], fresh, law), COMMON + len(known)


def _endless(spec: TaskSpec) -> tuple[Sentences, Sentences, int]:
    """Of infinitely many sentences: one of each type, with a word that nothing is known of in place of all others."""
    words = np.stack([np.r_[held, [COMMON] * count] for held, count in zip(HOLDS, spec.words, strict=True)]).astype(int)
    law = Sentences(words, np.array(LABELS), np.arange(4), np.array(SHARES))
    return law, law, COMMON + 1


def _sampled_counts(spec: TaskSpec, rng: np.random.Generator) -> tuple[int, ...]:
    counts = tuple(int(count) for count in rng.multinomial(spec.samples or 0, SHARES))
    if min(counts) == 0:
        raise BadArgument(
            f"`samples` = {spec.samples} sentences drawn with data_seed {spec.data_seed} are {list(counts)} of the "
            "four types, and each must occur: take more, or another data_seed"
        )
    return counts


def _distinct(spec: TaskSpec, rng: np.random.Generator, kinds: np.ndarray, fresh: np.ndarray) -> list[np.ndarray]:
    """No word in two training sentences; the four fresh ones of a set share theirs, which no other sentence has."""
    pool = np.arange(spec.most_words) if spec.vocabulary is None else rng.permutation(spec.vocabulary - COMMON)
    sizes = np.array(spec.words)
    ends = np.cumsum(sizes[kinds])
    own = [pool[end - sizes[kind] : end] for kind, end in zip(kinds, ends, strict=True)]
    sets = [int(ends[-1]) + number * (spec.tokens - 1) for number in np.arange(len(fresh)) // 4]
    return own + [pool[first : first + sizes[kind]] for kind, first in zip(fresh, sets, strict=True)]


def _repeating(spec: TaskSpec, rng: np.random.Generator, kinds: np.ndarray) -> list[np.ndarray]:
    """Uniform in the sentence's topic; topics are equal parts, and what is left of the vocabulary belongs to none."""
    assert spec.vocabulary is not None
    part = (spec.vocabulary - COMMON) // spec.topics
    sizes, topics = np.array(spec.words), rng.integers(spec.topics, size=len(kinds))
    return [topic * part + rng.integers(part, size=sizes[kind]) for kind, topic in zip(kinds, topics, strict=True)]


def _sentence(kind: int, own: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.permutation(np.r_[HOLDS[kind], COMMON + own].astype(int))


# ---- starts


def learned_words(spec: TaskSpec, size: int) -> np.ndarray:
    """(D,) 1 for words that are learned; 0 for those of the limit of infinitely many sentences, which start at zero."""
    return np.where((np.arange(size) < COMMON) | (spec.samples is not None), 1.0, 0.0)


def initial_weights(spec: TaskSpec, size: int, seed: int) -> tuple[Weights, np.ndarray]:
    """Weights for `size` words, and a."""
    rng = np.random.default_rng(seed)
    draw = {
        "gaussian": lambda deviation, shape: deviation * rng.standard_normal(shape),
        "kaiming": lambda deviation, shape: np.sqrt(3) * deviation * rng.uniform(-1, 1, shape),
    }[spec.init]
    value, key, query = (draw(spec.weight_deviation, (spec.width, size)) * learned_words(spec, size) for _ in range(3))
    neurons = draw(spec.neuron_deviation, (spec.hidden, spec.width))
    return Weights(value, key, query, neurons), draw_output(spec, rng, spec.hidden)


def draw_output(spec: TaskSpec, rng: np.random.Generator, count: int) -> np.ndarray:
    if spec.output == "kaiming":
        return rng.uniform(-1, 1, count) / np.sqrt(spec.hidden)
    return rng.choice([-1.0, 1.0], size=count)


def gram_factor(rng: np.random.Generator, width: int, count: int) -> np.ndarray:
    """T with T Tᵀ distributed as the Gram matrix of `count` vectors of `width` standard normal numbers.

    Bartlett's: T is triangular, its diagonal the roots of chi-squares, so that any width costs the same; where the
    vectors are more than their width, that triangle does not exist, and the vectors themselves are T.
    """
    if count > width:
        return rng.standard_normal((count, width))
    factor = np.tril(rng.standard_normal((count, count)), -1)
    factor[np.diag_indices(count)] = np.sqrt(rng.chisquare(width - np.arange(count)))
    return factor


def draw_grams(spec: CooccurrenceSpec, size: int, seed: int) -> tuple[State, float, np.ndarray]:
    """The Gram matrices of a start, Σ a_j², and a of the neurons that are followed; no weight is formed."""
    rng = np.random.default_rng(seed)
    k = spec.followed
    output = draw_output(spec, rng, k)
    rest = float(spec.hidden - k)
    vectors = gram_factor(rng, spec.width, size + k + 1)
    scale = spec.weight_deviation * learned_words(spec, size)[:, None]
    values, neurons = scale * vectors[:size], spec.neuron_deviation * vectors[size : size + k]
    s = output @ neurons + spec.neuron_deviation * np.sqrt(rest) * vectors[-1]
    maps = gram_factor(rng, spec.width, 2 * size)
    grams = _grams(values, scale * maps[:size], scale * maps[size:], neurons, s)
    return grams, float(output @ output) + rest, output


def _grams(values: Any, keys: Any, queries: Any, neurons: Any, s: Any) -> State:
    """From vectors as rows."""
    return State(
        values @ s,
        s @ s,
        values @ values.T,
        keys @ queries.T,
        keys @ keys.T,
        queries @ queries.T,
        neurons @ values.T,
        neurons @ s,
        neurons @ neurons.T,
    )


def grams_of(weights: Weights, output: Any, followed: int) -> State:
    s = output @ weights.neuron
    return _grams(weights.value.T, weights.key.T, weights.query.T, weights.neuron[:followed], s)


def units_of(spec: CooccurrenceSpec) -> State:
    """By how much each part changes while G becomes of order one, up to constants, in the law of the start."""
    m, L = spec.width, spec.tokens
    variance, energy = spec.weight_deviation**2, spec.output_energy
    clock = energy * spec.neuron_deviation**2 * m
    typical = np.sqrt(energy / spec.hidden)  # of a_j
    # A start at zero has no Gram matrices of keys and queries, and no unit to measure their changes by.
    variance = max(variance, 1e-12 / m)
    return State(
        np.array(1.0),
        np.array(energy / clock),
        np.array(1 / clock),
        np.array(variance * np.sqrt(m) / (L * clock)),
        np.array(variance / (L * clock)),
        np.array(variance / (L * clock)),
        np.array(typical / energy),
        np.array(typical / clock),
        np.array(np.sqrt(variance * m) * spec.neuron_deviation * typical / clock),
    )
