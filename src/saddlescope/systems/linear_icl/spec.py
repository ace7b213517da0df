"""The parameters of in-context linear regression with linear attention."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from saddlescope.core.errors import unknown
from saddlescope.core.spec import Spec, require, require_room

OBJECTIVES = ("last_token", "next_token")
ERRORS = ("squared", "absolute", "log_cosh", "quartic")

LEAST_DROP = 1e-9
"""Share of the first loss by which a stage must lower it to be told from rounding."""


@dataclass(frozen=True, kw_only=True)
class LinearICLSpec(Spec):
    """Symbols of the paper (zhang2025).

    eigenvalues: spectrum of Λ, descending; their number is D.
    context_length: N; the longest context for the next-token objective.
    heads: H.
    rank: R of key and query.
    init_scale: w_init of Eq. (20).
    sequences: P; null is the population.
    statistics: with finite P, train on the exact sufficient statistics of the sequences (true), or on the
        sequences themselves (false): the same trajectory, at a cost that grows with P.
    mirrored: with finite P, add to every sequence its mirror image y -> -y: the same tasks with w -> -w.
    objective: last_token (Eq. (2)), or next_token (Eq. (9): contexts of every length 1..N).
    error: what is averaged over predictions: squared, or for linear_icl/other_loss absolute, log_cosh or quartic.
    """

    eigenvalues: tuple[float, ...] = (0.4, 0.3, 0.2, 0.1)
    context_length: int = 31
    heads: int = 4
    rank: int = 1
    init_scale: float = 0.01
    sequences: int | None = None
    statistics: bool = True
    mirrored: bool = False
    objective: str = "last_token"
    error: str = "squared"
    learning_rate: float = 0.2

    @property
    def dim(self) -> int:
        return len(self.eigenvalues)

    @property
    def stage_count(self) -> int:
        """Directions that H heads of R key-query pairs can hold."""
        return min(self.dim, self.heads * self.rank)

    @property
    def inverse_length(self) -> float:
        """E(1/N): 1/N for a fixed length, the harmonic number over N for lengths 1..N (section B.3)."""
        n = self.context_length
        return 1 / n if self.objective == "last_token" else _harmonic(n) / n

    @property
    def _visible(self) -> int:
        """How many stages lower the population's loss by more than rounding: the m-th by λ_m³/a_m, of tr Λ."""
        from .data import second_moments

        lam = np.array(self.eigenvalues)
        drops = (lam**3 / second_moments(lam, self.inverse_length))[: self.stage_count]
        return int(np.argmin([*(drops > LEAST_DROP * lam.sum()), False]))

    def check(self) -> None:
        super().check()
        lam = self.eigenvalues
        require(len(lam) > 0, "eigenvalues", list(lam), "a list with at least one number")
        for value in lam:
            require(0 < value < math.inf, "eigenvalues", list(lam), "positive and finite", "they are variances")
            require(1e-9 <= value <= 1e9, "eigenvalues", list(lam), "between 1e-9 and 1e9", "rescale the problem")
        if list(lam) != sorted(lam, reverse=True):
            ordered = sorted(lam, reverse=True)
            require(
                False,
                "eigenvalues",
                list(lam),
                "in descending order",
                f"stages are numbered by it; give {ordered}",
            )
        require(self.context_length >= 1, "context_length", self.context_length, "at least 1")
        require(self.heads >= 1, "heads", self.heads, "at least 1", "without a head nothing can be learned")
        require(
            1 <= self.rank <= self.dim,
            "rank",
            self.rank,
            f"between 1 and {self.dim}, the number of eigenvalues",
        )
        require(
            0 < self.init_scale < math.inf,
            "init_scale",
            self.init_scale,
            "positive and finite",
            "zero is a fixed point, nothing would be learned",
        )
        require(
            1e-12 <= self.init_scale <= 1e3,
            "init_scale",
            self.init_scale,
            "between 1e-12 and 1e3",
            "a drop of some units of time at 1/init_scale could not be resolved in double precision",
        )
        size = self.heads * self.rank * self.dim
        require(
            size <= 10**7,
            "heads",
            self.heads,
            f"such that heads x rank x {self.dim} is at most 1e7",
            f"it is {size:.0e}",
        )
        require(
            self.sequences is None or self.sequences >= 1,
            "sequences",
            self.sequences,
            "null (population) or at least 1",
        )
        for name in ("sequences", "batch_size"):
            require_room(name, getattr(self, name), (getattr(self, name) or 0) * (self.context_length + 1) * self.dim)
        require(
            self.sequences is not None or not self.mirrored,
            "mirrored",
            self.mirrored,
            "false without `sequences`",
            "the population is its own mirror image",
        )
        if self.objective not in OBJECTIVES:
            raise unknown("objective", self.objective, OBJECTIVES)
        if self.error not in ERRORS:
            raise unknown("error", self.error, ERRORS)
        if self.batch_size is not None and not self.fresh_data:
            require(
                self.sequences is not None and self.batch_size <= self.sequences,
                "batch_size",
                self.batch_size,
                f"at most `sequences` = {self.sequences}",
                "mini-batches come from a finite training set; for the population add fresh_data=true",
            )

    def remarks(self) -> list[str]:
        words = super().remarks()
        for index, (left, right) in enumerate(itertools.pairwise(self.eigenvalues), start=1):
            if left == right:
                words.append(
                    f"eigenvalues {index} and {index + 1} are equal: their fixed points form a continuum, and only "
                    "the initial weights decide how long the plateau between them lasts (section E.5)"
                )
        if self.stage_count < self.dim:
            words.append(
                f"{self.heads} heads of rank {self.rank} hold {self.stage_count} of {self.dim} directions: "
                f"only so many stages exist"
            )
        if self.sequences is None and (seen := self._visible) < self.stage_count:
            words.append(
                f"only {seen} of {self.stage_count} stages can be seen: the others lower the loss by less than "
                f"{LEAST_DROP:g} of it"
            )
        return words


def _harmonic(n: int) -> float:
    """1 + 1/2 + ... + 1/n; from 1000 terms on by its asymptotic series, whose next term is below rounding."""
    if n <= 1000:
        return math.fsum(1 / k for k in range(1, n + 1))
    return math.log(n) + 0.5772156649015329 + 1 / (2 * n) - 1 / (12 * n**2)
