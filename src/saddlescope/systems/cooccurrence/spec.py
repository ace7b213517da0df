"""The parameters of the word co-occurrence task and of the network that learns it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from saddlescope.core.errors import BadArgument, unknown
from saddlescope.core.spec import Spec, require

COMMON = 3
"""μ1 and μ2, whose co-occurrence decides the label, and μ3, which every sentence has."""

SHARES = (1 / 2, 1 / 6, 1 / 6, 1 / 6)
"""Of sentences with both signals, with μ1 only, with μ2 only, with neither."""

INITS = ("gaussian", "kaiming")
OUTPUTS = ("signs", "kaiming")
ACTIVATIONS = ("linear", "relu")

LARGEST_FORMED = 4096
"""Width up to which weights are formed; beyond it their Gram matrices are drawn from the law that they have."""

LARGEST_STATE = 1_500_000
"""Numbers of a state; a flow keeps some three hundred of them, twice while it saves them."""

APPENDIX = {
    "width": 128,
    "neurons": 256,
    "samples": 60,
    "tokens": 5,
    "vocabulary": 64,
    "init": "kaiming",
    "output": "kaiming",
    "learning_rate": 0.01,
    "steps": 30_000,
    "data_seed": 1,
    "test_sets": 20,
}
"""Appendix A; that a too has the scale of Kaiming's start is what gives the phases their lengths. Seeds are ours."""


@dataclass(frozen=True, kw_only=True)
class TaskSpec(Spec):
    """Symbols of the paper (yang2024).

    width: m, the embedding dimension.
    neurons: m1, of the MLP; null: width/8, at least 1.
    samples: n, training sentences; null: the limit of infinitely many, in which every irrelevant word is met too rarely
        to be learned; these words start at zero here, as if init_scale were zero for them.
    tokens: L, words in a sentence.
    vocabulary: d, words from which sentences are drawn, μ1 to μ3 among them; null: as many as are needed for all
        irrelevant words to differ (Assumption 2.3).
    repeats: whether irrelevant words that are drawn from a `vocabulary` may occur twice.
    topics: parts of the vocabulary; all irrelevant words of a sentence come from one of them. 1: words are independent.
    type_counts: sentences with both signals, with μ1 only, with μ2 only, with neither; null: by the law.
    sampled_types: draw these counts from the law of Definition 2.1 in place of n/2, n/6, n/6, n/6.
    test_sets: fresh sentences of each of the four types, by which the test loss is measured.
    init: of W, W_V, W_K, W_Q: gaussian (Condition 1) or kaiming (uniform within ±1/√fan-in, as in Appendix A).
    init_scale: σ0 = init_scale/√(L m) of init=gaussian; σ1 = 1/√m1.
    output: a, which is not trained: signs (±1) or kaiming.
    """

    width: int = 1024
    neurons: int | None = None
    samples: int | None = 60
    tokens: int = 5
    vocabulary: int | None = None
    repeats: bool = True
    topics: int = 1
    type_counts: tuple[int, ...] | None = None
    sampled_types: bool = False
    test_sets: int = 2
    init: str = "gaussian"
    init_scale: float = 0.1
    output: str = "signs"
    learning_rate: float = 1e-4
    steps: int | None = 2000

    @property
    def hidden(self) -> int:
        """m1."""
        return max(1, self.width // 8) if self.neurons is None else self.neurons

    @property
    def words(self) -> tuple[int, int, int, int]:
        """Irrelevant words in a sentence of each type."""
        return self.tokens - 3, self.tokens - 2, self.tokens - 2, self.tokens - 1

    @property
    def counts(self) -> tuple[int, ...] | None:
        """Sentences of each type, where the law does not leave them to chance."""
        if self.samples is None or self.sampled_types:
            return None
        return self.type_counts or (self.samples // 2, *(self.samples // 6,) * 3)

    def check(self) -> None:
        super().check()
        require(self.width >= 1, "width", self.width, "at least 1")
        require(self.hidden >= 1, "neurons", self.neurons, "at least 1, or null")
        require(
            self.tokens >= 3, "tokens", self.tokens, "at least 3", "a sentence may have to hold μ1, μ2 and μ3 together"
        )
        require(self.test_sets >= 1, "test_sets", self.test_sets, "at least 1")
        for field, known in (("init", INITS), ("output", OUTPUTS)):
            if getattr(self, field) not in known:
                raise unknown(field, getattr(self, field), known)
        require(0 <= self.init_scale < 1e3, "init_scale", self.init_scale, "at least 0 and below 1000")
        self._check_counts()
        self._check_vocabulary()
        require(
            self.init == "gaussian" or max(self.width, self.hidden) <= LARGEST_FORMED,
            "width",
            self.width,
            f"at most {LARGEST_FORMED} with init=kaiming (and so must `neurons` be)",
            "Gram matrices can be drawn without the weights for init=gaussian only",
        )
        require(
            self.output == "signs" or self.hidden <= LARGEST_FORMED,
            "neurons",
            self.hidden,
            f"at most {LARGEST_FORMED} with output=kaiming",
            "the sum of a_j² is known without drawing a for output=signs only",
        )

    def _check_counts(self) -> None:
        n, counts = self.samples, self.type_counts
        require(
            not self.fresh_data, "fresh_data", True, "false", "fresh words would be learned by nobody: raise `samples`"
        )
        if n is None:
            require(counts is None, "type_counts", counts, "null where `samples` is null", "the law has no counts")
            require(not self.sampled_types, "sampled_types", True, "false where `samples` is null")
            require(self.batch_size is None, "batch_size", self.batch_size, "null where `samples` is null")
            require(
                self.vocabulary is None,
                "vocabulary",
                self.vocabulary,
                "null where `samples` is null",
                "with infinitely many sentences the words of a finite vocabulary are all learned",
            )
            require(
                self.init == "gaussian", "init", self.init, "gaussian where `samples` is null", "no fan-in is known"
            )
            return
        require(
            self.batch_size is None or self.batch_size <= n,
            "batch_size",
            self.batch_size,
            f"at most `samples` = {n}",
        )
        require(n >= 6, "samples", n, "at least 6", "each of the four types of sentences must occur")
        if counts is not None:
            require(not self.sampled_types, "sampled_types", True, "false where `type_counts` are given")
            require(
                len(counts) == 4 and min(counts) >= 1,
                "type_counts",
                list(counts),
                "four numbers, each at least 1",
                "sentences with both signals, μ1 only, μ2 only, neither",
            )
            require(
                sum(counts) == n,
                "type_counts",
                list(counts),
                f"such that they sum to `samples` = {n}",
                f"they sum to {sum(counts)}",
            )
        elif not self.sampled_types:
            require(
                n % 6 == 0,
                "samples",
                n,
                "a multiple of 6",
                "half of the sentences have both signals, and a sixth is of each other type; "
                "type_counts=[a,b,c,d] or sampled_types=true take any number",
            )

    def _check_vocabulary(self) -> None:
        d = self.vocabulary
        require(self.topics >= 1, "topics", self.topics, "at least 1")
        if d is None:
            require(self.repeats, "repeats", False, "true where `vocabulary` is null", "all words differ there anyway")
            require(
                self.topics == 1, "topics", self.topics, "1 where `vocabulary` is null", "topics divide a vocabulary"
            )
        else:
            require(
                d >= COMMON + 1, "vocabulary", d, "at least 4", "μ1, μ2 and μ3 are three words, and others are needed"
            )
            require(
                (d - COMMON) // self.topics >= 1,
                "topics",
                self.topics,
                f"at most {d - COMMON}, the irrelevant words in a vocabulary of {d}",
            )
            require(
                self.repeats or self.topics == 1, "topics", self.topics, "1 without `repeats`", "topics repeat words"
            )
        needed = self.most_words
        if d is not None and not self.repeats and needed > d - COMMON:
            raise BadArgument(
                f"`vocabulary` = {d} has {d - COMMON} irrelevant words, and {needed} different ones are needed: set "
                f"vocabulary={needed + COMMON} or more, or repeats=true"
            )
        size = COMMON + (needed if d is None else min(needed, d - COMMON))
        require(
            4 * size**2 <= LARGEST_STATE,
            "samples",
            self.samples,
            f"such that the state has at most {LARGEST_STATE:,} numbers",
            f"{size} different words make {4 * size**2:,}; a `vocabulary` bounds them, samples=null needs few",
        )

    @property
    def most_words(self) -> int:
        """Irrelevant words of all sentences, fresh ones included, as if all were different."""
        if self.samples is None:
            return 1
        fresh = self.test_sets * (self.tokens - 1)
        if self.counts is None:  # the type with the most words may come as often as there are sentences
            return fresh + self.samples * (self.tokens - 1)
        return fresh + sum(count * words for count, words in zip(self.counts, self.words, strict=True))

    # ---- sizes of the start

    @property
    def weight_deviation(self) -> float:
        """Of an entry of W_V, W_K, W_Q: σ0."""
        if self.init == "kaiming":
            fresh = self.test_sets * (self.tokens - 1)  # words that only the test has are none of the network's inputs
            return 1 / math.sqrt(3 * (self.vocabulary or COMMON + self.most_words - fresh))
        return self.init_scale / math.sqrt(self.tokens * self.width)

    @property
    def neuron_deviation(self) -> float:
        """Of an entry of W: σ1."""
        return 1 / math.sqrt(3 * self.width if self.init == "kaiming" else self.hidden)

    @property
    def output_energy(self) -> float:
        """Expected Σ a_j²."""
        return float(self.hidden) if self.output == "signs" else 1 / 3


@dataclass(frozen=True, kw_only=True)
class CooccurrenceSpec(TaskSpec):
    """The network of Eq. (1).

    sampled_neurons: of how many neurons the flow follows w_j; 0: none, and nothing is said of single neurons.
    gram: train plain GD by its exact image in Gram matrices; false: by the network's own gradient.
    """

    sampled_neurons: int = 16
    gram: bool = True

    def check(self) -> None:
        super().check()
        require(self.sampled_neurons >= 0, "sampled_neurons", self.sampled_neurons, "zero or positive")
        require(self.sampled_neurons <= 1000, "sampled_neurons", self.sampled_neurons, "at most 1000")
        require(
            self.gram or not self.reduced_start,
            "gram",
            False,
            f"true above width {LARGEST_FORMED}",
            "there are no weights there that a gradient could move",
        )

    @property
    def followed(self) -> int:
        return min(self.sampled_neurons, self.hidden)

    @property
    def reduced_start(self) -> bool:
        """Whether Gram matrices are drawn in place of weights."""
        return max(self.width, self.hidden) > LARGEST_FORMED


@dataclass(frozen=True, kw_only=True)
class VariantSpec(TaskSpec):
    """What the paper leaves for later (section 5), trained by the network's own gradient.

    activation: of the MLP: linear (Eq. (1)) or relu.
    trained_output: whether a is trained too.
    heads: of attention, whose outputs are added.
    layers: of attention; each but the last adds its output, mapped back to words, to what it received.
    """

    activation: str = "linear"
    trained_output: bool = False
    heads: int = 1
    layers: int = 1
    width: int = 64
    samples: int | None = 24

    def check(self) -> None:
        super().check()
        if self.activation not in ACTIVATIONS:
            raise unknown("activation", self.activation, ACTIVATIONS)
        require(self.samples is not None, "samples", self.samples, "a number", "this network has no limit form here")
        require(
            max(self.width, self.hidden) <= LARGEST_FORMED,
            "width",
            self.width,
            f"at most {LARGEST_FORMED}, and so must `neurons` be",
            "these weights are formed",
        )
        require(1 <= self.heads <= 16, "heads", self.heads, "between 1 and 16")
        require(1 <= self.layers <= 8, "layers", self.layers, "between 1 and 8")
