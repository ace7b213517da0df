"""Results that show themselves: a few lines in a terminal, a table and a small picture in a notebook."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import pandas

DISPLAY = "saddlescope.show.display"
"""Draws and sets what `shown_by` says of a result. Imported when a result is looked at, not before."""


class Shown:
    """A result that shows itself: `print(result)`, a notebook's cell, `.plot()`, `.to_dataframe()`.

    shown_by: the module that says how, by three functions of a result: `card(result)` gives a `show.display.Card`
    (headline, table, lines), `rows(result)` the rows of its data frame, `draw(result, axes)` its picture, and if it has
    one `size(result)` the picture's, in inches.
    """

    shown_by: ClassVar[str]

    def __repr__(self) -> str:
        return import_module(DISPLAY).text(self)

    def _repr_html_(self) -> str:
        return import_module(DISPLAY).page(self)

    def plot(self, axes: Any = None) -> Any:
        """The result as a picture, on these matplotlib axes or on new ones, which are returned."""
        return import_module(DISPLAY).plot(self, axes)

    def to_dataframe(self) -> pandas.DataFrame:
        """The result as a pandas table, a row for each of its parts."""
        return import_module(DISPLAY).frame(self)
