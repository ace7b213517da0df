"""What a comparison found: modules and heads with their spectra."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from saddlescope.core.progress import Tick, silent
from saddlescope.core.shown import Shown
from saddlescope.spectra.heads import HeadChange
from saddlescope.spectra.matrix import MatrixChange, Spectrum
from saddlescope.spectra.product import ProductChange
from saddlescope.spectra.ranks import energy_rank, numerical_rank

from .adapter import Adapter

if TYPE_CHECKING:
    import pandas

    from .advice import Advice

PAGE = "saddlescope.show.change"
"""Writes the page of a difference. Imported when one is asked for, not before."""

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


@dataclass(repr=False)
class Difference(Shown):
    """All that was found. Prints itself in a few lines, in a notebook as a table with a picture.

    base, tuned: what was compared; `tuned` is None for an adapter alone.  family: the model's kind.  notes: what limits
    the numbers.  modules: a `Module` for each matrix.  heads: a `Heads` for each layer and circuit.
    changes: each module's change, for those who need its vectors; they are computed from the two models, which must
    still be what they were.  config: of the model.  adapter: the one that was compared, if any.
    origin: the path or name of the base, if known.  paths: of modules in memory, if the base is one, by key.
    """

    shown_by: ClassVar[str] = "saddlescope.show.of_difference"

    base: str
    tuned: str | None
    family: str | None
    notes: list[str]
    modules: list[Module]
    heads: list[Heads]
    changes: dict[str, MatrixChange | ProductChange]
    config: Mapping[str, Any] | None = None
    adapter: Adapter | None = None
    origin: str | None = None
    paths: Mapping[str, str] | None = None

    def to_dict(self) -> dict[str, Any]:
        """What `saddlescope diff --json` prints, without the advice."""
        return {
            "base": self.base,
            "tuned": self.tuned,
            "family": self.family,
            "notes": self.notes,
            "modules": [module.to_dict() for module in self.modules],
            "heads": self.head_rows(),
        }

    def head_rows(self) -> list[dict[str, Any]]:
        return [row for heads in self.heads for row in heads.rows()]

    def to_dataframe(self, of: Literal["modules", "heads"] = "modules") -> pandas.DataFrame:
        """A pandas table with a row for each matrix, or for each head and circuit.

        of: "modules" or "heads".
        """
        import pandas

        return pandas.DataFrame(import_module(self.shown_by).rows(self, of))

    def advise(self, *, energy: float = 1.0, budget: float | None = None) -> Advice:
        """The LoRA that this change needs.

        energy: share of the energy above the floor that the ranks hold, matrix by matrix.  budget: instead, trainable
        parameters: the ranks of least squared error that they buy.
        """
        from .advice import advise

        return advise(self, energy=energy, budget=None if budget is None else int(budget))

    def extract(
        self, folder: str | Path, *, energy: float = 1.0, budget: float | None = None, tick: Tick = silent
    ) -> dict[str, Any]:
        """Write that LoRA itself, for `peft.PeftModel.from_pretrained(model, folder)`; returns what it leaves out.

        folder: new or empty.  energy, budget: as of `advise`.  tick: hears of the progress.
        """
        from .extract import extract

        return extract(self, self.advise(energy=energy, budget=budget), Path(folder), tick=tick)

    def report(self, path: str | Path, *, advice: Advice | None = None) -> Path:
        """Write a page with heat maps of the heads, the spectra of the matrices and all numbers; returns its path.

        path: ends in .html.  advice: what `advise` gave, to be on the page too.
        """
        found = {**self.to_dict(), "lora": advice and advice.to_dict()}
        import_module(PAGE).write_change_page(Path(path), found)
        return Path(path)
