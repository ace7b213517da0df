"""One look for all pictures, and how they reach a file."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from saddlescope.core.errors import BadArgument
from saddlescope.core.experiment import Figure, Results
from saddlescope.core.files import write_whole

FACES = {"predict": "#555555", "flow": "#0072B2", "train": "#D55E00"}
"""Colour-blind safe (Okabe-Ito)."""

SUFFIXES = (".png", ".svg", ".pdf")

SHEET = Path(__file__).with_name("saddlescope.mplstyle")
"""The style sheet; matplotlib knows it as "saddlescope.show.saddlescope"."""


class _Settings(Mapping[Any, Any]):
    """Those of the style sheet. Matplotlib is imported when the first of them is asked for."""

    @cached_property
    def _found(self) -> Mapping[Any, Any]:
        from matplotlib import rc_params_from_file

        return rc_params_from_file(SHEET, use_default_template=False)

    def __getitem__(self, name: Any) -> Any:
        return self._found[name]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


STYLE: Any = _Settings()


@contextmanager
def canvas(size: tuple[float, float], panels: str = "", settings: Any = STYLE) -> Iterator[tuple[Any, Any]]:
    """A figure in this style, and its axes; by their names where there are several."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with plt.rc_context(settings):
        figure, axes = plt.subplot_mosaic(panels, figsize=size) if panels else plt.subplots(figsize=size)
        try:
            yield figure, axes
        finally:
            plt.close(figure)


@contextmanager
def drawn(
    figure: Figure, results: Results, size: tuple[float, float] | None = None, settings: Any = STYLE
) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """A room's figure, and its axes by the names of their panels. size: in inches; by default the figure's own.

    What the user's own matplotlibrc says does not count: the same runs give the same picture everywhere.
    """
    import matplotlib

    with (
        matplotlib.rc_context(fname=SHEET),
        canvas(size or figure.size, "\n".join(figure.panels), settings) as (found, axes),
    ):
        figure.draw(axes, results)
        yield found, axes


def svg_text(figure: Any) -> str:
    """The same drawing in this style gives the same bytes."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return text.getvalue()


def svg_of(figure: Figure, results: Results) -> str:
    """A room's figure as SVG text."""
    with drawn(figure, results) as (found, _):
        return svg_text(found)


def save_picture(figure: Any, path: Path) -> None:
    """Drawn in memory first: matplotlib's PDF does not bear a full disk."""
    data = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a name may be in letters that the font lacks
        figure.savefig(data, format=path.suffix.removeprefix("."), dpi=150)
    write_whole(path, lambda partial: partial.write_bytes(data.getvalue()))


@contextmanager
def picture(path: Path) -> Iterator[Any]:
    """Axes to draw on; the file appears, whole, when the block ends without an error."""
    if path.suffix not in SUFFIXES:
        raise BadArgument(f"cannot draw {path}: the name must end in {', '.join(SUFFIXES)}")
    with canvas((6.4, 3.6)) as (figure, axes):
        yield axes
        save_picture(figure, path)
