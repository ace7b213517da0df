"""Parameters of gradual_rank, with the paper's symbols."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from saddlescope.core.errors import BadArgument, unknown
from saddlescope.core.spec import Spec, require, require_room

ERRORS = ("squared", "log_cosh", "quartic", "logistic")
ACTIVATIONS = ("gelu", "relu")


def check_attention(spec: Any) -> None:
    """What every Spec says that has tokens, samples and a teacher."""
    for name in ("dim", "samples"):
        require(getattr(spec, name) > 0, name, getattr(spec, name), "positive")
    require(spec.tokens > 1, "tokens", spec.tokens, "at least 2", "a single token attends to itself alone")
    require(spec.teacher_seed >= 0, "teacher_seed", spec.teacher_seed, "zero or positive")
    require_room("samples", spec.samples, spec.samples * spec.tokens * (spec.dim + spec.tokens))
    require_room("dim", spec.dim, spec.dim**2)
    if spec.batch_size is not None and spec.batch_size > spec.samples:
        raise BadArgument(f"`batch_size` {spec.batch_size} exceeds the {spec.samples} `samples`")


SMALLEST_WEIGHTS = -300.0
"""log10_alpha below which weights are no floating-point numbers: only their logarithms can be formed."""

SMALLEST = -1e6
"""log10_alpha below which steps of the logarithms are lost beside the logarithms."""


@dataclass(frozen=True, kw_only=True)
class DiagonalSpec(Spec):
    """What every network h(x; u*v) has.

    log10_alpha: of the initial scale alpha; any negative number, for 1e-1000 is no float.
    penalty: of an L2 term on p = u*v.
    weight_penalty: of an L2 term on u and v, which breaks the conservation law (no theory: set `horizon`).
    equal_start: u = v at the start, Berthier's setting: p = u² then never falls below zero.
    arithmetic: of plain full-batch gradient descent: weights (steps of u and v, as the paper does) or log (the same
        steps of log(u±v), which lose nothing to cancellation). Below log10_alpha -300 it is log.
    stages: how many the prediction lists.
    """

    PROBLEM: ClassVar[tuple[str, ...]] = ("penalty",)

    log10_alpha: float = -32.0
    penalty: float = 0.0
    weight_penalty: float = 0.0
    equal_start: bool = False
    arithmetic: str = "weights"
    stages: int = 8

    def check(self) -> None:
        super().check()
        require(
            SMALLEST <= self.log10_alpha < 0,
            "log10_alpha",
            self.log10_alpha,
            f"negative, and at least {SMALLEST:g}",
            "alpha = 1e-32 is log10_alpha=-32",
        )
        require(0 <= self.penalty < math.inf, "penalty", self.penalty, "zero or positive, and finite")
        require(
            0 <= self.weight_penalty < math.inf, "weight_penalty", self.weight_penalty, "zero or positive, and finite"
        )
        if self.arithmetic not in ("weights", "log"):
            raise unknown("arithmetic", self.arithmetic, ("weights", "log"))
        require(self.stages > 0, "stages", self.stages, "positive")

    @property
    def log_inverse_alpha(self) -> float:
        """B = log(1/alpha): the clock's unit."""
        return -self.log10_alpha * math.log(10)

    @property
    def problem(self) -> tuple[Any, ...]:
        """The fields that decide L(p): equal ones have equal plateaus."""
        return tuple(getattr(self, name) for name in self.PROBLEM)

    @property
    def weights_exist(self) -> bool:
        return self.log10_alpha >= SMALLEST_WEIGHTS


@dataclass(frozen=True, kw_only=True)
class TaughtSpec(DiagonalSpec):
    """Of networks that learn from a teacher of the same form.

    error: of the output against the teacher's: squared, log_cosh, quartic, or logistic (on the targets' signs).
    """

    PROBLEM: ClassVar[tuple[str, ...]] = (*DiagonalSpec.PROBLEM, "data_seed", "error")

    error: str = "squared"

    def check(self) -> None:
        super().check()
        if self.error not in ERRORS:
            raise unknown("error", self.error, ERRORS)


@dataclass(frozen=True, kw_only=True)
class TransformerSpec(TaughtSpec):
    """An attention head with diagonal weights (Eq. (1)), or layers of heads with feed-forward layers (Example 3.2).

    dim: d, the size of a token.
    tokens: n, in a sequence.
    samples: N, sequences.
    layers, heads: both 1: Eq. (1) alone, without residual connections and feed-forward layers; else Example 3.2.
    activation: of the frozen feed-forward layers: gelu, or relu (not smooth: the theorem does not cover it).
    teacher_seed: of the teacher, a network of the same form.
    """

    PROBLEM: ClassVar[tuple[str, ...]] = (
        *TaughtSpec.PROBLEM,
        "dim",
        "tokens",
        "samples",
        "layers",
        "heads",
        "activation",
        "teacher_seed",
    )

    dim: int = 50
    tokens: int = 10
    samples: int = 200
    layers: int = 1
    heads: int = 1
    activation: str = "gelu"
    teacher_seed: int = 326
    learning_rate: float = 2.0

    def check(self) -> None:
        super().check()
        check_attention(self)
        for name in ("layers", "heads"):
            require(getattr(self, name) > 0, name, getattr(self, name), "positive")
            require_room(name, getattr(self, name), self.size**2)
        if self.activation not in ACTIVATIONS:
            raise unknown("activation", self.activation, ACTIVATIONS)

    @property
    def is_head(self) -> bool:
        return self.layers == self.heads == 1

    @property
    def size(self) -> int:
        """p, the number of coordinates."""
        return 2 * self.dim * self.layers * self.heads


KICKED = ("support", "noticeable", "newcomer")


@dataclass(frozen=True, kw_only=True)
class PerturbedSpec(TransformerSpec):
    """A run that starts on a plateau, pushed off it (Figs 9, 10).

    stage: on whose plateau it starts (0: at the origin).
    moment: share of the way to the next stage that is over.
    noise: standard deviation of what is added to u and v; 0: the undisturbed run.
    kicked: support: the active coordinates, u and v by the same amount (Assumption 4.3); newcomer: these and the next
        to enter (Assumption 4.4); noticeable: all with |u| or |v| above 1e-5, u and v apart, as the paper does.
    """

    stage: int = 1
    moment: float = 0.5
    noise: float = 0.05
    kicked: str = "support"

    def check(self) -> None:
        super().check()
        require(0 <= self.stage < self.stages, "stage", self.stage, f"from 0 to `stages` - 1 = {self.stages - 1}")
        require(0 <= self.moment <= 1, "moment", self.moment, "between 0 and 1")
        require(0 <= self.noise <= 1e100, "noise", self.noise, "from 0 to 1e100", "its square is formed")
        if self.kicked not in KICKED:
            raise unknown("kicked", self.kicked, KICKED)


@dataclass(frozen=True, kw_only=True)
class LinearSpec(TaughtSpec):
    """The diagonal linear network f = sum_i u_i v_i x_i (footnote 2).

    coefficients: of the teacher.
    samples: N; null: identity covariance, of which everything is known.
    """

    PROBLEM: ClassVar[tuple[str, ...]] = (*TaughtSpec.PROBLEM, "coefficients", "samples")

    coefficients: tuple[float, ...] = (2.0, -1.0, 0.5, -0.25)
    samples: int | None = None
    learning_rate: float = 0.05
    log10_alpha: float = -8.0

    def check(self) -> None:
        super().check()
        require(len(self.coefficients) > 0, "coefficients", list(self.coefficients), "not empty")
        require(
            all(math.isfinite(c) for c in self.coefficients) and any(self.coefficients),
            "coefficients",
            list(self.coefficients),
            "finite, and not all zero",
        )
        require(self.samples is None or self.samples > 0, "samples", self.samples, "positive")
        require_room("samples", self.samples, (self.samples or 0) * len(self.coefficients))


@dataclass(frozen=True, kw_only=True)
class FullSpec(Spec):
    """Eq. (1) with weight matrices that are not diagonal, taught by a diagonal teacher (Fig. 2 d-f).

    dim: d, the size of a token.
    head_dim: d' of the matrices W (d, d'); null: d.
    tokens: n, in a sequence.
    samples: N, sequences.
    teacher_seed: as of gradual_rank.
    log10_alpha: of the standard deviation of initial weights.
    block: size of the blocks on the diagonal outside of which weights are zero; null: full matrices.
    """

    dim: int = 50
    head_dim: int | None = None
    tokens: int = 10
    samples: int = 200
    teacher_seed: int = 326
    log10_alpha: float = -10.0
    block: int | None = None
    learning_rate: float = 8.0
    steps: int | None = 1250

    def check(self) -> None:
        super().check()
        check_attention(self)
        require(self.head_dim is None or self.head_dim > 0, "head_dim", self.head_dim, "positive")
        require_room("head_dim", self.head_dim, self.dim * self.width)
        require(SMALLEST_WEIGHTS <= self.log10_alpha < 0, "log10_alpha", self.log10_alpha, "negative, at least -300")
        if self.block is not None:
            require(self.block > 0, "block", self.block, "positive")
            if self.width != self.dim:
                raise BadArgument(f"`block` needs square matrices, got `head_dim` {self.width} and `dim` {self.dim}")

    @property
    def width(self) -> int:
        return self.dim if self.head_dim is None else self.head_dim
