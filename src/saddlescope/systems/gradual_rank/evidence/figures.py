"""The paper's figures, and some of our own, drawn from experiments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from saddlescope.core.experiment import Figure, Results
from saddlescope.core.ink import BLACK, GREY, PALE, at_top, finish, ramp
from saddlescope.core.run import Run

from .measures import common

ACCENT = "#009E73"
CORRECTED = ("#a6dbc4", "#009E73", "#00382a")
FLOOR = 1e-11
"""Relative error below which times agree to the accuracy of the flow's solver."""

BLOCKS = {1: "diagonal", None: "full"}
SHARE = 0.1
"""Of the largest singular value at the end: what is above counts for the rank."""

SHADES = {"KQ": ("#7f2704", "#d94801", "#fdae6b"), "VO": ("#08306b", "#2171b5", "#9ecae1")}
"""Of the two kinds of entries: oranges and blues, the darkest for the first."""

DEPTHS = ("#c6dbef", "#9ecae1", "#6baed6", "#3182bd", "#08519c", "#041f47")
"""Of curves at six scales, the darkest for the smallest."""

DASHES = (0, (2, 1.6))
MARKERS = "os^vDP"
VISIBLE = 1e-3
"""|p| below which an entry is not drawn: it would lie on the axis."""

FINE = 600
"""Parts of a panel's height to which curves are drawn."""

LEARNED = 0.05
"""|p| from which an entry has a colour of its own."""

SHOWN = 6
"""Stages whose law is drawn."""

RESCALED = "time / log(1/α)"
PRODUCTS = {"VO": r"$W_V W_O^\top$", "KQ": r"$W_K W_Q^\top$"}


# ---- what is read off a run


def _columns(run: Run, kind: str) -> np.ndarray:
    """Coordinates of one kind, of a single head."""
    dim = run.system.spec.dim
    return np.arange(dim) + (dim if kind == "VO" else 0)


def _kind(run: Run, coordinate: int) -> str:
    return "KQ" if coordinate < run.system.spec.dim else "VO"


def _by_scale(runs: Iterable[Run]) -> list[Run]:
    """From the largest initial scale to the smallest; of several seeds, the first."""
    found: dict[float, Run] = {}
    for run in runs:
        found.setdefault(run.system.spec.log10_alpha, run)
    return common.by_scale(found.values())


def _scale(run: Run) -> str:
    return rf"$\alpha = 10^{{{run.system.spec.log10_alpha:g}}}$"


def _ratios(run: Run, expected: np.ndarray) -> dict[int, float]:
    """Measured over expected times of Algorithm 1's stages, by the first entry of each that the run has seen."""
    ratios = common.times(run) / expected
    places = [common.coordinates(stage)[0] for stage in common.in_the_limit(run)]
    return {place: ratio for place, ratio in zip(places, ratios.tolist(), strict=True) if np.isfinite(ratio)}


def _lateness(run: Run) -> dict[int, float]:
    """(t - T) / T of every stage that the run has seen."""
    return {place: ratio - 1 for place, ratio in _ratios(run, common.limit_times(run)).items()}


def _error(run: Run) -> dict[int, float]:
    """Relative distance of every corrected time from the measured one."""
    return {place: abs(1 / ratio - 1) for place, ratio in _ratios(run, common.predicted_times(run)).items()}


# ---- colours


def _colours(run: Run) -> dict[int, Any]:
    """Of every coordinate that the run learns, by kind and in the order in which they enter."""
    size = np.abs(run.series("product"))
    first = np.where((size > LEARNED).any(axis=0), np.argmax(size > LEARNED, axis=0), -1)
    found: dict[int, Any] = {}
    for kind in SHADES:
        learned = sorted((i for i in _columns(run, kind) if first[i] >= 0), key=lambda i: first[i])
        found |= dict(zip(map(int, learned), ramp(SHADES[kind], len(learned)), strict=True))
    return found


# ---- panels


def _thinned(time: np.ndarray, values: np.ndarray, tolerance: float) -> np.ndarray:
    """Rows that suffice: a line through them is nowhere further from the values than the tolerance."""
    kept, open_ = {0, len(time) - 1}, [(0, len(time) - 1)]
    while open_:
        first, last = open_.pop()
        if last - first < 2:
            continue
        ends = time[[first, last]], values[[first, last]]
        gap = np.abs(values[first : last + 1] - np.interp(time[first : last + 1], *ends))
        middle = first + int(np.argmax(gap))
        if gap.max() > tolerance and first < middle < last:
            kept.add(middle)
            open_ += [(first, middle), (middle, last)]
    return np.array(sorted(kept))


def _entries(axes: Any, run: Run, kind: str, colours: Mapping[int, Any], **look: Any) -> None:
    """Entries that ever become visible; grey where they have no colour. Late ones lie below early ones."""
    time, product = run.series("time"), run.series("product")
    places = _columns(run, kind)
    tolerance = np.ptp(product[:, places]) / FINE
    order = {place: number for number, place in enumerate(colours)}
    for place in places[np.abs(product[:, places]).max(axis=0) > VISIBLE].tolist():
        rows = _thinned(time, product[:, place], tolerance)
        usual: dict[str, Any] = {"color": PALE, "lw": 0.7, "zorder": 2}
        if place in order:
            usual = {"color": colours[place], "lw": 1.2, "zorder": 3 - order[place] / 1000}
        axes.plot(time[rows], product[rows, place], **{**usual, **look})


def _loss(axes: Any, run: Run, **look: Any) -> None:
    axes.plot(run.series("time"), run.series("loss"), **{"color": BLACK, "lw": 1.2, **look})
    axes.set_ylim(bottom=0)


def _spectrum(axes: Any, run: Run, kind: str) -> None:
    """Singular values come sorted: the k-th line is the k-th largest at every moment."""
    values = run.series(f"{kind.lower()}_values")
    shown = values[:, (values > VISIBLE).any(axis=0)]
    for number, colour in reversed(list(enumerate(ramp(SHADES[kind], shown.shape[1])))):
        axes.plot(run.series("time"), shown[:, number], color=colour, lw=1.2)


def _grid(axes: Mapping[str, Any], results: Results, kind: str) -> None:
    """One panel per scale, on common axes."""
    runs = _by_scale(results["scales"])
    colours = _colours(runs[-1])
    panels = list(axes.values())
    for number, (panel, run) in enumerate(zip(panels, runs, strict=True)):
        panel.sharex(panels[-1])
        panel.sharey(panels[-1])
        _entries(panel, run, kind, colours)
        panel.set_title(_scale(run))
        panel.tick_params(labelleft=number % 3 == 0, labelbottom=number >= 3)  # of shared axes, the outer ones
        if number >= 3:
            panel.set_xlabel(RESCALED)
    panels[-1].set_xlim(0, runs[-1].series("time")[-1])
    for panel in (panels[0], panels[3]):
        panel.set_ylabel(f"entries of diag({PRODUCTS[kind]})", fontsize=8)


def _staircase(axes: Any, times: Sequence[float], losses: Sequence[float], **look: Any) -> None:
    """losses: one more than times."""
    axes.step(np.r_[0.0, times, times[-1] + 4], np.r_[losses, losses[-1]], where="post", **look)


# ---- the paper's


def figure_2(axes: Mapping[str, Any], results: Results) -> None:
    diagonal = _by_scale(results["scales"])[-1]
    full = next(run for run in results["full"] if run.system.spec.block is None)
    colours = _colours(diagonal)
    for name, kind in zip("ab", ("VO", "KQ"), strict=True):
        _entries(axes[name], diagonal, kind, colours)
        axes[name].set_ylabel(f"entries of diag({PRODUCTS[kind]})", fontsize=8)
    for name, kind in zip("de", ("VO", "KQ"), strict=True):
        _spectrum(axes[name], full, kind)
        axes[name].set_ylabel(f"singular values of {PRODUCTS[kind]}", fontsize=8)
    for name, run in zip("cf", (diagonal, full), strict=True):
        _loss(axes[name], run)
        axes[name].set_ylabel("loss")
    for name, panel in axes.items():
        panel.set_xlim(0, (diagonal if name in "abc" else full).series("time")[-1])
        panel.set_xlabel(RESCALED if name in "abc" else "time")
        panel.set_title(f"({name}) {'diagonal' if name in 'abc' else 'full'}", loc="left")
        panel.locator_params(axis="x", nbins=4)


def figure_6(axes: Mapping[str, Any], results: Results) -> None:
    panel, runs = axes["a"], _by_scale(results["scales"])
    for run, colour in zip(runs, DEPTHS[-len(runs) :], strict=True):
        _loss(panel, run, color=colour, lw=1.4, label=_scale(run))
    finish(panel, "", "lower left", xlabel=RESCALED, ylabel="loss", xlim=(0, runs[-1].series("time")[-1]))


def _against_undisturbed(axes: Mapping[str, Any], results: Results) -> None:
    """A column per plateau: VO above, KQ below; solid as perturbed, dashed as it would have gone."""
    (runs,) = results.values()
    rows = {"VO": [axes[name] for name in "abcde"], "KQ": [axes[name] for name in "fghij"]}
    colours = {kind: _appearing(runs, kind) for kind in rows}
    stages = sorted({run.system.spec.stage for run in runs})
    for number, stage in enumerate(stages[:5]):
        pair = sorted((run for run in runs if run.system.spec.stage == stage), key=lambda run: run.system.spec.noise)
        alone, pushed = pair[0], pair[-1]
        for kind, row in rows.items():
            panel = row[number]
            if number:
                panel.sharey(row[0])
            panel.axhline(0, color=PALE, lw=0.5, zorder=1)
            _entries(panel, pushed, kind, colours[kind], lw=1.1)
            _entries(panel, alone, kind, colours[kind], lw=1.4, ls=DASHES)
            panel.tick_params(labelleft=number == 0, labelbottom=kind == "KQ")
            panel.set_xlim(0, pushed.series("time")[-1])
        rows["VO"][number].set_title(f"after stage {stage}" if stage else "at the origin")
    for kind, row in rows.items():
        row[0].set_ylabel(f"entries of diag({PRODUCTS[kind]})", fontsize=8)
    rows["KQ"][2].set_xlabel(f"{RESCALED} since the kick")
    for label, dashes in (("perturbed", "-"), ("undisturbed", DASHES)):
        rows["KQ"][0].plot([], [], color=GREY, lw=1.3, ls=dashes, label=label)
    rows["KQ"][0].legend(fontsize=8)


def _appearing(runs: Iterable[Run], kind: str) -> dict[int, Any]:
    """Colours of what is visible in any run, the largest darkest."""
    runs = list(runs)
    size = np.max([np.abs(run.series("product")).max(axis=0) for run in runs], axis=0)
    places = sorted((int(i) for i in _columns(runs[0], kind) if size[i] > VISIBLE), key=lambda i: -size[i])
    return dict(zip(places, ramp(SHADES[kind], len(places)), strict=True))


# ---- ours


def figure_law(axes: Mapping[str, Any], results: Results) -> None:
    runs = _by_scale(results["limit"])
    places = [common.coordinates(stage)[0] for stage in common.in_the_limit(runs[-1], SHOWN)]
    shades = {kind: iter(ramp(SHADES[kind], sum(_kind(runs[0], i) == kind for i in places) + 1)) for kind in SHADES}
    for number, place in enumerate(places):
        points = [(run.system.spec.log_inverse_alpha, _lateness(run).get(place)) for run in runs]
        scale, late = np.array([(scale, late) for scale, late in points if late is not None]).T
        look = {"color": next(shades[_kind(runs[0], place)]), "marker": MARKERS[number], "ms": 5}
        slope = late[-1] * scale[-1]
        axes["a"].plot([0, 1 / scale[0]], [0, slope / scale[0]], color=look["color"], lw=0.8)
        label = f"{number + 1}: {common.system_of(runs[0]).coordinate_name(place)}"
        axes["a"].plot(1 / scale, late, ls="", **look, label=label)
        axes["b"].plot(1 / scale, late * scale, lw=0.8, **look)
    lateness = "$(t_k - T_k)\\,/\\,T_k$"
    finish(axes["a"], "(a) relative lateness", ylabel=lateness)
    finish(axes["b"], "(b) multiplied by log(1/α)", ylabel=f"{lateness}  ×  log(1/α)")
    for panel in axes.values():
        panel.set(xlabel="1 / log(1/α)", xlim=(0, None), ylim=(0, None))
        panel.locator_params(axis="x", nbins=5)
    axes["a"].legend(fontsize=7, title="stage k, entry", title_fontsize=7)
    scales = [1 / run.system.spec.log_inverse_alpha for run in runs]
    for run, place, side in zip(runs, scales, ("right", *["center"] * (len(runs) - 2), "left"), strict=True):
        text = f"$10^{{{run.system.spec.log10_alpha:g}}}$" if side != "right" else _scale(run)
        at_top(axes["b"], place, text, 0.95, xytext=(0, 0), ha=side, va="baseline", fontsize=7)
    axes["b"].set_ylim(0, 1.12 * axes["b"].get_ylim()[1])


def _limit_steps(run: Run) -> tuple[list[float], list[float]]:
    """Times and levels of Algorithm 1. Stages that come in another order at this alpha are drawn as one step."""
    assert run.prediction is not None
    moments = [float(stage.extra["limit_time"]) for stage in run.prediction.stages]
    whole = [n for n in range(1, len(moments) + 1) if max(moments[:n]) <= min(moments[n:], default=np.inf)]
    return [max(moments[:n]) for n in whole], [run.prediction.levels[n] for n in (0, *whole)]


def figure_staircase(axes: Mapping[str, Any], results: Results) -> None:
    runs = _by_scale(results["limit"])
    run, panel = next(run for run in runs if run.system.spec.log10_alpha == -32), axes["a"]
    assert run.prediction is not None
    stages = run.prediction.stages
    times = [float(stage.time) for stage in stages if stage.time is not None]
    limits, levels = _limit_steps(run)
    _staircase(panel, limits, levels, color=GREY, lw=1.2, ls="--", label="Algorithm 1, α → 0")
    _staircase(panel, times, run.prediction.levels, color=ACCENT, lw=1.2, label=f"corrected, {_scale(run)}")
    _loss(panel, run, lw=1.6, label=f"flow, {_scale(run)}", zorder=3)
    span = times[-1] - limits[0]
    panel.set(xlim=(limits[0] - span / 8, times[-1] + span / 12), xlabel=RESCALED, ylabel="loss")
    heights = 0.94 * run.prediction.levels[-1], 1.03 * run.prediction.levels[0]
    finish(panel, "(a) the staircase", "lower left", ylim=heights)

    panel, places = axes["b"], [stage.extra["coordinates"][0] for stage in stages]
    at, late = np.arange(1, len(places) + 1), _lateness(run)
    look: dict[str, Any] = {"color": GREY, "mfc": "none", "ms": 5, "lw": 0.8}
    panel.plot(at, [abs(late.get(i, np.nan)) for i in places], "s--", **look, label=f"Algorithm 1, {_scale(run)}")
    small = runs[-4:]
    for each, colour in zip(small, ramp(CORRECTED, len(small)), strict=True):
        wrong = [max(_error(each).get(i, np.nan), FLOOR) for i in places]
        panel.plot(at, wrong, "o-", color=colour, ms=4, lw=0.8, label=f"corrected, {_scale(each)}")
    panel.set(yscale="log", ylabel="relative error of the time", xlabel="entry, in the order of joining")
    panel.set_xticks(at, [common.system_of(run).coordinate_name(i) for i in places], fontsize=7, rotation=45)
    panel.legend(fontsize=7, loc="center", bbox_to_anchor=(0.55, 0.62))
    finish(panel, "(b) predicted against measured")


def figure_rank(axes: Mapping[str, Any], results: Results) -> None:
    runs = sorted(results["full"], key=lambda run: run.system.spec.block or run.system.spec.dim)
    for name, kind in (("a", "VO"), ("b", "KQ")):
        panel, spectra = axes[name], [run.series(f"{kind.lower()}_values") for run in runs]
        least = SHARE * max(values[-1].max() for values in spectra)
        for run, values, colour in zip(runs, spectra, reversed(ramp(SHADES[kind], len(runs))), strict=True):
            label = BLOCKS.get(run.system.spec.block, f"blocks of {run.system.spec.block}")
            rank = (values > least).sum(axis=1)
            panel.step(run.series("time"), rank, where="post", color=colour, lw=1.6, label=label)
        panel.set(xlabel="time", xlim=(0, 1.02 * runs[-1].series("time")[-1]), ylim=(0, None))
        panel.locator_params(axis="y", integer=True)
        words = f"singular values of {PRODUCTS[kind]}\nabove {least:.2g}"
        finish(panel, f"({name}) rank of {PRODUCTS[kind]}", "upper left", ylabel=words)


def figure_leaver(axes: Mapping[str, Any], results: Results) -> None:
    run = _by_scale(results["leavers"])[-1]
    assert run.prediction is not None
    time, product = run.series("time"), run.series("product")
    exponent = run.series("log_size") / run.system.spec.log_inverse_alpha
    stages = [(float(stage.time), stage) for stage in run.prediction.stages if stage.time is not None]
    end, leaver = next((moment, stage.extra["left"][0]) for moment, stage in stages if stage.extra["left"])
    begin = next(moment for moment, stage in stages if leaver in stage.extra["coordinates"])
    low, high = product[:, leaver].min(), product[:, leaver].max()
    for panel in axes.values():
        values = exponent if panel is axes["c"] else product
        for moment, _ in stages:
            mark = {"color": ACCENT, "lw": 1.2, "ls": "--"} if moment == end else {"color": PALE, "lw": 0.8}
            panel.axvline(moment, zorder=1, **mark)
        for place, colour in {**_colours(run), leaver: ACCENT}.items():
            look = {"lw": 2.2, "zorder": 4} if place == leaver else {"lw": 1.1, "zorder": 3}
            rows = _thinned(time, values[:, place], (high - low) / FINE)
            panel.plot(time[rows], values[rows, place], color=colour, **look)
        panel.set(xlabel=RESCALED, xlim=(0, time[-1]))
    finish(axes["a"], "(a) the entries", ylabel="entries p = uv", xlim=(0.9 * stages[0][0], time[-1]))
    margin, room = 0.12 * (end - begin), 0.15 * (high - low)
    axes["b"].set(xlim=(begin - margin, end + margin), ylim=(low - room, high + room))
    finish(axes["b"], f"(b) {common.system_of(run).coordinate_name(leaver)} joins, and leaves", ylabel="entries p = uv")
    for moment, stage in stages:
        if begin < moment <= end:
            side = (4, "left") if moment < (begin + end) / 2 else (-4, "right")
            look = {"xytext": (side[0], 0), "ha": side[1], "va": "baseline", "color": "black"}
            at_top(axes["b"], moment, f"{stage.label} joins", 0.94, **look)
    finish(axes["c"], "(c) their logarithms", ylabel="log(|u| + |v|) / log(1/α)")


FIGURES = (
    Figure(
        "2",
        "One entry, one direction at a time",
        "Fig. 2",
        "One attention head with d = 50. Above, diagonal weights, flow from α = 1e-32: the entries of both products, "
        "and the loss. Below, full matrices from weights of 1e-10, gradient descent: singular values, and the loss. "
        "Shades tell single entries apart, the darkest joining first.",
        "Entries leave zero one after the other, and jump while the others rest or adjust; the loss falls at the same "
        "moments. Singular values of full matrices also rise in turn, but soon so close to each other that only the "
        "first steps of the loss stand apart.",
        ("scales", "full"),
        figure_2,
        panels=("abc", "def"),
        size=(8.4, 4.6),
    ),
    Figure(
        "6",
        "The loss becomes a staircase",
        "Fig. 6",
        "Loss of the diagonal head over rescaled time, the same initial weights scaled by six α.",
        "The smaller α, the steeper the drops, the earlier they come, and the closer the curves are to each other. At "
        "the largest α steps blur into one slide.",
        ("scales",),
        figure_6,
    ),
    Figure(
        "7",
        "Entries of W_K W_Qᵀ",
        "Fig. 7",
        "The diagonal of W_K W_Qᵀ over rescaled time, one panel per α; entries that stay below 0.001 are left out. "
        "An entry has the same shade in all panels.",
        "None grows before the first of Figure 8 has: where W_V W_Oᵀ is zero, nothing pulls at them. As α falls, rises "
        "become jumps.",
        ("scales",),
        partial(_grid, kind="KQ"),
        panels=("abc", "def"),
        size=(8.4, 4.4),
    ),
    Figure(
        "8",
        "Entries of W_V W_Oᵀ",
        "Fig. 8",
        "The diagonal of W_V W_Oᵀ in the same runs.",
        "The two largest change places: at a large alpha the smaller one leads, because its u + v was larger at the "
        "start; only as alpha falls, how fast an entry grows decides. Small bumps mark the moments when an entry of "
        "W_K W_Qᵀ jumps.",
        ("scales",),
        partial(_grid, kind="VO"),
        panels=("abc", "def"),
        size=(8.4, 4.4),
    ),
    Figure(
        "9",
        "Pushed off a plateau",
        "Fig. 9",
        "Halfway along five plateaus (α = 1e-32), normal noise of 0.05 is added to every u and v above 1e-5, as "
        "the paper does. Solid, what follows; dashed, the same without noise.",
        "Entries that had been learned return to the dashed lines. Others do not: they were above 1e-5 but still "
        "growing, the noise gives them a start, and they jump too early. So this is a test of Assumption 4.3 on the "
        "first plateaus alone.",
        ("kicks",),
        _against_undisturbed,
        panels=("abcde", "fghij"),
        size=(10.0, 4.2),
    ),
    Figure(
        "10",
        "Pushed while an entry joins",
        "Fig. 10",
        "As in Figure 9, but at the end of five plateaus, where the next entry begins to grow; noise of 0.01 is added "
        "to it and to those already learned.",
        "The same entries jump to the same values with the noise as without. Only the time differs: noise gives the "
        "joining entry a head start, or sets it back.",
        ("entries",),
        _against_undisturbed,
        panels=("abcde", "fghij"),
        size=(10.0, 4.2),
    ),
    Figure(
        "law",
        "How the limit is approached",
        "Theorem 4.5, made quantitative",
        "How much later than the time T_k of Algorithm 1 an entry passes half of its value, for the first six entries: "
        "(a) as a share of T_k over 1/log(1/α), with lines through zero and the leftmost point; (b) multiplied by "
        "log(1/α).",
        "Points on straight lines in (a), flat lines in (b): the theorem's error is C_k / log(1/α), with a constant of "
        "its own for each stage. It halves only when α is squared. A point that is missing at a large α came after the "
        "end of the run.",
        ("limit",),
        figure_law,
        panels=("ab",),
        size=(8.4, 3.4),
    ),
    Figure(
        "staircase",
        "The staircase, predicted",
        "Algorithm 1 and its correction",
        "(a) Loss of the flow at α = 1e-32, with the staircase of Algorithm 1 (α → 0) and the one corrected for this "
        "α; a step stands where the new entry passes half of its value. (b) Relative error of the times of the stages, "
        "as far as the runs have seen them.",
        "In (a) the limit comes some hundredths too early. The corrected steps stand low on each drop: when an entry "
        "has half of its value, about three quarters of the drop are over. In (b), corrected times are right to seven "
        "digits, even where stages overlap.",
        ("limit",),
        figure_staircase,
        panels=("aaabb",),
        size=(8.4, 3.6),
    ),
    Figure(
        "rank",
        "Rank grows by steps",
        "section 5, ours",
        "Number of singular values above a tenth of the largest one learned, for matrices that are diagonal, "
        "diagonal in blocks of 5, or full; weights of 1e-10, gradient descent with the same teacher.",
        "Staircases everywhere; the more weights are free, the earlier they begin and the faster they climb. Steps are "
        "longest for W_V W_Oᵀ.",
        ("full",),
        figure_rank,
        panels=("ab",),
        size=(8.4, 3.4),
    ),
    Figure(
        "leaver",
        "An entry that leaves again",
        "Algorithm 1, ours",
        "A head with d = 14 at the smallest α: (a) its entries, (b) the one that leaves, enlarged, (c) "
        "the logarithm of every entry's weights: 0 means learned, −1 is where all begin. Vertical lines: "
        "predicted times of the stages; dashed, of the one at which the entry leaves.",
        "Green: it joins, shrinks when the next one joins and vanishes with the one after that. In (c) lines are "
        "straight between stages, and the green one falls from the dashed line on; a line that turns at −1 belongs to "
        "an entry that changes its sign.",
        ("leavers",),
        figure_leaver,
        panels=("abc",),
        size=(10.0, 3.2),
    ),
)
