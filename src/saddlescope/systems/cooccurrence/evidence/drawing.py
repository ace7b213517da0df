"""What the figures share: colours, axes, labels at the ends of curves, lines of a given slope."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from saddlescope.core import ink
from saddlescope.core.claim import by_field
from saddlescope.core.ink import BLACK, BLUES, DASHES, DOTS, GREY, PALE, at_top, ramp
from saddlescope.core.run import Run

from .measures import moments

HUES = ("#0072B2", "#E69F00", "#D55E00", "#009E73", "#56B4E9", "#999999", "#CC79A7", "#222222")
"""Colour-blind safe (Okabe-Ito); the first four of the four types."""

TYPES = ("both signals", "μ1 only", "μ2 only", "neither")
LOOKS = ("-", "-", DASHES, "-")
"""Of the types: the second and the third are hardly apart."""

TAU = "τ (log)"


# ---- which runs


def of_width(runs: Iterable[Run], width: int) -> list[Run]:
    """Of the width that is nearest."""
    groups = by_field(runs, "width")
    return groups[min(groups, key=lambda other: abs(np.log(other / width)))]


def colours(groups: Mapping[Any, Any], ends: Sequence[str] = BLUES) -> list[tuple[Any, Any, str]]:
    """(value, what belongs to it, its colour) of a family."""
    return [(*item, colour) for item, colour in zip(groups.items(), ramp(ends, len(groups)), strict=True)]


# ---- axes


def plain(value: float) -> str:
    return f"{value:g}" if 1e-2 <= value < 1e3 else power(value)


logs = partial(ink.logs, words=plain)


def power(value: float) -> str:
    """A number as a power of ten, or of two where it is one; else in plain digits."""
    for base in (10, 2):
        exponent = np.log(value) / np.log(base)
        if abs(exponent - round(exponent)) < 1e-9:
            return f"${base}^{{{round(exponent)}}}$"
    return f"{value:g}"


def log_tau(panel: Any, begin: float, end: float) -> None:
    logs(panel, "x")
    panel.set_xlim(begin, end)
    panel.set_xlabel(TAU)


def marks(panel: Any, run: Run) -> None:
    """T0.5 and T1, by vertical lines."""
    for moment, label in zip(moments(run), ("$T_{0.5}$", "$T_1$"), strict=True):
        mark(panel, moment, label)


def mark(panel: Any, place: float, label: str, height: float = 0.99) -> None:
    if np.isfinite(place):
        panel.axvline(place, color=GREY, lw=0.8, ls=DOTS, zorder=1)
        at_top(panel, place, label, height)


# ---- curves


def over_tau(panel: Any, run: Run, values: np.ndarray, **look: Any) -> None:
    panel.plot(run.series("time")[1:], values[1:], **{"lw": 1.4, **look})


def over_steps(panel: Any, run: Run, values: np.ndarray, unit: float = 1.0, **look: Any) -> None:
    panel.plot(run.series("step") / unit, values, **{"lw": 1.4, **look})


def of_types(panel: Any, run: Run, values: np.ndarray, draw: Callable[..., None] = over_tau, **look: Any) -> None:
    """One curve for each type."""
    for kind, colour in enumerate(HUES[:4]):
        draw(panel, run, values[:, kind], **{"color": colour, "ls": LOOKS[kind], "label": TYPES[kind], **look})


def paler(number: int) -> dict[str, Any]:
    """How the curves of the first run, and of further ones, are drawn."""
    return {"lw": 0.7, "alpha": 0.4, "label": None} if number else {"lw": 1.8}


def slope(panel: Any, ends: tuple[float, float], through: float, exponent: float, **look: Any) -> None:
    """A power law from `through` at the first end."""
    x = np.array(ends)
    panel.plot(x, through * (x / x[0]) ** exponent, **{"color": BLACK, "lw": 1, "ls": DASHES, "zorder": 3, **look})


def note(panel: Any, place: tuple[float, float], text: str, **look: Any) -> None:
    """Words beside a point."""
    panel.annotate(text, place, **{"textcoords": "offset points", "xytext": (4, 2), "fontsize": 8, **look})


def ends(panel: Any, labels: Iterable[tuple[float, str, str]], apart: float = 0.07) -> None:
    """(height, words, colour): labels right of the panel at these heights, moved until they do not overlap.

    Limits of the axes must be set before.
    """
    low, high = panel.get_ylim()
    scale = np.log if panel.get_yscale() == "log" else np.asarray
    whole = scale(high) - scale(low)
    found = sorted(((scale(height) - scale(low)) / whole, text, colour) for height, text, colour in labels)
    places = np.clip([height for height, _, _ in found], 0.0, 1.0)
    for _ in range(200):
        gaps = apart - np.diff(places)
        if not (gaps > 1e-6).any():
            break
        for number in np.flatnonzero(gaps > 0):
            places[number] -= gaps[number] / 2
            places[number + 1] += gaps[number] / 2
    for place, (_, text, colour) in zip(places, found, strict=True):
        look = {"xytext": (4, 0), "va": "center", "color": colour, "annotation_clip": False}
        note(panel, (1, place), text, xycoords="axes fraction", **look)


def level(panel: Any, height: float, **look: Any) -> None:
    panel.axhline(height, **{"color": PALE, "lw": 0.9, "ls": DASHES, "zorder": 1, **look})
