"""The paper's figures, and some of our own, drawn from experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from saddlescope.core.claim import by_field
from saddlescope.core.experiment import Figure, Results
from saddlescope.core.ink import BLACK, GREY
from saddlescope.core.run import Run

from .. import prediction
from .measures import common, growth, landscape, prompts, sweeps

BLUES = ("#08306b", "#2171b5", "#6baed6", "#74a9a1", "#9e9ac8")
SHOWN = 6
"""Seeds that are drawn, as in the paper."""

LOG_TIME = "time (log)"

BESIDE = {(0, 3): -9, (1, 3): -9, (0, 1, 2, 3): 13}
"""How high above its point the name of a fixed point stands that would lie on another: {1,4} beside {2,3}, say."""


def _levels(axes: Any, run: Run) -> None:
    """The plateau losses of Eq. (5), dashed."""
    for count in range(run.system.spec.stage_count + 1):
        axes.axhline(common.theory_level(run, count), color=GREY, lw=0.7, ls="--", zorder=1)


def _losses(axes: Any, runs: Sequence[Run]) -> None:
    """Loss over log-time, with the levels, from the decade of the first drop on: before it nothing happens."""
    _levels(axes, runs[0])
    begins, ends = [], []
    for run in runs[:SHOWN]:
        time, loss = run.series("time"), run.series("loss")
        axes.plot(time[1:], loss[1:], color=BLACK, lw=1.0, alpha=0.8)
        begins.append(run.stages[0].time if run.stages else time[1])
        ends.append(time[-1])
    _log_time(axes, min(begins) / 2, max(ends))
    axes.set(ylabel="loss", ylim=(0, None))


def _log_time(axes: Any, begin: float, end: float) -> None:
    """Whole decades, labelled at powers of ten alone: the labels between would overlap."""
    axes.set_xscale("log")
    axes.set_xlim(10 ** np.floor(np.log10(begin)), 10 ** np.ceil(np.log10(end)))
    axes.tick_params(axis="x", which="minor", labelbottom=False)
    axes.set_xlabel(LOG_TIME)


def _by_rank(axes: Mapping[str, Any], results: Results, ranks: Sequence[int]) -> None:
    """One panel for each of these ranks."""
    (runs,) = results.values()
    for (name, panel), rank in zip(axes.items(), ranks, strict=True):
        _losses(panel, by_field(runs, "rank").get(rank, []))
        panel.set_title(f"R = {rank}")
        if name != "a":
            panel.set_ylabel("")


def figure_1(axes: Mapping[str, Any], results: Results) -> None:
    trained, flowed = results["training"], results["staircase"][0]
    _losses(axes["a"], trained)
    axes["a"].set_title("(a) six runs of gradient descent")

    theory, panel = common.theory_of(flowed), axes["b"]
    for number, rise in enumerate(growth.growths(flowed)):
        share = rise.value / rise.final
        middle = np.interp(0.5, share, rise.time)
        rows = (share > 0.03) & (rise.time < middle + 0.4 / theory.eigenvalues[rise.mode] ** 2 + 40)
        panel.plot(rise.time[rows] - middle, rise.value[rows], color=BLUES[number], lw=2.2, alpha=0.55)
        curve = growth.aligned_curve(rise, theory, np.linspace(0.03, 0.9999, 400))
        panel.plot(*curve, "--", color=BLUES[number], lw=1.2, label=f"head of e{rise.mode + 1}")
    panel.set(xlabel="time from the middle of the drop", ylabel="|v|", xlim=(-400, 150))
    panel.set_title("(b) growing values: flow; dashed: Eq. (7)")
    panel.legend(fontsize=7)

    for plateau in common.plateaus(flowed):
        panel = axes[str(plateau.learned)]
        image = flowed.series("key")[plateau.row][:, 0]
        panel.imshow(image, cmap="RdBu_r", vmin=-2, vmax=2, aspect="equal")
        panel.set_title(f"{'' if plateau.learned else '(c) '}plateau {plateau.learned + 1}")
        panel.set_xticks(range(image.shape[1]), [f"e{d + 1}" for d in range(image.shape[1])], fontsize=7)
        panel.set_yticks(range(len(image)), [f"k{h + 1}" for h in range(len(image))], fontsize=7)
        panel.spines[:].set_visible(False)


def figure_3(axes: Mapping[str, Any], results: Results) -> None:
    panel = axes["a"]
    for run in results["softmax"][:SHOWN]:
        panel.plot(run.series("time")[1:], run.series("loss")[1:], color=BLACK, lw=1.0, alpha=0.8)
    _log_time(panel, 10, results["softmax"][0].series("time")[-1])
    panel.set_ylabel("loss")


def figure_4(axes: Mapping[str, Any], results: Results) -> None:
    panel = axes["a"]
    groups = by_field(results["scales"], "init_scale")
    for number, (scale, runs) in enumerate(groups.items()):
        shade = 0.12 + 0.76 * number / (len(groups) - 1)
        color = (shade, 0.25, 1 - shade)
        time, loss = runs[0].series("time"), runs[0].series("loss")
        panel.plot(time[1:], loss[1:], color=color, lw=1.2, label=f"{scale:g}")
        axes["b"].plot(scale, np.median([common.concave_share(run) for run in runs]), "o", color=color)
    _levels(panel, next(iter(groups.values()))[0])
    _log_time(panel, 1e-2, 1e6)
    panel.set(ylabel="loss", ylim=(0, None))
    panel.legend(title="initial scale", fontsize=7, title_fontsize=7, loc="lower left")
    axes["b"].set_xscale("log")
    axes["b"].set(xlabel="initial scale", ylabel="share of the fall\nmade while speeding up", ylim=(-0.03, 1))


def figure_5(axes: Mapping[str, Any], results: Results) -> None:
    _losses(axes["a"], results["next_token"])


def figure_6(axes: Mapping[str, Any], results: Results) -> None:
    run, panel = results["staircase"][0], axes["a"]
    _losses(panel, [run])
    for number, stage in enumerate(run.stages, start=1):
        panel.axvline(stage.time, color="#D55E00", lw=0.8)
        panel.annotate(f"$t_{number}$", (stage.time, 1.02), xycoords=("data", "axes fraction"), ha="center")


def figure_7(axes: Mapping[str, Any], results: Results) -> None:
    for above, below, rank in zip("abc", "def", (2, 3, 4), strict=True):
        run = by_field(results["pairs"], "rank")[rank][0]
        _losses(axes[above], [run])
        axes[above].set(title=f"R = {rank}", xlabel="")
        for head, value in enumerate(np.abs(run.series("value")).T):
            axes[below].plot(run.series("time")[1:], value[1:], color=BLUES[head], lw=1.2, label=f"head {head + 1}")
        _log_time(axes[below], *axes[above].get_xlim())
        axes[below].set(ylabel="|v| of each head" if rank == 2 else "")
        if rank > 2:
            axes[above].set_ylabel("")
    axes["f"].legend(fontsize=7)


def figure_curvature(axes: Mapping[str, Any], results: Results) -> None:
    run = next(run for run in results["landscape"] if run.system.spec.dim == 4 and run.system.spec.rank == 1)
    theory, panel = common.theory_of(run), axes["a"]
    visited = []
    for learned, point in landscape.fixed_points(run):
        loss = prediction.fixed_point_loss(*theory, learned)
        rate = max(landscape.growth_rate(run, point), 0.0)
        first = learned == tuple(range(len(learned)))
        visited += [(loss, rate)] if first else []
        panel.plot(loss, rate, "o" if first else "x", color="#0072B2" if first else BLACK, ms=6, zorder=3)
        name = "{" + ",".join(str(d + 1) for d in learned) + "}" if learned else "∅"
        beside = (4, BESIDE.get(learned, 5))
        panel.annotate(name, (loss, rate), textcoords="offset points", xytext=beside, fontsize=7, color=GREY)
    panel.plot(*np.array(visited).T, color="#0072B2", lw=1, alpha=0.6)
    panel.set(xlabel="loss of the fixed point", ylabel="largest growth rate", xlim=(1.05, 0.02))


def figure_durations(axes: Mapping[str, Any], results: Results) -> None:
    groups = by_field(results["durations"], "init_scale")
    factors = {scale: np.array([growth.printed_durations(run)[0] for run in runs]) for scale, runs in groups.items()}
    scales = list(factors)
    table = np.array(list(factors.values()))  # (scale, seed)
    axes["a"].plot(scales, table, color=GREY, lw=0.6, alpha=0.7)
    axes["a"].plot(scales, np.median(table, axis=1), "o-", color=BLACK, label="median")
    axes["a"].axhline(1, color="#D55E00", lw=1, ls="--", label="exact")
    axes["a"].set(xscale="log", yscale="log", xlabel="initial scale", ylabel="printed / true $t_1$", title="Eq. (38)")
    axes["a"].legend(fontsize=7)
    for scale, runs in groups.items():
        errors = np.concatenate([common.stage_time_errors(run) for run in runs]) + 1e-12
        axes["b"].plot([scale] * len(errors), errors, "_", color=GREY, alpha=0.5)
        axes["b"].plot(scale, np.median(errors), "o", color=BLACK)
    axes["b"].set(xscale="log", yscale="log", xlabel="initial scale", ylabel="relative error of every $t_m$")
    axes["b"].set_title("stage algorithm")


def figure_spread(axes: Mapping[str, Any], results: Results) -> None:
    times = np.array([common.drop_times(run) for run in results["ensemble"]])
    panel = axes["a"]
    edges = np.geomspace(times.min() * 0.9, times.max() * 1.1, 70)
    for number, moments in enumerate(times.T):
        panel.hist(moments, bins=edges, color=BLUES[number], alpha=0.6, label=f"$t_{number + 1}$")
    _log_time(panel, edges[0], edges[-1])
    panel.set(ylabel="seeds", title="times of the drops")
    panel.legend()
    lengths = [common.durations(run) for run in results["ensemble"]]
    axes["b"].boxplot(np.array(lengths), showfliers=False, medianprops={"color": BLACK})
    axes["b"].set(yscale="log", xlabel="plateau", ylabel="duration", title="durations of the plateaus")


def figure_blocks(axes: Mapping[str, Any], results: Results) -> None:
    panel = axes["a"]
    for number, (count, (run, *_)) in enumerate(by_field(results["blocks"], "sequences").items()):
        panel.plot(run.series("time")[1:], run.series("stray")[1:], color=BLUES[number], label=f"P = {count}")
    mirrored = results["mirrored_blocks"][-1]
    stray = np.maximum(mirrored.series("stray")[1:], 1e-18)
    label = f"P = {mirrored.system.spec.sequences}, mirrored"
    panel.plot(mirrored.series("time")[1:], stray, color="#D55E00", lw=1.2, label=label)
    panel.set(yscale="log", ylabel="norm of the blocks that start at zero")
    _log_time(panel, 1, max(run.series("time")[-1] for run in results["blocks"]))
    panel.legend(fontsize=7)


def figure_regression(axes: Mapping[str, Any], results: Results) -> None:
    panel = axes["a"]
    for label, measure, marker, color in (
        ("principal component\nregression, plateaus 2 to 5", prompts.distance_from_regression, "o", "#0072B2"),
        ("least squares, at the end", prompts.distance_from_least_squares, "s", "#D55E00"),
    ):
        lengths, distances = np.array(sweeps.against(results["context"], "context_length", measure)).T
        panel.plot(lengths, distances, marker, color=color, label=label)
        panel.plot(lengths, distances[-1] * np.sqrt(lengths[-1] / lengths), "--", color=color, lw=0.8)
    panel.set(xscale="log", yscale="log", xlabel="context length N", ylabel="rms distance / rms of the answers")
    panel.legend(fontsize=7, title="distance of the network from", title_fontsize=7, loc="lower left")


ROW: dict[str, Any] = {"panels": ("abcd",), "size": (10.0, 2.8)}

FIGURES = (
    Figure(
        "1",
        "One eigenvector at a time",
        "Fig. 1",
        "(a) Loss of six networks trained by gradient descent from different small weights; dashed, the plateau "
        "losses of Eq. (5). (b) The value of each head while it grows (flow, init_scale 0.001), each shifted to the "
        "middle of its own drop; dashed, the scalar equation (7). (c) The keys of the four heads, in the "
        "eigenbasis of Λ, on each plateau of the same run.",
        "Four drops in every run, each between two dashed lines. In (c), a new row lights up at every plateau, in one "
        "column only, from left to right; blue and red are the signs of the key.",
        ("training", "staircase"),
        figure_1,
        panels=("aaaaabbbbb", "aaaaabbbbb", "0011223344"),
        size=(8.4, 5.4),
    ),
    Figure(
        "2",
        "Plateaus at every R-th level",
        "Fig. 2",
        "Loss with key and query of rank R = 1, 2, 4, 8; D = 8, eigenvalues proportional to 1/d, nine heads, "
        "init_scale 0.01; six seeds, one at quick size. Dashed: the nine plateau losses.",
        "Long plateaus at the levels 0, R, 2R, ...; the levels between are passed in one slide. With R = 1 single runs "
        "may hurry past a level.",
        ("ranks",),
        partial(_by_rank, ranks=(1, 2, 4, 8)),
        **ROW,
    ),
    Figure(
        "3",
        "Softmax attention",
        "Fig. 3",
        "Loss of softmax attention with rank-one heads, trained by gradient descent on a fixed set of prompts.",
        "Several drops with slow phases between them, as in linear attention, though no theory says where.",
        ("softmax",),
        figure_3,
    ),
    Figure(
        "4",
        "From rich to lazy",
        "Fig. 4",
        "Left: loss of one seed from six initial scales. Right: the share of its fall that the loss makes while it "
        "falls ever faster, the median over seeds: above one half for sigmoid drops, zero for exponential decay.",
        "Every plateau shortens as the scale grows. Between scales 1 and 4 the share falls to zero: the curve bends "
        "one way only, and what is left of the steps are exponentials with different rates.",
        ("scales",),
        figure_4,
        panels=("aaab",),
        size=(8.4, 3.4),
    ),
    Figure(
        "5",
        "Contexts of every length",
        "Fig. 5",
        "Loss of next-token prediction, contexts of 1 to 31 pairs; dashed, Eq. (12), which knows the lengths through "
        "E(1/N) = 0.1299 alone.",
        "The staircase of Fig. 1 at other levels, which the dashed lines meet.",
        ("next_token",),
        figure_5,
    ),
    Figure(
        "6",
        "When a drop has happened",
        "Fig. 6",
        "One run with the times t_1 to t_4 of its drops: where the loss crosses the midpoint of two plateaus.",
        "Each line stands in the middle of its drop.",
        ("staircase",),
        figure_6,
    ),
    Figure(
        "7",
        "A new head at every R-th drop",
        "Fig. 7",
        "Loss (above) and the values of five heads (below) for R = 2, 3, 4; D = 4, N = 32.",
        "A value leaves zero only where a long plateau ends; where it has already grown, the loss falls again at once.",
        ("pairs",),
        figure_7,
        panels=("abc", "def"),
        size=(8.4, 4.6),
    ),
    Figure(
        "8",
        "Plateaus at every R-th level, other ranks",
        "Fig. 8",
        "Loss as in Figure 2, with key and query of rank R = 3, 5, 6, 7.",
        "The second plateau moves down one level with every step of R.",
        ("ranks",),
        partial(_by_rank, ranks=(3, 5, 6, 7)),
        **ROW,
    ),
    Figure(
        "9",
        "Equal eigenvalues",
        "Fig. 9",
        "Loss where eigenvalues come in pairs, 0.35 twice and 0.15 twice, for R = 1 to 4, init_scale 0.03.",
        "With R = 1 the curves still stop between equal eigenvalues (the second and the fourth dashed line), for very "
        "different times, some hardly at all.",
        ("repeated",),
        partial(_by_rank, ranks=(1, 2, 3, 4)),
        **ROW,
    ),
    Figure(
        "curvature",
        "Which fixed points are visited",
        "ours",
        "The 16 fixed points of D = 4, each with one head per learned eigenvector and idle heads at zero: loss, and "
        "the largest rate at which the linearised flow leaves them. Dots: the five that training visits.",
        "The visited ones, and only they, have rate zero: no direction of negative curvature leads away, so that "
        "training lingers there. All others are strict saddles.",
        ("landscape",),
        figure_curvature,
    ),
    Figure(
        "durations",
        "How long plateaus last",
        "Eq. (38) and its repair",
        "Left: Eq. (38) over the true time of the first drop; one grey line per seed. Right: relative error "
        "of every drop's time from the stage algorithm, which knows the initial weights alone.",
        "On the left, horizontal lines: the printed formula does not become exact as the scale tends to zero. On the "
        "right, errors of some thousandths at most that fall with the scale; at 0.1 heads are so large that most of "
        "the way is integrated.",
        ("durations",),
        figure_durations,
        panels=("ab",),
        size=(8.4, 3.4),
    ),
    Figure(
        "spread",
        "Chance and the times of the drops",
        "section D.6",
        "Times of the four drops over initial weights (init_scale 0.1), and durations of the four plateaus: medians, "
        "quartiles and whiskers of 1.5 quartile ranges.",
        "Later drops vary more. In the median the second plateau is the shortest: heads have grown during the first.",
        ("ensemble",),
        figure_spread,
        panels=("aab",),
        size=(8.4, 3.4),
    ),
    Figure(
        "blocks",
        "Blocks that start at zero",
        "section E.1",
        "Norm of the blocks of value and key that start at zero, trained on P sequences; orange, where every "
        "sequence is accompanied by its mirror image y → −y.",
        "On a training set they leave zero at once, the slower the larger it is. By symmetry, as on the population, "
        "they stay at rounding, which the passing drops amplify to 1e-11 at most.",
        ("blocks", "mirrored_blocks"),
        figure_blocks,
    ),
    Figure(
        "regression",
        "Regression in context, as contexts grow",
        "Eq. (8), limit",
        "Distance of the network's answers to fresh prompts from principal component regression on each plateau, and "
        "from least squares at the end, over the context length; dashed, N to the power −1/2.",
        "Points on the dashed lines. At N = 31 the distance is a third of the answers.",
        ("context",),
        figure_regression,
    ),
)
