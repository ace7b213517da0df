"""One look for all pictures, and how they reach a file."""

from __future__ import annotations

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


def svg_of(figure: Figure, results: Results) -> str:
    """A room's figure as SVG text: the same results give the same bytes."""
    import io

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with plt.rc_context(STYLE):
        canvas, axes = plt.subplot_mosaic("\n".join(figure.panels), figsize=figure.size)
        try:
            figure.draw(axes, results)
            text = io.StringIO()
            canvas.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
            return text.getvalue()
        finally:
            plt.close(canvas)


def save_picture(figure: Any, path: Path) -> None:
    """Drawn in memory first: matplotlib's PDF does not bear a full disk."""
    import io
    import warnings

    drawn = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a name may be in letters that the font lacks
        figure.savefig(drawn, format=path.suffix.removeprefix("."), dpi=150)
    write_whole(path, lambda partial: partial.write_bytes(drawn.getvalue()))


@contextmanager
def picture(path: Path, width: float = 6.4, height: float = 3.6) -> Iterator:
    """Axes to draw on; the file appears, whole, when the block ends without an error."""
    if path.suffix not in SUFFIXES:
        raise BadArgument(f"cannot draw {path}: the name must end in {', '.join(SUFFIXES)}")
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(width, height))
        try:
            yield axes
            save_picture(figure, path)
        finally:
            plt.close(figure)
