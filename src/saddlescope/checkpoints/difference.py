"""What a comparison found: modules and heads with their spectra."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from saddlescope.spectra.heads import HeadChange
from saddlescope.spectra.matrix import MatrixChange, Spectrum
from saddlescope.spectra.product import ProductChange
from saddlescope.spectra.ranks import energy_rank, numerical_rank

from .adapter import Adapter

LISTED = 64
"""Singular values of a module that the JSON lists."""


@dataclass(frozen=True)
class Module:
    """One matrix and its change.  name: the tensor's key in the base as stored, [i] added for one of a stack of
    experts.

    hidden_at_least: directions below the floor that the energy of the change proves.  unchanged: share of entries
    that are equal at both ends.  kind: linear, embedding, or what a LoRA cannot change: expert, kernel, parameter.
    outliers: whether rounding of huge rows or columns is among its strongest directions.  rank: of an adapter, its r.
    grids: formats on which the numbers of both ends lie.  remark: a word on what is particular about it.
    """

    name: str
    shape: tuple[int, int]
    dtype: str
    relative_change: float | None
    spectrum: Spectrum
    rank_above_floor: int
    floor: float
    hidden_at_least: int = 0
    unchanged: float | None = None
    unchanged_inside: float = 0.0
    kind: str = "linear"
    outliers: bool = False
    rank: int | None = None
    grids: tuple[str, str] = ("", "")
    remark: str = ""

    @property
    def stable_rank(self) -> float:
        return self.spectrum.stable_rank

    @property
    def random_stable_rank(self) -> float:
        """Of a random matrix of this shape: m n / (√m + √n)², whatever its norm."""
        m, n = self.shape
        return m * n / (math.sqrt(m) + math.sqrt(n)) ** 2

    @property
    def parameters_per_rank(self) -> int:
        return sum(self.shape)

    def _numerical_rank(self) -> int | None:
        """As numpy.linalg.matrix_rank counts in float64; None where not all singular values are known."""
        if not self.spectrum.complete:
            return None
        return int(numerical_rank(self.spectrum.singular_values, max(self.shape) * 2.0**-52))

    def to_dict(self) -> dict[str, Any]:
        least, most = self.spectrum.entropy_rank_bounds
        held = self.spectrum
        found = {
            "name": self.name,
            "shape": list(self.shape),
            "dtype": self.dtype,
            "relative_change": self.relative_change,
            "stable_rank": self.stable_rank,
            # Of a spectrum whose top alone is known, the middle of what it can be.
            "entropy_rank": math.sqrt(least * most),
            "entropy_rank_bounds": [least, most],
            "numerical_rank": self._numerical_rank(),
            "energy_rank_90": _energy_rank(held, 0.9),
            "energy_rank_99": _energy_rank(held, 0.99),
            "rank_above_floor": self.rank_above_floor,
            "floor": self.floor,
            "hidden_at_least": self.hidden_at_least,
            "random_stable_rank": self.random_stable_rank,
            "singular_values": [float(value) for value in held.singular_values[:LISTED]],
            "residual_energy": held.residual(LISTED) ** 2,
            "unchanged": self.unchanged,
            "remark": self.remark,
        }
        return found if self.rank is None else {**found, "rank": self.rank}


def _energy_rank(spectrum: Spectrum, share: float) -> int | None:
    """None where the known top does not hold as much."""
    found = int(energy_rank(spectrum.singular_values, share, spectrum.energy))
    return found if found <= len(spectrum.singular_values) else None


@dataclass(frozen=True)
class Heads:
    """One circuit of one attention layer."""

    layer: int
    stack: str
    change: HeadChange

    def rows(self) -> Iterator[dict[str, Any]]:
        stable, rank = self.change.stable_rank, self.change.rank
        for head in range(len(rank)):
            yield {
                "layer": self.layer,
                **({"stack": self.stack} if self.stack else {}),
                "head": head,
                "circuit": self.change.circuit,
                "relative_change": float(self.change.relative_change[head]),
                "stable_rank": float(stable[head]),
                "rank": int(rank[head]),
                "floor": float(self.change.floor[head]),
                "random_stable_rank": float(self.change.random_stable_rank[head]),
                "singular_values": [float(value) for value in self.change.singular_values[head][:LISTED]],
            }


@dataclass
class Difference:
    """All that was found.  `changes` gives each module's change again, for those who need its vectors."""

    base: str
    tuned: str | None
    family: str | None
    notes: list[str]
    modules: list[Module]
    heads: list[Heads]
    changes: dict[str, MatrixChange | ProductChange] = field(repr=False)
    config: Mapping[str, Any] | None = field(default=None, repr=False)
    adapter: Adapter | None = field(default=None, repr=False)

    def to_dict(self) -> dict[str, Any]:
        return {
            "base": self.base,
            "tuned": self.tuned,
            "family": self.family,
            "notes": self.notes,
            "modules": [module.to_dict() for module in self.modules],
            "heads": [row for heads in self.heads for row in heads.rows()],
        }
