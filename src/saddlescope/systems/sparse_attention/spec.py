"""The parameters of the regression flow, and of the Markov chain with its transformers."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import NamedTuple

from saddlescope.core.errors import BadArgument, unknown
from saddlescope.core.source import source
from saddlescope.core.spec import Spec, require, require_room

FEATURES = ("orthonormal", "orthogonal")
PRECISIONS = ("float32", "float64")
RESTRICTIONS = ("windows", "band")

MOST_LAGS = 10_000


@dataclass(frozen=True, kw_only=True)
class SparseSpec(Spec):
    """Symbols of the paper (yuksel2025) that both tasks share.

    positions: T.
    patterns: h, how many sets of positions matter.
    heads: H.
    importance_ratio: m; the k-th pattern has strength m^(h-k) b0.
    base_scale: b0.
    """

    positions: int = 40
    patterns: int = 3
    heads: int = 3
    importance_ratio: float = 1.7
    base_scale: float = 10.0

    @property
    def strengths(self) -> tuple[float, ...]:
        """m_k = m^(h-k) b0, of Appendix B."""
        return tuple(
            self.importance_ratio ** (self.patterns - k) * self.base_scale for k in range(1, self.patterns + 1)
        )

    @property
    def by_importance(self) -> tuple[int, ...]:
        """Patterns from the strongest to the weakest; ties in the order of their numbers."""
        return tuple(sorted(range(self.patterns), key=lambda k: -self.strengths[k]))

    def check(self) -> None:
        super().check()
        require(self.patterns >= 1, "patterns", self.patterns, "at least 1", "there would be nothing to learn")
        require(self.patterns <= MOST_LAGS, "patterns", self.patterns, f"at most {MOST_LAGS}")
        require(self.heads >= 1, "heads", self.heads, "at least 1", "without a head nothing can be learned")
        require(self.positions >= 1, "positions", self.positions, "at least 1")
        require(
            0 < self.importance_ratio < math.inf,
            "importance_ratio",
            self.importance_ratio,
            "positive and finite",
            "strengths are its powers; 1 makes all patterns equally important",
        )
        require(0 < self.base_scale < math.inf, "base_scale", self.base_scale, "positive and finite")
        largest, least = max(self.strengths), min(self.strengths)
        require(
            largest < 1e6 and least > 1e-6,
            "importance_ratio",
            self.importance_ratio,
            f"such that all {self.patterns} strengths are between 1e-6 and 1e6",
            f"they go from {least:.2g} to {largest:.2g}",
        )


@dataclass(frozen=True, kw_only=True)
class RegressionSpec(SparseSpec):
    """The regression task of section 3: every pattern is one position.

    base_scale: b0; the k-th feature has the Frobenius norm m_k* = m^(h-k) b0 itself.
    init_noise: standard deviation of the normal noise on the logits q(0). Around s = 1/T, noise of size e on s is noise
        of size e T on q: section C.6's variance 1e-6 is 0.04 at T=40.
    init_value: c of V_k(0) = c (V_1* + ... + V_h*).
    value_noise: standard deviation of the entries of V_k(0) around that.
    coupled: all heads start alike, and one is followed for all: the symmetric flow of section 3.
    lumped: the positions that no pattern needs start with one common logit, which they keep.
    features: orthonormal (Assumption 2), or orthogonal (d x d orthogonal matrices over √d, as Appendix B draws them:
        their inner products are of order 1/d).
    dimension: d; it matters to weights, and to the inner products of features=orthogonal, only.
    stages: how many a run with a set horizon is meant to see; null: all.
    """

    init_noise: float = 0.04
    init_value: float = 0.0
    value_noise: float = 0.0
    coupled: bool = False
    lumped: bool = False
    features: str = "orthonormal"
    dimension: int = 50
    stages: int | None = None
    learning_rate: float = 0.002

    @property
    def rows(self) -> int:
        """Heads that need not be alike."""
        return 1 if self.coupled else self.heads

    def check(self) -> None:
        require(
            self.patterns <= self.positions,
            "patterns",
            self.patterns,
            f"at most `positions` = {self.positions}",
            "every pattern has a position of its own",
        )
        super().check()
        require(0 <= self.init_noise < 10, "init_noise", self.init_noise, "at least 0 and below 10")
        require(abs(self.init_value) < 1e6, "init_value", self.init_value, "between -1e6 and 1e6")
        require(0 <= self.value_noise < 1e6, "value_noise", self.value_noise, "at least 0 and below 1e6")
        require(1 <= self.dimension <= 1000, "dimension", self.dimension, "between 1 and 1000")
        require(
            self.patterns <= self.dimension**2,
            "patterns",
            self.patterns,
            f"at most dimension² = {self.dimension**2}",
            "more matrices cannot be orthonormal",
        )
        require_room("dimension", self.dimension, self.patterns * self.dimension**2)
        require(self.stages is None or self.stages >= 0, "stages", self.stages, "null, zero or positive")
        if self.features not in FEATURES:
            raise unknown("features", self.features, FEATURES)
        size = self.heads * (self.patterns + 1 if self.lumped else self.positions)
        require(
            size <= 10**7, "positions", self.positions, f"such that the state has at most 1e7 numbers, not {size:.0e}"
        )
        require(
            self.batch_size is None,
            "batch_size",
            self.batch_size,
            "null",
            "the loss of section 3 is that of the population",
        )

    def remarks(self) -> list[str]:
        words = super().remarks()
        if self.init_noise == 0 and self.value_noise == 0 and not self.coupled and self.heads > 1:
            words.append(
                "init_noise=0 makes all heads alike, and only rounding will part them: coupled=true keeps them together"
            )
        if self.heads < self.patterns:
            words.append(f"{self.patterns} patterns want as many heads: with heads={self.heads}, so many stages exist")
        if self.stages is not None and self.horizon is None:
            words.append("`stages` is for runs with a set horizon: without one they go on until the last stage")
        if self.importance_ratio == 1:
            words.append("importance_ratio=1: no pattern comes first but by the noise of the start")
        return words


class Chain(NamedTuple):
    """What decides a chain: T, d, m_k, I(k) by lags from 1, and the seed of its features and sequences."""

    positions: int
    vocabulary: int
    strengths: tuple[float, ...]
    lags: tuple[tuple[int, ...], ...]
    seed: int

    @property
    def window(self) -> int:
        """w, the order of the chain."""
        return sum(map(len, self.lags))


@dataclass(frozen=True, kw_only=True)
class MarkovSpec(SparseSpec):
    """The Markov chain of Eq. (1) and the training that all its models share.

    positions: T; sequences have w further tokens, drawn uniformly, before them.
    base_scale: b0; it multiplies orthogonal d x d matrices.
    vocabulary: d.
    interval_length: |I(k)| of contiguous intervals, the most important the most recent, Eq. (2).
    intervals: I(1), I(2), ... as lists of lags; null: as interval_length says. Lag 1 is the token before the one that
        is predicted (Table 4); Eq. (1) and (2) count from 0.
    samples: training sequences.
    test_samples: sequences on which losses and divergences are measured.
    context: c, the number of tokens that the model may see; null: all.
    restriction: how: windows (the model is trained on windows of c tokens that slide over the sequence, Appendix B), or
        band (a mask on lags above c).
    init_scale: u; logits of `minimal` are uniform in [-u, u], weights of `full` are scaled by it.
    probes: contexts at which the prediction itself is recorded, to compare models with each other.
    precision: float32 or float64, of weights and gradients.
    """

    positions: int = 20
    vocabulary: int = 20
    interval_length: int = 2
    intervals: tuple[tuple[int, ...], ...] | None = None
    samples: int = 9000
    test_samples: int = 1000
    context: int | None = None
    restriction: str = "windows"
    init_scale: float = 1.0
    probes: int = 0
    precision: str = "float32"
    base_scale: float = 6.3
    optimizer: str = "adamw"
    weight_decay: float = 0.01
    clip_norm: float | None = 1.0
    learning_rate: float = 0.01
    batch_size: int | None = 300
    steps: int | None = 2500

    @property
    @source("yuksel2025", "Eq. (2)")
    def lags(self) -> tuple[tuple[int, ...], ...]:
        """I(1), ..., I(h), lags counted from 1; by default contiguous, the most recent first."""
        if self.intervals is not None:
            return self.intervals
        length = self.interval_length
        return tuple(tuple(range(k * length + 1, (k + 1) * length + 1)) for k in range(self.patterns))

    @property
    def chain(self) -> Chain:
        return Chain(self.positions, self.vocabulary, self.strengths, self.lags, self.data_seed)

    @property
    def window(self) -> int:
        return self.chain.window

    @property
    def inputs(self) -> int:
        """Tokens of a sequence that predictions are made from: all but the last."""
        return self.positions + self.window - 1

    def check(self) -> None:
        super().check()
        require(
            self.vocabulary >= 2,
            "vocabulary",
            self.vocabulary,
            "at least 2",
            "a single token leaves nothing to predict",
        )
        require(self.interval_length >= 1, "interval_length", self.interval_length, "at least 1")
        if self.patterns * self.interval_length > MOST_LAGS:
            raise BadArgument(f"`patterns` times `interval_length` must be at most {MOST_LAGS}, the lags of a chain")
        require(
            self.importance_ratio >= 1,
            "importance_ratio",
            self.importance_ratio,
            "at least 1",
            "I(1) is the most important by definition; to have it elsewhere, list `intervals` in another order",
        )
        self._check_intervals()
        require(self.samples >= 1, "samples", self.samples, "at least 1")
        require(self.test_samples >= 1, "test_samples", self.test_samples, "at least 1")
        self._check_sizes()
        require(0 <= self.init_scale < math.inf, "init_scale", self.init_scale, "zero or positive, and finite")
        require(0 <= self.probes <= 10_000, "probes", self.probes, "between 0 and 10000")
        require(
            self.context is None or 1 <= self.context <= self.inputs,
            "context",
            self.context,
            f"null or between 1 and {self.inputs}, the tokens before the last",
        )
        if self.restriction == "windows":
            require(
                self.context is None or self.context <= self.window,
                "context",
                self.context,
                f"at most w = {self.window} with restriction=windows",
                "the first prediction has no longer window; restriction=band allows more",
            )
        if self.restriction not in RESTRICTIONS:
            raise unknown("restriction", self.restriction, RESTRICTIONS)
        if self.precision not in PRECISIONS:
            raise unknown("precision", self.precision, PRECISIONS)
        if self.batch_size is not None and not self.fresh_data:
            require(
                self.batch_size <= self.samples,
                "batch_size",
                self.batch_size,
                f"at most `samples` = {self.samples}",
                "set both, or fresh_data=true",
            )

    def _check_sizes(self) -> None:
        require_room("vocabulary", self.vocabulary, self.window * self.vocabulary**2)
        require_room("heads", self.heads, self.heads * self.positions * self.inputs)
        require_room("samples", self.samples, self.samples * (self.window + self.positions))
        for name in ("test_samples", "batch_size"):
            require_room(
                name, getattr(self, name), (getattr(self, name) or 0) * self.positions * self.numbers_per_token
            )

    @property
    def numbers_per_token(self) -> int:
        """Of the largest array that is made of a sequence."""
        return max(self.patterns * self.vocabulary, self.heads * self.inputs)

    def _check_intervals(self) -> None:
        if self.intervals is None:
            return
        shown = [list(interval) for interval in self.intervals]
        if len(self.intervals) != self.patterns:
            raise BadArgument(f"`intervals` has {len(shown)} lists, but `patterns` is {self.patterns}: set both")
        require(all(self.intervals), "intervals", shown, "lists with at least one lag each")
        lags = sorted(itertools.chain.from_iterable(self.intervals))
        twice = sorted({lag for lag in lags if lags.count(lag) > 1})
        if twice:
            raise BadArgument(f"`intervals` overlap: lag {twice[0]} is in two of them, got {shown}")
        missing = sorted(set(range(1, len(lags) + 1)) - set(lags))
        if missing:
            raise BadArgument(
                f"`intervals` must hold every lag from 1 to {len(lags)}, their number: lag {missing[0]} is missing, "
                f"got {shown}"
            )


@dataclass(frozen=True, kw_only=True)
class FullSpec(MarkovSpec):
    """The transformer of Table 3, and what section C.1 takes from it, one by one.

    hidden: width of the embedding; a multiple of `heads`.
    feedforward: width of the MLP.
    dropout: share of activations that are dropped in training.
    layer_norm, residual, mlp: whether it has them.
    keys: whether scores are made by a query and a key matrix; false: by one matrix A_k in their place.
    output: whether heads are joined by an output matrix; false: their values are added up.
    embedding: whether tokens and positions have learned embeddings; false: they are concatenated one-hot vectors, as in
        section 2.1, and there is no unembedding either.
    """

    hidden: int = 63
    feedforward: int = 64
    dropout: float = 0.0
    layer_norm: bool = True
    residual: bool = True
    mlp: bool = True
    keys: bool = True
    output: bool = True
    embedding: bool = True
    learning_rate: float = 0.003
    batch_size: int | None = 128
    test_samples: int = 150
    steps: int | None = 600

    @property
    def numbers_per_token(self) -> int:
        return max(super().numbers_per_token, self.hidden, self.feedforward)

    def check(self) -> None:
        super().check()
        require(self.hidden >= 1, "hidden", self.hidden, "at least 1")
        require(
            self.hidden % self.heads == 0,
            "hidden",
            self.hidden,
            f"a multiple of `heads` = {self.heads}",
            "each head has an equal part",
        )
        require(self.feedforward >= 1, "feedforward", self.feedforward, "at least 1")
        widest = max(self.hidden, self.feedforward, self.vocabulary + self.inputs)
        require_room("hidden", self.hidden, self.hidden * widest)
        require(0 <= self.dropout < 1, "dropout", self.dropout, "at least 0 and below 1")


PAPER_MINIMAL = {
    "positions": 20,
    "vocabulary": 50,
    "base_scale": 10.0,
    "samples": 9000,
    "test_samples": 3000,
    "interval_length": 2,
    "steps": 6000,
    "batch_size": 3000,
    "learning_rate": 0.003,
    "schedule": "plateau",
    "plateau_every": 100,
}
"""Tables 1, 2 and 4. Left open there: 2000 steps are read as epochs, of three updates each, and the scheduler as one
that listens to the validation loss every 100 updates. After 2000 updates the minimal model has learned two intervals;
a scheduler that listens after every epoch takes the plateaus for the end, and the third is never learned."""

PAPER_FULL = {**PAPER_MINIMAL, "interval_length": 4, "hidden": 255, "feedforward": 64, "dropout": 0.1}
"""Tables 1 to 4. Left open there: norms stand before attention, MLP and unembedding, ReLU in the MLP, dropout on the
embedding and on what attention and MLP add to the stream, scores over the square root of a head's width."""
