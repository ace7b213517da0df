"""The paper's figures, and some of our own, drawn from experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from saddlescope.core.claim import by_field
from saddlescope.core.experiment import Figure, Results
from saddlescope.core.ink import ACCENT, BLACK, BLUES, DASHES, DOTS, GREY, PALE, finish, ramp
from saddlescope.core.run import Run

from .. import prediction
from . import drawing
from .drawing import HEADS, REDS
from .measures import markov
from .measures.flow import times

MARKERS = "os^vDP"
PARTED = 0.1
"""Deviation between heads from which they are no longer together: delta of the repaired Theorem 2."""

PARTS = {
    "layer_norm": "layer norm",
    "residual": "residuals",
    "mlp": "MLP",
    "keys": "key matrix",
    "output": "output matrix",
    "embedding": "embeddings",
}
WIDE = 4
"""Panels in a row where every variant has one."""


# ---- the paper's


def figure_1(axes: Mapping[str, Any], results: Results) -> None:
    run = results["minimal"][0]
    drawing.truths(axes["a"], run, "(a) distance from the truncated truths")
    mass = run.series("mass")
    for number, name in enumerate("bcd"):
        for head in range(run.system.spec.heads):
            drawing.curve(axes[name], run, mass[:, head, number], color=drawing.head(head), label=f"head {head + 1}")
        for step in drawing.stage_steps(run):
            axes[name].axvline(step, color=PALE, lw=0.8, zorder=1)
        drawing.log_steps(axes[name], [run], 3)
        axes[name].set(ylim=(0, 1.02), ylabel=f"on I({number + 1})", yticks=(0, 0.5, 1))
        if name != "d":
            axes[name].set_xlabel("")
            axes[name].tick_params(labelbottom=False)
    axes["b"].set_title("(b) attention of each head", loc="left")
    axes["c"].legend(fontsize=7, loc="upper left")
    drawing.attention_maps(axes, run)


def figure_2(axes: Mapping[str, Any], results: Results) -> None:
    drawing.labelled_maps(axes, results["full"][0])


def figure_3(axes: Mapping[str, Any], results: Results) -> None:
    run = results["full"][0]
    drawing.truths(axes["a"], run, "(a) from the truncated truths")
    _to_contexts(axes["b"], results["contexts"], run)
    drawing.marks(axes["b"], run)
    drawing.log_steps(axes["b"], [run], 3)
    drawing.logs(axes["b"], "y", 2, 5)
    axes["b"].set_ylim(bottom=0.4 * axes["b"].dataLim.y0)  # for the legend
    finish(axes["b"], "(b) from models of restricted context", "lower left", ylabel="KL(restricted ‖ model)")


def _to_contexts(panel: Any, contexts: Sequence[Run], run: Run) -> None:
    models, colours = drawing.restricted(contexts), ramp(REDS, run.system.spec.patterns)
    for model, distance in zip(models, markov.divergences_from(run, models), strict=True):
        band = model.system.spec.restriction == "band"
        colour = colours[max(drawing.visible(model) - 1, 0)]
        label = f"c = {model.system.spec.context}" + (", masked" if band else "")
        drawing.curve(panel, run, distance, color=colour, ls=DOTS if band else "-", label=label)


def _family(panel: Any, title: str, groups: Mapping[Any, Sequence[Run]], name: str, own_levels: bool) -> None:
    """Excess losses, one colour for each value of a field; further seeds are thin."""
    for (value, runs), colour in zip(groups.items(), ramp(BLUES, len(groups)), strict=True):
        for number, run in enumerate(runs):
            look = {"lw": 0.6, "alpha": 0.7} if number else {"label": f"{name} = {value:g}"}
            drawing.excess(panel, run, color=colour, **look)
        if own_levels:
            drawing.levels(panel, runs[0], color=colour, lw=0.7, alpha=0.45)
    runs = [run for group in groups.values() for run in group]
    if not own_levels:
        drawing.levels(panel, runs[0])
    _losses(panel, title, runs)


def _losses(panel: Any, title: str, runs: Sequence[Run]) -> None:
    """Axes of excess losses over steps."""
    drawing.log_steps(panel, runs, 3)
    drawing.logs(panel, "y")
    finish(panel, title, "lower left", ylabel="excess loss")


def figure_4(axes: Mapping[str, Any], results: Results) -> None:
    scales, ratios = by_field(results["init_scales"], "init_scale"), by_field(results["ratios"], "importance_ratio")
    _family(axes["a"], "(a) initial scales", scales, "u", own_levels=False)
    _family(axes["b"], "(b) ratios of strengths", ratios, "m", own_levels=True)


def figure_5(axes: Mapping[str, Any], results: Results) -> None:
    groups = by_field(markov.unrestricted(results["sizes"]), "samples")
    runs = [group[0] for group in groups.values()]
    panel, colours = axes["a"], ramp(BLUES, len(runs))
    best = [run.series("excess").min() for run in runs]
    panel.plot(list(groups), best, color=PALE, lw=1, zorder=1)
    for count, value, colour in zip(groups, best, colours, strict=True):
        panel.plot(count, value, "o", color=colour)
    for learned, level in enumerate(drawing.plateaus(runs[0])):
        panel.axhline(level, color=ACCENT, lw=0.8, ls=DASHES, zorder=1)
        look = {"xycoords": ("axes fraction", "data"), "ha": "right", "va": "bottom", "fontsize": 8, "color": ACCENT}
        panel.annotate(f"$P_{learned}$", (1, level), **look)
    drawing.logs(panel, "x")
    drawing.logs(panel, "y", 2, 5)
    finish(panel, "(a) best loss", xlabel="training sequences", ylabel="best excess loss")
    panels = drawing.split(axes["b"], len(runs))
    for number, (panel, run) in enumerate(zip(panels, runs, strict=True)):
        _to_contexts(panel, results["sizes"], run)
        panel.axvline(run.series("step")[run.series("excess").argmin()], color=BLACK, lw=0.9, ls=DASHES)
        words = f"n = {run.system.spec.samples}"
        panel.annotate(words, (1.075, 0.5), xycoords="axes fraction", va="center", fontsize=8)
        panel.plot(1.04, 0.5, "o", color=colours[number], transform=panel.transAxes, clip_on=False)
        drawing.log_steps(panel, runs, 3)
        drawing.logs(panel, "y")
        panel.set_ylim(0.08, 3.5)  # what overfits goes on beyond
        if panel is not panels[-1]:
            panel.set_xlabel("")
            panel.tick_params(labelbottom=False)
    finish(panels[0], "(b) distance from models of restricted context", "lower right", 7)
    panels[len(panels) // 2].set_ylabel("KL(restricted ‖ model)")


def figure_6(axes: Mapping[str, Any], results: Results) -> None:
    drawing.labelled_maps(axes, drawing.fresh(results["online"]))


def figure_7(axes: Mapping[str, Any], results: Results) -> None:
    run, panel = drawing.fresh(results["online"]), axes["a"]
    repeated = next(other for other in results["online"] if not other.system.spec.fresh_data)
    free = next(other for other in results["no_decay"] if other.system.spec.weight_decay == 0)
    drawing.levels(panel, run)
    drawing.excess(panel, repeated, color=HEADS[0], ls=DASHES, label="training set", zorder=3)
    drawing.excess(panel, free, color=HEADS[1], ls=DOTS, label="training set, no weight decay", zorder=3)
    drawing.excess(panel, run, label="fresh sequences")
    _losses(panel, "(a) loss", [run])
    drawing.truths(axes["b"], run, "(b) fresh sequences")


def figure_8(axes: Mapping[str, Any], results: Results) -> None:
    drawing.labelled_maps(axes, drawing.furthest(results["reversed"])[0])


def figure_9(axes: Mapping[str, Any], results: Results) -> None:
    runs = drawing.furthest(results["reversed"])
    words = ("most important furthest", "most important nearest")
    for run, label, colour in zip(runs, words, (BLACK, HEADS[0]), strict=True):
        drawing.excess(axes["a"], run, color=colour, label=label)
        drawing.levels(axes["a"], run, color=colour, alpha=0.35)
    drawing.log_steps(axes["a"], runs, 3)
    drawing.logs(axes["a"], "y", 2, 5)
    finish(axes["a"], "(a) loss", "upper right", ylabel="excess loss")
    drawing.truths(axes["b"], runs[0], "(b) most important furthest")


def figure_10(axes: Mapping[str, Any], results: Results) -> None:
    run = results["flow"][0]
    spec, time, moments = run.system.spec, run.series("time"), times(run)
    for name, panels in (("attention", "abc"), ("value", "def")):
        for k, panel in enumerate(panels):
            for head in range(spec.heads):
                value = run.series(name)[:, head, k]
                axes[panel].plot(time, value, color=drawing.head(head), lw=1.3, label=f"head {head + 1}")
                axes[panel].plot(time[-1], value[-1], "o", color=drawing.head(head), ms=3)
    for k, (above, below) in enumerate(zip("abc", "def", strict=True)):
        axes[above].set(ylim=(-0.03, 1.03), title=f"position {k + 1}")
        axes[below].set(title=f"feature {k + 1}")
        axes[below].axhline(spec.strengths[k], color=PALE, lw=0.8, ls=DASHES, zorder=1)
    axes["a"].set_ylabel("attention $s_k$")
    axes["c"].legend(fontsize=7, loc="center", bbox_to_anchor=(0.68, 0.6))
    axes["d"].set_ylabel(r"$\langle V_k, V_j^*\rangle$")
    _loss_parts(axes["g"], run)
    for name in "abcdefg":
        for moment in moments:
            axes[name].axvline(moment, color=PALE, lw=0.8, zorder=1)
        drawing.log_time(axes[name], moments[0] / 10, 1.4 * time[-1])
    _last_stage(axes["h"], run, "attention", "position")
    _last_stage(axes["i"], run, "value", "feature")
    axes["i"].set_xlabel("time from $t_3$")


def _last_stage(panel: Any, run: Run, name: str, word: str) -> None:
    """What all heads do at the last position and at the first while the last pattern is learned."""
    time, last = run.series("time"), times(run)[-1]
    after = time[-1] - last
    for head in range(run.system.spec.heads):
        for k, dashes in ((run.system.spec.patterns - 1, "-"), (0, DASHES)):
            panel.plot(time - last, run.series(name)[:, head, k], color=drawing.head(head), lw=1.2, ls=dashes)
    for label, dashes in (("3", "-"), ("1", DASHES)):
        panel.plot([], [], color=GREY, lw=1.3, ls=dashes, label=f"{word} {label}")
    panel.set(title=f"last stage, {word}s", xlim=(-2 * after, after))
    panel.legend(fontsize=7, loc="center left" if name == "attention" else "upper left")


def _loss_parts(panel: Any, run: Run) -> None:
    """½ R_ji² of feature j at position i, in the colour of the head that looks at position j in the end."""
    time, parts, patterns = run.series("time"), run.series("loss_parts"), run.system.spec.patterns
    owners = run.series("attention")[-1, :, :patterns].argmax(0)
    for j, owner in enumerate(owners.tolist()):
        panel.plot(time, parts[:, j, j], color=drawing.head(owner), lw=1.6, label=f"({j + 1}, {j + 1})")
        panel.plot(time, parts[:, j].sum(-1) - parts[:, j, j], color=drawing.head(owner), lw=1, ls=DOTS)
    panel.plot([], [], color=GREY, lw=1, ls=DOTS, label="(j, elsewhere)")
    panel.plot(time, run.series("loss"), color=BLACK, lw=1, label="all")
    drawing.logs(panel, "y")
    panel.set(ylabel="loss by (feature, position)", ylim=(1e-2, None))
    panel.legend(fontsize=8, loc="lower right", bbox_to_anchor=(0.92, 0.02))


# ---- ours


def figure_levels(axes: Mapping[str, Any], results: Results) -> None:
    runs, panel = results["minimal"], axes["a"]
    first = runs[0]
    for learned, level in enumerate(drawing.plateaus(first)[1:], start=1):
        panel.axhline(level, color=ACCENT, lw=1.2, zorder=1)
        panel.axhline(markov.truncated_excess(first, learned), color=GREY, lw=1, ls=DOTS, zorder=1)
    for run in runs:
        drawing.excess(panel, run, lw=1)
    panel.plot([], [], color=BLACK, lw=1, label="minimal model")
    panel.plot([], [], color=ACCENT, lw=1.2, label="$P_i$, convex")
    panel.plot([], [], color=GREY, lw=1, ls=DOTS, label="truncated truth")
    _losses(panel, "(a) the curve", runs)

    panel = axes["b"]
    # With m = 1 no interval is the first, and P_1 and P_2 are not what the model must pass.
    found = [run for run in [*runs, *results["ratios"]] if run.system.spec.importance_ratio > 1]
    for run in (one for one in found if markov.separation(one) <= markov.PLATEAU):
        for learned, level in enumerate(drawing.plateaus(run)[1:], start=1):
            look = {"marker": MARKERS[learned % len(MARKERS) - 1], "ls": "", "ms": 5}
            panel.plot(level, markov.plateau_level(run, learned), color=BLACK, **look)
            panel.plot(level, markov.truncated_excess(run, learned), color=GREY, mfc="none", **look)
    lowest, highest = (pick(pick(drawing.plateaus(run)[1:]) for run in found) for pick in (min, max))
    ends = [0.8 * lowest, 1.25 * highest]
    panel.plot(ends, ends, color=ACCENT, lw=1, zorder=1)
    panel.plot([], [], "s", color=BLACK, ms=5, label="plateau")
    panel.plot([], [], "s", color=GREY, mfc="none", ms=5, label="truncated truth")
    for which in "xy":
        drawing.logs(panel, which, 2, 3, 5)
    words = "(b) circles $i=1$, squares $i=2$"
    finish(panel, words, "upper left", xlabel="predicted $P_i$", ylabel="excess loss")


def figure_approach(axes: Mapping[str, Any], results: Results) -> None:
    panel, runs = axes["a"], results["together"]
    for run, colour in zip(runs, HEADS, strict=False):
        assert run.prediction is not None
        spec, time = run.system.spec, run.series("time")
        above = run.series("loss") - run.prediction.levels[1]
        panel.plot(time[1:], (above * time)[1:], color=colour, lw=1.4, label=f"T = {spec.positions}, H = {spec.heads}")
        constant = prediction.approach_constant(spec.positions, spec.heads)
        panel.axhline(constant, color=colour, lw=0.9, ls=DASHES, zorder=1)
    drawing.log_time(panel, 1.0, max(run.series("time")[-1] for run in runs))
    drawing.logs(panel, "y")
    panel.set(ylabel="$(L - L_1)\\,t$", ylim=(0.1, None))
    panel.legend(fontsize=8)


def figure_map(axes: Mapping[str, Any], results: Results) -> None:
    panel = axes["a"]
    groups = by_field(results["opposed"], "importance_ratio")
    patterns = results["opposed"][0].system.spec.patterns
    colours = ramp(REDS, patterns)
    for height, runs in enumerate(groups.values()):
        runs = sorted(runs, key=lambda run: -run.system.spec.init_value)
        sizes = np.array([-run.system.spec.init_value for run in runs])
        ends = np.array([run.series("attention")[-1, 0, :patterns].argmax() for run in runs])
        for k in range(patterns):
            panel.plot(sizes[ends == k], np.full((ends == k).sum(), height), "o", color=colours[k], ms=5)
        for place in np.flatnonzero(np.diff(ends)):
            critical = np.sqrt(sizes[place] * sizes[place + 1])
            panel.plot([critical] * 2, [height - 0.35, height + 0.35], color=BLACK, lw=1.2)
    for k, colour in enumerate(colours, start=1):
        panel.plot([], [], "o", color=colour, ms=5, label=f"pattern {k}")
    drawing.logs(panel, "x")
    panel.set_xlabel(r"$c$ in $V(0) = -c \sum_j V_j^*$")
    panel.set(ylabel="ratio m of strengths", ylim=(-0.6, len(groups) - 0.4))
    panel.set_yticks(range(len(groups)), [f"{ratio:g}" for ratio in groups])
    panel.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=patterns)


def _problem(run: Run) -> tuple[int, int, float]:
    spec = run.system.spec
    return spec.positions, spec.heads, spec.importance_ratio


def figure_apart(axes: Mapping[str, Any], results: Results) -> None:
    _deviations(axes["a"], results["apart"])
    _growths(axes["b"], results["growth"])
    _partings(axes["c"], results["apart"])


def _deviations(panel: Any, runs: Sequence[Run]) -> None:
    """Of one problem, the paper's, from several distances; with both windows in which Theorem 2 is to bound them."""
    same = [run for run in runs if _problem(run) == _problem(runs[0])]
    groups = by_field(same, "init_noise")
    for (noise, group), colour in zip(groups.items(), ramp(BLUES, len(groups)), strict=True):
        run = group[0]
        time, apart = run.series("time"), run.series("deviation")
        size, rate = apart[0], max(run.system.spec.strengths)
        panel.plot(time[1:], apart[1:], color=colour, lw=1.3, label=f"$10^{{{np.log10(noise):.0f}}}$")
        for window, marker in ((1 / (rate * np.log(1 / size)), "x"), (np.log(PARTED / size) / rate, "o")):
            panel.plot(window, np.interp(window, time, apart), marker, color=colour, ms=5, zorder=4)
    for marker, label in (("x", "printed window"), ("o", r"$\log(\delta/\varepsilon)/c_1$")):
        panel.plot([], [], marker, color=GREY, ms=5, ls="", label=label)
    panel.axhline(PARTED, color=PALE, lw=0.8, ls=DASHES, zorder=1)
    drawing.log_time(panel, 1e-3, max(run.series("time")[-1] for run in same))
    drawing.logs(panel, "y")
    finish(panel, "(a) how long together", ylabel="deviation between heads", ylim=(None, 1e5))
    panel.legend(fontsize=7, loc="upper left", ncols=2, columnspacing=1)


def _growths(panel: Any, runs: Sequence[Run]) -> None:
    groups = by_field(runs, "base_scale")
    for (scale, group), colour in zip(groups.items(), ramp(REDS, len(groups)), strict=True):
        for number, run in enumerate(group):
            time, apart = run.series("time"), run.series("deviation")
            label = None if number else f"$b_0$ = {scale:g}"
            panel.plot(time[1:], apart[1:] / apart[0], color=colour, lw=1, label=label)
        rate = max(group[0].system.spec.strengths)
        grid = np.geomspace(1e-2, 1e3, 200)
        panel.plot(grid, np.exp(np.minimum(rate * grid, 40)), color=colour, lw=0.8, ls=DASHES)
    drawing.log_time(panel, 1e-2, max(run.series("time")[-1] for run in runs))
    drawing.logs(panel, "y")
    finish(panel, "(b) how fast they part", "upper left", 7, ylabel="deviation / ε", ylim=(0.5, 1e6))


def _partings(panel: Any, runs: Sequence[Run]) -> None:
    problems: dict[tuple[int, int, float], list[Run]] = {}
    for run in runs:
        problems.setdefault(_problem(run), []).append(run)
    for ((positions, heads, ratio), group), colour in zip(problems.items(), HEADS, strict=False):
        scale = np.array([np.log(1 / run.system.spec.init_noise) for run in group])
        root = np.sqrt([times(run)[1] for run in group])
        label = f"T = {positions}, H = {heads}, m = {ratio:g}"
        panel.plot(scale, root, "o", color=colour, ms=4, label=label)
        slope = prediction.competition_slope(group[0].system.spec)
        ends = np.array([scale.min() - 2, scale.max() + 2])
        panel.plot(ends, np.nanmean(root - slope * scale) + slope * ends, color=colour, lw=1, ls=DASHES)
    finish(panel, "(c) when they have parted", "upper left", 7, xlabel="log(1/ε)", ylabel=r"$\sqrt{t_2}$")


def _removed(run: Run) -> list[str]:
    return [words for name, words in PARTS.items() if not getattr(run.system.spec, name)]


def figure_removals(axes: Mapping[str, Any], results: Results) -> None:
    # The whole model is the one with dropout, where there are two that lack no other part.
    whole = max((run for run in results["removals"] if not _removed(run)), key=lambda run: run.system.spec.dropout)
    runs = [run for run in results["removals"] if run is not whole]
    panels = drawing.split(axes["a"], -(-len(runs) // WIDE), WIDE)
    for panel in panels[len(runs) :]:
        panel.set_visible(False)
    for number, (panel, run) in enumerate(zip(panels, runs, strict=False)):
        gone = _removed(run)
        drawing.levels(panel, run, color=ACCENT)
        drawing.excess(panel, whole, color=PALE, lw=1.6)
        drawing.excess(panel, run)
        drawing.log_steps(panel, runs)
        drawing.logs(panel, "y")
        panel.set_ylim(0.03, 4)
        panel.set_title("without all of them" if len(gone) == len(PARTS) else f"without {''.join(gone) or 'dropout'}")
        panel.title.set_fontsize(8)
        if number % WIDE:
            panel.tick_params(labelleft=False)
        else:
            panel.set_ylabel("excess loss")
        if number + WIDE < len(panels):
            panel.set_xlabel("")
            panel.tick_params(labelbottom=number + WIDE >= len(runs))


def figure_many(axes: Mapping[str, Any], results: Results) -> None:
    run, panel = results["many"][0], axes["a"]
    residual, strengths = run.series("residual"), np.array(run.system.spec.strengths)
    for k, colour in enumerate(ramp(REDS, len(strengths))):
        panel.plot(run.series("time"), 1 - residual[:, k], color=colour, lw=1)
    panel.set(xlabel="time", xlim=(0, run.series("time")[-1]))
    finish(panel, "(a) pattern by pattern", ylabel="share of the pattern that is learned", ylim=(-0.1, 1.1))
    panel = axes["b"]
    for number, run in enumerate(results["many"]):
        order = list(run.system.spec.by_importance)
        look = {"color": drawing.head(number), "ms": 4, "label": f"seed {run.seed}"}
        panel.plot(strengths[order], times(run), "ox"[number % 2], **look)
    ends = strengths[[order[0], order[np.isfinite(times(run)).sum() - 1]]]
    panel.plot(ends, times(run)[0] * ends[0] / ends, color=PALE, lw=1, zorder=1, label=r"$\propto 1/m_k$")
    for which in "xy":
        drawing.logs(panel, which, 2, 5)
    finish(panel, "(b) when", "best", xlabel="strength $m_k$", ylabel="time of the stage")


STRIP: dict[str, Any] = {"panels": ("0123",), "size": (8.4, 2.3)}
PAIR: dict[str, Any] = {"panels": ("ab",), "size": (8.4, 3.4)}

FIGURES = (
    Figure(
        "1",
        "From competition to cooperation",
        "Fig. 1, bottom",
        "The minimal model. (a) Its KL divergence from truths that know the first i intervals alone. Lines: stages, "
        "where the excess loss passes the geometric mean of two predicted plateaus. (b) Attention of each head on each "
        "interval, averaged over queries. Below, attention maps added up in the colours of the heads, at the start and "
        "where the model is nearest to each truncated truth; the numbers stand at the diagonals of I(1), I(2), I(3).",
        "Each curve of (a) is the lowest for a while, in turn. All three heads first go to I(1), where their colours "
        "add up to black; then one leaves for I(2), and later another for I(3), with part of its attention left on "
        "I(1). At the paper's size training ends within the third stage.",
        ("minimal",),
        figure_1,
        panels=("aaaaaabbbbbb", "aaaaaacccccc", "aaaaaadddddd", "000111222333", "000111222333"),
        size=(8.4, 6.0),
    ),
    Figure(
        "2",
        "Attention of the full model",
        "Fig. 2",
        "Attention maps of a decoder block, averaged over test sequences and added up in the colours of the heads, at "
        "the start and where the model is nearest to each truncated truth; numbers stand at the diagonals of I(1), "
        "I(2), I(3).",
        "Dark diagonals in I(1) first: heads compete. Then one of them takes I(2), and another I(3). The outermost "
        "diagonal stays pale, since residuals bring the last token to the output without attention.",
        ("full",),
        figure_2,
        **STRIP,
    ),
    Figure(
        "3",
        "Nearest to shorter contexts first",
        "Fig. 3",
        "The full model over training. (a) KL divergence from truths that know the first i intervals alone. (b) KL "
        "divergence from models that were trained on windows of the last c tokens (at the quick size none is as long "
        "as all intervals), each at its best, over 100 contexts. Dotted, at the paper's size: a mask in place of "
        "windows.",
        "The same picture twice: the model comes nearest to the shortest context, then to the next, and so on, though "
        "never very near. At the paper's size it moves away from all of them in the end: the training set is learned "
        "by heart.",
        ("full", "contexts"),
        figure_3,
        **PAIR,
    ),
    Figure(
        "4",
        "Initial scale, and strengths",
        "Fig. 4",
        "Excess loss of the minimal model (a) with attention logits drawn from [−u, u], (b) with ratios m between the "
        "strengths of patterns. Faint lines: predicted plateaus P_1 and P_2, in (b) in the colour of their m; thin "
        "curves: another seed.",
        "Smaller u, longer plateaus; with u = 0 heads stay alike, and the first plateau is never left. With m = 1 "
        "heads share out the intervals at once, in one drop; the larger m, the longer the plateaus. With m = 1.3 drops "
        "may run into each other.",
        ("init_scales", "ratios"),
        figure_4,
        **PAIR,
    ),
    Figure(
        "5",
        "Fewer sequences, fewer stages",
        "Fig. 5",
        "The full model trained on n sequences. (a) Its least excess loss; dashed, the predicted plateaus, P_0 where "
        "nothing is learned. (b) KL divergence from models of the last c tokens over training; dashed, the step with "
        "the least excess loss.",
        "The fewer sequences, the fewer plateaus the loss gets below, and the fewer curves of (b) have had their "
        "minimum before the dashed line. The best loss falls smoothly with n, without steps at the plateaus.",
        ("sizes",),
        figure_5,
        panels=("aabbb",),
        size=(8.4, 5.4),
    ),
    Figure(
        "6",
        "Attention without repetition",
        "Fig. 6",
        "Attention maps of the minimal model as in Figure 1, trained on fresh sequences at every step.",
        "The diagonals of Figure 1: black on I(1), then one head on I(2), then one on I(3).",
        ("online",),
        figure_6,
        **STRIP,
    ),
    Figure(
        "7",
        "Loss without repetition",
        "Fig. 7, section C.5",
        "(a) Excess loss of the minimal model on fresh sequences; on a training set, from the same weights; and on "
        "the training set without weight decay. Faint lines: predicted plateaus. (b) KL divergence from the truncated "
        "truths, fresh sequences.",
        "Three curves in one, but for the ends of plateaus, where a training set costs a little, and for small "
        "differences in the time of the last drop.",
        ("online", "no_decay"),
        figure_7,
        **PAIR,
    ),
    Figure(
        "8",
        "Attention in reverse order",
        "Fig. 8",
        "Attention maps of the full model as in Figure 2, where the most important interval is the furthest and the "
        "shortest.",
        "All heads first go to I(1), though it is the furthest; then one goes to I(2). None goes to I(3), the nearest "
        "and longest, whose single tokens matter least: at neither size is it learned.",
        ("reversed",),
        figure_8,
        **STRIP,
    ),
    Figure(
        "9",
        "Loss in reverse order",
        "Fig. 9",
        "(a) Excess loss of the full model where the most important interval is the furthest, or with the same "
        "lengths the nearest; faint lines, predicted plateaus of both. (b) KL divergence from the truncated truths for "
        "the first.",
        "A flat first plateau where the most important interval is the furthest, a bend at most where it is the "
        "nearest. In (b), the model is first near the truth that knows I(1) alone, then near that of I(1) and I(2); "
        "the third stage is missing.",
        ("reversed",),
        figure_9,
        **PAIR,
    ),
    Figure(
        "10",
        "The regression flow",
        "Fig. 10",
        "Flow with T = 40, b0 = 10, m = 1.7. Above, attention of each head on the positions that matter; then the "
        "coefficients of its values along the features, dashed the strength m_j; right, both during the last stage. "
        "Below, the loss by feature and position, in the colour of the head that ends at the feature's position; "
        "dotted, the same feature at all other positions. Vertical lines: stages; dots: the end.",
        "All three heads go to position 1, until one of them turns to position 2. Much later another turns to position "
        "3 but keeps about half of its attention on position 1, so that it needs twice the value; with a negative "
        "value, the head that stays offsets what this adds there.",
        ("flow",),
        figure_10,
        panels=("abch", "defi", "gggg", "gggg"),
        size=(10.0, 7.2),
    ),
    Figure(
        "levels",
        "Where the plateaus are",
        "section 2, ours",
        "(a) Excess loss of the minimal model from several weights, with the least that a softmax regression on the "
        "first i intervals can reach (P_i) and that of the truncated truths of Eq. (3). (b) Excess loss where the "
        "curve is flattest between two stages, over P_i, for m from 1.3 to 1.7; runs whose first two stages overlap "
        "are left out.",
        "Plateaus lie on P_i or a little above it, where a stage has not come to its end or the training set costs "
        "something, and below the truncated truths: a model takes missing intervals for unknown, not for silent.",
        ("minimal", "ratios"),
        figure_levels,
        **PAIR,
    ),
    Figure(
        "approach",
        "How the symmetric flow ends",
        "Theorem 1, made quantitative",
        "Loss above that of the end, times time, for heads that start alike at V = 0 and uniform attention (b0 = 1, "
        "m = 1.7); dashed, H (T − 1) / (4 T).",
        "After the drop, curves settle on the dashed lines: the fixed point of Eq. (7) is approached as 1/t, at a "
        "pace in which strengths do not count.",
        ("together",),
        figure_approach,
    ),
    Figure(
        "map",
        "Where Theorem 1 holds",
        "Theorem 1, Eq. (6)",
        "The pattern at which heads that start alike end, from uniform attention and V(0) opposed to all features "
        "equally: Eq. (6) holds with equality. Bars: between two starts that end at different patterns.",
        "For large c the theorem's conclusion fails: heads end at the second or third pattern, except where strengths "
        "are nearly equal. Otherwise the critical c is between 7 and 15; for large m a second border, beyond which "
        "heads end at the third pattern, is close behind.",
        ("opposed",),
        figure_map,
    ),
    Figure(
        "apart",
        "How long heads stay together",
        "Theorem 2",
        "(a) Deviation of heads from their mean, for logits that start with noise of several sizes (T = 40, H = 3, "
        "m = 1.7, b0 = 1); crosses, end of the printed window 1/(c_1 log(1/ε)) with c_1 = m_1; dots, log(δ/ε)/c_1 with "
        "δ = 0.1, the dashed line. (b) Deviation over that of the start, for three b0; dashed, exp(m_1 t). (c) Square "
        "root of the time of the second stage over the size ε of the noise; dashed, lines with the slope of "
        "t_2 ~ T (m_1² − m_2²) log²(1/ε) / (4 H m_2²).",
        "The printed window shrinks with ε and ends before anything has moved; the repaired one grows, and still ends "
        "long before heads part. The rate in (b) grows with b0, so that no constant is universal. In (c), points along "
        "lines of the predicted slope.",
        ("apart", "growth"),
        figure_apart,
        panels=("abc",),
        size=(10.0, 3.4),
    ),
    Figure(
        "removals",
        "Parts of the architecture",
        "section C.1",
        "Excess loss of the full model with one part removed (black), and with none (grey). Pink: predicted plateaus "
        "P_1 and P_2. Without all parts, training is longer, and at the quick size faster.",
        "Not every part may go: without a key matrix training stops before the third drop, at the paper's size before "
        "the second; without an output matrix before the third; and at the paper's size, without dropout, the training "
        "set is learned by heart before the third.",
        ("removals",),
        figure_removals,
        size=(8.4, 4.2),
    ),
    Figure(
        "many",
        "Many patterns",
        "section 3, ours",
        "Flow with 10 patterns and heads at the quick size, 50 at the paper's, in the lumped form. (a) Share of each "
        "pattern that is learned, the strongest darkest. (b) Time of each stage over the strength of its pattern, as "
        "far as runs have seen them; grey, a law of 1/m_k through the first.",
        "A staircase in the order of strengths, without overlap. Times grow somewhat faster than 1/m_k, and hardly "
        "depend on the seed.",
        ("many",),
        figure_many,
        **PAIR,
    ),
)
