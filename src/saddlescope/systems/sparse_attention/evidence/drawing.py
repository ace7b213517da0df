"""What the figures share: numbers for pictures, colours and axes, attention maps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from saddlescope.core import ink
from saddlescope.core.ink import BLACK, GREY, PALE, at_top, finish, ramp
from saddlescope.core.run import Run

from .measures import markov
from .measures.flow import times

HEADS = ("#0072B2", "#E69F00", "#009E73", "#56B4E9", "#D55E00", "#999999")
"""Blue, yellow and green as in the paper; more for more heads, and then again."""

REDS = ("#67001f", "#d6604d", "#f0a07c")
"""Ends and middle of a ramp over intervals or patterns, the most important darkest."""


# ---- what is read off a run


def stage_steps(run: Run) -> list[float]:
    """Steps of the stages that were seen."""
    moments = times(run)
    return np.interp(moments[np.isfinite(moments)], run.series("time"), run.series("step")).tolist()


def plateaus(run: Run) -> np.ndarray:
    """Excess losses P_0, ..., P_{h-1} of the convex problems, as far as the model can see the intervals.

    What a finite training set costs after the last stage is no such problem, and left out.
    """
    return markov.predicted_excess(run)[: run.system.spec.patterns]


def nearest(run: Run) -> list[int]:
    """Rows of the start and of the least divergence from f_{A*_{1:i}}, i = 1, ..., h.

    The last row takes the place of one that does not come after the one before.
    """
    rows = [0]
    for row in run.series("divergence").argmin(0).tolist():
        rows.append(row if row > rows[-1] else len(run.series("step")) - 1)
    return rows


def visible(run: Run) -> int:
    """Intervals that the context reaches."""
    context = run.system.spec.context
    return sum(context is None or max(lags) <= context for lags in run.system.spec.lags)


def restricted(runs: Iterable[Run]) -> list[Run]:
    """Models of restricted context, by its length; windows, as in the paper, before masks."""
    found = [run for run in runs if run.system.spec.context is not None]
    return sorted(found, key=lambda run: (run.system.spec.restriction != "windows", run.system.spec.context))


def fresh(runs: Iterable[Run]) -> Run:
    return next(run for run in runs if run.system.spec.fresh_data)


def furthest(runs: Iterable[Run]) -> tuple[Run, Run]:
    """The run whose most important interval is the furthest, and the one where it is the nearest."""
    runs = list(runs)
    far = next(run for run in runs if max(run.system.spec.lags[0]) == run.system.spec.window)
    near = next(run for run in runs if min(run.system.spec.lags[0]) == 1)
    return far, near


# ---- colours and axes


def head(number: int) -> str:
    return HEADS[number % len(HEADS)]


def split(panel: Any, rows: int, columns: int = 1) -> list[Any]:
    """As many panels in the place of one: how many are needed is known only from the runs."""
    figure, place = panel.figure, panel.get_subplotspec()
    panel.remove()
    return [figure.add_subplot(part) for part in place.subgridspec(rows, columns)]


def log_steps(panel: Any, runs: Sequence[Run], *between: int) -> None:
    """From somewhat before the first stage; a little further than the end, where much may happen."""
    first = min((step for run in runs for step in stage_steps(run)[:1]), default=4.0)
    logs(panel, "x", *between)
    panel.set_xlim(max(first / 4, 1), 1.08 * max(run.series("step")[-1] for run in runs))
    panel.set_xlabel("step (log)")


def log_time(panel: Any, begin: float, end: float) -> None:
    logs(panel, "x")
    panel.set_xlim(begin, end)
    panel.set_xlabel("time (log)")


def plain(value: float) -> str:
    return f"{value:g}" if 1e-3 <= value < 1e5 else f"$10^{{{np.log10(value):.0f}}}$"


logs = partial(ink.logs, words=plain)


def levels(panel: Any, run: Run, **look: Any) -> None:
    for level in plateaus(run)[1:]:
        panel.axhline(level, **{"color": PALE, "lw": 0.8, "zorder": 1, **look})


def marks(panel: Any, run: Run) -> None:
    """Stages, by vertical lines."""
    for number, step in enumerate(stage_steps(run), start=1):
        panel.axvline(step, color=PALE, lw=0.8, zorder=1)
        at_top(panel, step, f"$t_{number}$")


def curve(panel: Any, run: Run, values: np.ndarray, **look: Any) -> None:
    panel.plot(run.series("step"), values, **{"lw": 1.3, **look})


def excess(panel: Any, run: Run, **look: Any) -> None:
    curve(panel, run, run.series("excess"), **{"color": BLACK, **look})


def truths(panel: Any, run: Run, title: str) -> None:
    """Divergence from the truths that know the first i intervals alone."""
    values = run.series("divergence")
    for i, (column, colour) in enumerate(zip(values.T, ramp(REDS, values.shape[1]), strict=True), start=1):
        curve(panel, run, column, color=colour, label=rf"$f_{{1:{i}}}$")
    marks(panel, run)
    log_steps(panel, [run], 3)
    logs(panel, "y", 2, 5)
    finish(panel, title, "lower left", ylabel=r"KL($f_{1:i}$ ‖ model)")


# ---- attention maps


def blend(maps: np.ndarray, gain: float) -> np.ndarray:
    """Maps (H, query, key) as an image: every head adds its ink to white paper, so that heads that meet are dark."""
    from matplotlib.colors import to_rgb

    ink = 1 - np.array([to_rgb(head(number)) for number in range(len(maps))])
    return np.clip(1 - np.einsum("hqk,hc->qkc", np.clip(gain * maps, 0, 1), ink), 0, 1)


def attention_map(panel: Any, run: Run, row: int) -> None:
    """The sum of the heads' attention; a head that looks at an interval of mean length alone has its full colour."""
    spec, maps = run.system.spec, run.series("map")[row]
    panel.imshow(blend(maps, spec.window / spec.patterns), aspect="equal", interpolation="nearest")
    _, queries, keys = maps.shape
    ends = np.array([-0.5, queries - 0.5])
    behind = keys - queries + 1  # lag of the first key for the first query
    for lags in spec.lags:
        for edge in (min(lags) - 0.5, max(lags) + 0.5):
            panel.plot(ends + behind - edge, ends, color=PALE, lw=0.5)
    for number, lags in enumerate(spec.lags, start=1):
        place = queries - 0.5 + behind - (min(lags) + max(lags)) / 2
        look = {"ha": "center", "va": "top", "fontsize": 6, "color": GREY, "annotation_clip": False}
        panel.annotate(str(number), (place, queries - 0.3), **look)
    panel.set(xlim=(-0.5, keys - 0.5), ylim=(queries - 0.5, -0.5), xticks=[], yticks=[])
    panel.spines[:].set_visible(False)


def attention_maps(axes: Mapping[str, Any], run: Run) -> None:
    """In panels 0 to 3: at the start, and where the model is nearest to each truncated truth."""
    panels = [axes[name] for name in "0123"]
    rows, steps = nearest(run), run.series("step")
    for number, (panel, row) in enumerate(zip(panels, rows, strict=True)):
        attention_map(panel, run, row)
        later = number and rows[number - 1] < run.series("divergence")[:, number - 1].argmin()
        about = "start" if not number else rf"nearest to $f_{{1:{number}}}$" if later else "end"
        panel.set_title(f"step {steps[row]}: {about}", fontsize=8)
        panel.set_xlabel("key", fontsize=8, labelpad=9)
    panels[0].set_ylabel("query", fontsize=8)


def labelled_maps(axes: Mapping[str, Any], run: Run) -> None:
    """The same with the colours of the heads told."""
    attention_maps(axes, run)
    for number in range(run.system.spec.heads):
        axes["0"].plot([], [], "s", color=head(number), ms=5, label=f"head {number + 1}")
    axes["0"].legend(fontsize=7, handletextpad=0.1, loc="upper right")
