"""Observable: what is measured of a run, with the words, symbol and units that a picture or a table needs of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, init=False)
class Observable:
    """A number, or an array of numbers, at every saved time.

    says: what it is, in a few words, as on the axis of a picture.  dims: names of its dimensions beside time, each an
    argument.  symbol: the paper's letters for it.  units: "" for a pure number.
    """

    says: str
    dims: tuple[str, ...]
    symbol: str
    units: str

    def __init__(self, says: str, *dims: str, symbol: str = "", units: str = ""):
        for given in (says, *dims, symbol, units):
            if not isinstance(given, str):
                kind = type(self).__name__
                raise TypeError(f"{kind} takes words: {kind}('what it is', 'first_dimension', ...), got {given!r}")
        self._set(says=says, dims=dims, symbol=symbol, units=units)

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)  # it is frozen

    @property
    def long_name(self) -> str:
        """Words and symbol: "value of each head, v_i"."""
        return ", ".join(filter(None, [self.says, self.symbol]))

    @property
    def label(self) -> str:
        """The same with units, for an axis: "time of training [epochs]"; as xarray labels its own pictures."""
        return f"{self.long_name} [{self.units}]" if self.units else self.long_name

    @property
    def attrs(self) -> dict[str, str]:
        """What a variable of a dataset says of itself. xarray labels its pictures by `long_name` and `units`."""
        found = {"long_name": self.long_name, "symbol": self.symbol, "units": self.units}
        return {name: words for name, words in found.items() if words}  # xarray writes [] for units that are ""


@dataclass(frozen=True, init=False)
class OverTime(Observable):
    """An observable that is made of others and of time. of: (times, series of the others by name) -> its values."""

    of: Callable[[Any, Mapping[str, Any]], Any]

    def __init__(
        self,
        says: str,
        *dims: str,
        of: Callable[[Any, Mapping[str, Any]], Any],
        symbol: str = "",
        units: str = "",
    ):
        super().__init__(says, *dims, symbol=symbol, units=units)
        self._set(of=of)


class Once(Observable):
    """An observable that a run has once, not over time."""


@dataclass(frozen=True, init=False)
class Coordinate(Observable):
    """What the places along a dimension are: the dimension's own numbers or words, under its name, or further ones.

    dims: the one dimension.  values: one for each place; None: 1, 2, 3, ..., or, of further ones, what the run gives.
    """

    values: tuple[Any, ...] | None

    def __init__(self, says: str, dim: str, *, values: Iterable[Any] | None = None, symbol: str = "", units: str = ""):
        super().__init__(says, dim, symbol=symbol, units=units)
        self._set(values=None if values is None else tuple(values))


def check_observables(owner: str, observables: Mapping[str, Any]) -> None:
    """Raise TypeError unless each is an `Observable` under a name of its own. owner: the class that states them."""
    for name, one in observables.items():
        if not isinstance(one, Observable):
            dims = one if isinstance(one, (tuple, list)) else ()
            form = ", ".join(["'what it is, in a few words'", *map(repr, dims)])
            raise TypeError(f"`observables` of {owner}: {name!r} must say what it is: Observable({form}), got {one!r}")
    dims = {"time", "step"}.union(*(one.dims for one in observables.values()))
    if taken := sorted(dims & observables.keys()):
        raise TypeError(f"`observables` of {owner}: {taken[0]!r} is the name of a dimension too: rename one of them")
