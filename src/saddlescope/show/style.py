"""One look for all pictures, and how they reach a file."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from saddlescope.core.errors import BadArgument
from saddlescope.core.experiment import Figure, Results
from saddlescope.core.files import write_whole

FACES = {"predict": "#555555", "flow": "#0072B2", "train": "#D55E00"}
"""Colour-blind safe (Okabe-Ito)."""

SUFFIXES = (".png", ".svg", ".pdf")

STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "svg.hashsalt": "saddlescope",
}


@contextmanager
def canvas(size: tuple[float, float], panels: str = "") -> Iterator[tuple[Any, Any]]:
    """A figure in this style, and its axes; by their names where there are several."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with plt.rc_context(STYLE):
        figure, axes = plt.subplot_mosaic(panels, figsize=size) if panels else plt.subplots(figsize=size)
        try:
            yield figure, axes
        finally:
            plt.close(figure)


def svg_text(figure: Any) -> str:
    """The same drawing in this style gives the same bytes."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return text.getvalue()


def svg_of(figure: Figure, results: Results) -> str:
    """A room's figure as SVG text."""
    with canvas(figure.size, "\n".join(figure.panels)) as (drawn, axes):
        figure.draw(axes, results)
        return svg_text(drawn)


def save_picture(figure: Any, path: Path) -> None:
    """Drawn in memory first: matplotlib's PDF does not bear a full disk."""
    drawn = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a name may be in letters that the font lacks
        figure.savefig(drawn, format=path.suffix.removeprefix("."), dpi=150)
    write_whole(path, lambda partial: partial.write_bytes(drawn.getvalue()))


@contextmanager
def picture(path: Path) -> Iterator[Any]:
    """Axes to draw on; the file appears, whole, when the block ends without an error."""
    if path.suffix not in SUFFIXES:
        raise BadArgument(f"cannot draw {path}: the name must end in {', '.join(SUFFIXES)}")
    with canvas((6.4, 3.6)) as (figure, axes):
        yield axes
        save_picture(figure, path)
