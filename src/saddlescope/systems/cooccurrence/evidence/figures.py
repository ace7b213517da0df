"""The paper's figure, and some of our own, drawn from experiments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from saddlescope.core.claim import by_field
from saddlescope.core.experiment import Figure, Results
from saddlescope.core.ink import ACCENT, BLACK, DASHES, DOTS, GREY, PALE, finish
from saddlescope.core.run import Run

from .. import prediction
from . import drawing, measures
from .drawing import HUES, TYPES
from .measures import limit_moments, moments, right_step

SCORES = (
    ("μ1, μ2", HUES[0], "-"),
    ("μ2, μ1", HUES[4], DASHES),
    ("μ3, μ1", HUES[2], "-"),
    ("μ3, μ2", HUES[1], DASHES),
)
"""(key, query) of the four scores, in the order of `GROWS` and `FALLS`, with colour and dashes."""

MOVED = (
    ("moved_values", "values", -1.0, "o"),
    ("moved_scores", "scores", -1.5, "s"),
    ("moved_attention", "attention", -2.0, "^"),
    ("moved_keys", "keys", -2.0, "D"),
    ("moved_queries", "queries", -2.0, "v"),
)
"""What moves during Phase 1, by which power of the width, and its marker; keys and queries lie on each other."""

LENGTH = 5
"""Words of a sentence where only n is varied."""

MIDDLE = 2**14
"""A width whose 1/m is small, and does not vanish."""

REDS = ("#67001f", "#d6604d", "#e8935f")
MOMENTS = (("$T_{0.5}$", HUES[1]), ("$T_1$", HUES[0]))
RATIO = "R = −G3′/G1′"


# ---- the paper's


def figure_1(axes: Mapping[str, Any], results: Results) -> None:
    runs = results["appendix"]
    last = 0.0
    for number, run in enumerate(runs):
        look = drawing.paler(number)
        for value, (_, colour, dashes) in zip(_scores(run).T, SCORES, strict=True):
            drawing.over_steps(axes["a"], run, value, color=colour, ls=dashes, **look)
        drawing.of_types(axes["b"], run, run.series("type_loss"), drawing.over_steps, **look)
        drawing.over_steps(axes["b"], run, run.series("loss"), **{"color": BLACK, "label": "all", **look})
        last = max(last, float(run.series("step")[-1]))
    for name in "ab":
        axes[name].set(xlim=(0, last), xlabel="epoch")
        drawing.mark(axes[name], right_step(runs[0]), "end of Phase 1", 1.0)
    finish(axes["a"], "(a) scores between (key, query)", ylabel="change of a score")
    final = zip(_scores(runs[0])[-1], SCORES, strict=True)
    drawing.ends(axes["a"], [(value, words, colour) for value, (words, colour, _) in final])
    drawing.logs(axes["b"], "y")
    finish(axes["b"], "(b) losses", ylim=(None, 12), ylabel="training loss")
    lasts = [*runs[0].series("type_loss")[-1], runs[0].series("loss")[-1]]
    drawing.ends(axes["b"], zip(lasts, (*TYPES, "all"), (*HUES[:4], BLACK), strict=True))
    _first_epochs(axes["b"].inset_axes((0.47, 0.7, 0.52, 0.29)), runs[0])


def _first_epochs(panel: Any, run: Run) -> None:
    """Losses around Phase 1, enlarged."""
    drawing.of_types(panel, run, run.series("type_loss"), drawing.over_steps)
    drawing.over_steps(panel, run, run.series("loss"), color=BLACK)
    edge = right_step(run) if np.isfinite(right_step(run)) else float(run.series("step")[-1])
    drawing.mark(panel, edge, "")
    panel.set(xlim=(0, 1.6 * edge), ylim=(0, None))
    panel.tick_params(labelsize=7)


def _scores(run: Run) -> np.ndarray:
    change = run.series("score_change")
    return np.stack([change[:, key, query] for key, query in measures.GROWS + measures.FALLS], 1)


# ---- both phases


def figure_phases(axes: Mapping[str, Any], results: Results) -> None:
    run = drawing.of_width(results["widths"], MIDDLE)[0]
    start, frame = measures.start_of(run)
    end = float(run.series("time")[-1])
    _, course = prediction.course_of(frame, start.value, end)
    panel, value = axes["a"], run.series("value")
    words = (("$G(μ_1)$", 1, HUES[0]), ("$G(μ_2)$", 1, HUES[4]), ("$-G(μ_3)$", -1, HUES[2]))
    for word, (_, sign, colour) in enumerate(words):
        drawing.over_tau(panel, run, sign * value[:, word], color=colour, lw=2, alpha=0.6)
        panel.plot(course.time, sign * course.state[:, word], color=colour, lw=1.1, ls=DASHES)
    drawing.log_tau(panel, 0.1, end)
    finish(panel, "(a) values", ylabel="value of a word")
    drawing.ends(panel, [(sign * value[-1, word], label, colour) for word, (label, sign, colour) in enumerate(words)])
    panel.plot([], [], color=GREY, lw=2, alpha=0.6, label="flow")
    panel.plot([], [], color=GREY, lw=1.1, ls=DASHES, label="Gram matrices frozen")
    panel.legend(fontsize=8, loc="lower right", bbox_to_anchor=(1, 0.03))
    drawing.marks(panel, run)

    panel, losses = axes["b"], run.series("type_loss")
    drawing.of_types(panel, run, losses)
    drawing.log_tau(panel, 0.1, 1e3)
    finish(panel, "(b) losses of the types", ylabel="training loss", ylim=(0, 1.12 * losses.max()))
    panel.legend(fontsize=8, loc="upper right", bbox_to_anchor=(1, 0.95))
    drawing.marks(panel, run)


def _foretold(run: Run) -> list[float]:
    """T0.5 and T1 with frozen Gram matrices."""
    found = run.prediction.stages if run.prediction else ()
    return [np.nan if stage.time is None else stage.time for stage in found] or [np.nan] * len(MOMENTS)


def figure_widths(axes: Mapping[str, Any], results: Results) -> None:
    runs = results["widths"]
    widths = np.array([run.system.spec.width for run in runs], float)
    span = np.array([widths.min() / 2, widths.max() * 2])
    panel, labels = axes["a"], []
    found, foretold = np.array([moments(run) for run in runs]), np.array([_foretold(run) for run in runs])
    for stage, (label, colour) in enumerate(MOMENTS):
        panel.plot(widths, foretold[:, stage], "_", color=colour, ms=11, mew=1.2)
        panel.plot(widths, found[:, stage], "o", color=colour, ms=4)
        labels.append((float(np.median(found[:, stage])), f"$|s|^2$ {label}", colour))
    panel.plot([], [], "o", color=GREY, ms=4, label="flow")
    panel.plot([], [], "_", color=GREY, ms=11, mew=1.2, label="Gram matrices frozen")
    panel.legend(fontsize=8, loc="upper left", ncols=2)
    drawing.logs(panel, "x")
    highest = 1.25 * np.nanmax(foretold)
    finish(panel, "(a) how long Phase 1 takes", xlim=span, ylim=(0, highest), xlabel="width m", ylabel="τ")
    drawing.ends(panel, labels)

    panel, labels = axes["b"], []
    for (name, words, exponent, marker), colour in zip(MOVED, HUES, strict=False):
        size = np.array([measures.largest(run, name) for run in runs])
        panel.plot(widths, size, marker, color=colour, ms=8 if marker == "D" else 4, mfc="none")
        constant = np.exp(np.nanmean(np.log(size / widths**exponent)))
        panel.plot(span, constant * span**exponent, color=colour, lw=0.9, ls=DASHES)
        labels.append((constant * span[1] ** exponent, f"{words}, $m^{{{exponent:g}}}$", colour))
    for which in "xy":
        drawing.logs(panel, which)
    finish(panel, "(b) what moves meanwhile", xlim=span, xlabel="width m", ylabel="largest change in Phase 1")
    drawing.ends(panel, labels)


# ---- where it ends


def figure_balance(axes: Mapping[str, Any], results: Results) -> None:
    runs, panel = results["counts"], axes["a"]
    most = max(run.system.spec.samples for run in runs)
    infinity = 4.0 * most
    grid = np.geomspace(8, 2.2 * most, 300)
    groups = by_field(runs, "tokens")
    for (tokens, group), colour, marker in zip(groups.items(), HUES, "os^D", strict=False):
        ratios = [prediction.late_by_formula(n, tokens)[0] for n in grid]
        panel.plot(grid, ratios, color=colour, lw=1.1)
        for run in group:
            panel.plot(run.system.spec.samples, run.series("balance_ratio")[-1], marker, color=colour, ms=5)
        edge = prediction.threshold(tokens)
        panel.plot([edge] * 2, [0, 1], color=colour, lw=0.7, ls=DOTS, zorder=1)
    for run in results["endless"]:
        panel.plot(infinity, run.series("balance_ratio")[-1], "*", color=BLACK, ms=8)
    drawing.level(panel, 1.0)
    furthest = max(prediction.threshold(tokens) for tokens in groups)
    drawing.note(panel, (furthest, 0.05), "n = 3 (L + 1)", color=GREY)
    for tokens, colour, marker in zip(groups, HUES, "os^D", strict=False):
        panel.plot([], [], marker, color=colour, ms=5, label=f"L = {tokens}", ls="-", lw=1.1)
    panel.set_xscale("log")
    ticks = [n for n in (12, 24, 48, 96, 192) if n <= grid[-1]]
    panel.set_xticks([*ticks, infinity], [*map(str, ticks), "∞"])
    panel.set_xticks([], minor=True)
    panel.set(xlim=(8, 1.3 * infinity), ylim=(0, 1.6), xlabel="training sentences n (log)", ylabel="R at the end")
    finish(panel, "(a) over the number of sentences", legend="lower right")

    panel, labels = axes["b"], []
    end = max(float(run.series("time")[-1]) for run in groups[LENGTH])
    for samples, group, colour in drawing.colours(by_field(groups[LENGTH], "samples"), REDS):
        limit = prediction.late_by_formula(samples, LENGTH)[0]
        drawing.level(panel, limit, color=colour)
        for number, run in enumerate(group):
            drawing.over_tau(panel, run, run.series("balance_ratio"), color=colour, **drawing.paler(number))
        labels.append((limit, f"n = {samples}", colour))
    drawing.log_tau(panel, 1.0, end)
    finish(panel, f"(b) on the way, L = {LENGTH}", ylim=(0.2, 1.5), ylabel=RATIO)
    drawing.ends(panel, labels, 0.06)


def figure_losses(axes: Mapping[str, Any], results: Results) -> None:
    groups = by_field(by_field(results["counts"], "tokens")[LENGTH], "samples")
    runs = [run for group in groups.values() for run in group]
    end = max(float(run.series("time")[-1]) for run in runs)
    labels, begin = [], end / 3e3
    for samples, group, colour in drawing.colours(groups, REDS):
        gamma = prediction.late_by_formula(samples, LENGTH)[2]
        for number, run in enumerate(group):
            for name, what in (("a", "train_loss"), ("b", "test_loss")):
                drawing.over_tau(axes[name], run, run.series(what), color=colour, **drawing.paler(number))
        run = group[0]
        if samples > prediction.threshold(LENGTH):
            height = 0.8 * float(run.at("test_loss", begin))
            drawing.slope(axes["b"], (begin, end), height, -gamma, color=colour)
        power = rf", $\gamma$ = {abs(gamma):.2g}" if samples >= prediction.threshold(LENGTH) else ""
        labels.append((float(run.series("test_loss")[-1]), f"n = {samples}{power}", colour))
    highest = max(float(run.at("train_loss", begin)) for run in runs)
    drawing.slope(axes["a"], (begin, end), 2 * highest, -1.0)
    middle = np.sqrt(begin * end)
    drawing.note(axes["a"], (middle, 2 * highest * begin / middle), r"$\tau^{-1}$")
    for name, title, words in (("a", "training", "training"), ("b", "generalisation", "fresh")):
        drawing.log_tau(axes[name], 1.0, end)
        drawing.logs(axes[name], "y")
        finish(axes[name], f"({name}) {title}", ylabel=f"loss of {words} sentences")
    drawing.ends(axes["b"], labels)


def figure_rates(axes: Mapping[str, Any], results: Results) -> None:
    runs = drawing.of_width(results["widths"], 10**9)
    run = runs[0]
    losses, time = run.series("type_loss"), run.series("time")
    margins = measures.limit_of(run).margins
    begin, end = float(time[-1]) / 3e3, float(time[-1])
    panel = axes["a"]
    drawing.of_types(panel, run, losses)
    drawing.log_tau(panel, 1.0, end)
    drawing.logs(panel, "y")
    for kind in (0, 3):
        exponent = margins[kind]
        height = float(np.interp(np.log(begin), np.log(time[1:]), losses[1:, kind])) * (3 if kind == 0 else 1 / 3)
        drawing.slope(panel, (begin, end), height, -exponent, color=ACCENT)
        middle = np.sqrt(begin * end)
        place = (middle, height * (middle / begin) ** -exponent)
        look = {"xytext": (3, 3)} if kind == 0 else {"xytext": (-3, -3), "ha": "right", "va": "top"}
        drawing.note(panel, place, rf"$\tau^{{-{exponent:.3g}}}$", color=ACCENT, **look)
    finish(panel, "(a) losses of the types", "lower left", ylabel="training loss")

    panel = axes["b"]
    for number, other in enumerate(runs):
        local = -np.gradient(np.log(other.series("type_loss")[1:]), np.log(other.series("time")[1:]), axis=0)
        drawing.of_types(panel, other, np.vstack([local[:1], local]), **drawing.paler(number))
    for height in sorted(set(np.round(margins, 9))):
        drawing.level(panel, height, color=ACCENT)
        drawing.note(panel, (1.0, height), f"{height:.3g}", color=ACCENT, xycoords=("axes fraction", "data"))
    drawing.log_tau(panel, 1.0, end)
    finish(panel, "(b) their exponents", ylabel="−d ln loss / d ln τ", ylim=(-0.3, None))


def figure_scores(axes: Mapping[str, Any], results: Results) -> None:
    groups = dict(list(by_field(results["widths"], "width").items())[::2])
    end = max(float(run.series("time")[-1]) for run in results["widths"])
    begin = end / 3e3
    widest = max(results["widths"], key=lambda run: run.system.spec.width)
    for name, column, words in (("a", 0, "|C(μ1, μ2)|"), ("b", 2, "|C(μ3, μ1)|")):
        panel, labels = axes[name], []
        for width, runs, colour in drawing.colours(groups):
            for number, run in enumerate(runs):
                drawing.over_tau(panel, run, _root(run, column), color=colour, **drawing.paler(number))
            labels.append((float(_root(runs[0], column)[-1]), f"m = {drawing.power(width)}", colour))
        rate = np.sqrt(measures.expected_bends(widest)[column] / 2)
        height = 1.15 * _root(widest, column)[-1] + rate * np.log(np.array([begin, end]) / end)
        panel.plot([begin, end], height, color=ACCENT, lw=1.2, ls=DASHES)
        drawing.note(panel, (begin, height[0]), f"{rate:.2f} ln τ", color=ACCENT, xytext=(0, 5), ha="right")
        drawing.log_tau(panel, 1.0, end)
        finish(panel, f"({name}) {words}", ylim=(0, None), ylabel="root of (change / size of Theorem 3.3)")
        drawing.ends(panel, labels)


def _root(run: Run, column: int) -> np.ndarray:
    """Of a score's change over the size that Theorem 3.3 prints: straight in ln τ where the change is its square."""
    return np.sqrt(measures.score_sizes(run)[:, column])


def figure_words(axes: Mapping[str, Any], results: Results) -> None:
    runs = drawing.of_width(results["widths"], 10**9)
    panel, run = axes["a"], runs[0]
    limit, end = measures.limit_of(run), float(run.series("time")[-1])
    slopes, begin = limit.margins - limit.fresh_margins, end / 3e3
    for number, other in enumerate(runs):
        drawing.of_types(panel, other, measures.word_share_by_type(other), **drawing.paler(number))
    last = measures.word_share_by_type(run)[-1]
    drawing.log_tau(panel, 1.0, end)
    panel.set_ylabel("part of y F that irrelevant words make")
    drawing.ends(panel, zip(last, TYPES, HUES, strict=False))
    below = 0.04 * last.max()
    for kind in (0, 1, 3):
        line = last[kind] - below + slopes[kind] * np.log(np.array([begin, end]) / end)
        panel.plot([begin, end], line, color=ACCENT, lw=1.2, ls=DASHES)
        words = f"{slopes[kind]:.2f} ln τ" if slopes[kind] > 0.005 else "constant"
        look = {"xytext": (6, -3), "va": "top", "color": ACCENT}
        drawing.note(panel, (np.sqrt(begin * end), line.mean()), words, **look)


# ---- starts


def figure_starts(axes: Mapping[str, Any], results: Results) -> None:
    groups = by_field(results["small_starts"], "init_scale")
    scales = np.array(list(groups))
    for stage, (label, colour) in enumerate(MOMENTS):
        limits = [limit_moments(runs[0])[stage] for runs in groups.values()]
        for scale, runs in groups.items():
            for run in runs:
                moment = moments(run)[stage]
                axes["a"].plot(scale, moment, "o", color=colour, ms=4, alpha=0.8)
                distance = abs(moment / limit_moments(run)[stage] - 1)
                axes["b"].plot(scale, distance, "o", color=colour, ms=4, alpha=0.8)
        axes["a"].plot(scales, limits, color=colour, lw=1.1, ls=DASHES)
        drawing.note(axes["a"], (scales[0], limits[0]), label, color=colour, xytext=(0, 5))
        axes["b"].plot([], [], "o", color=colour, ms=4, label=label)
    for name in "ab":
        drawing.logs(axes[name], "x")
        axes[name].set(xlim=(scales[0] / 2, scales[-1] * 2), xlabel=r"$\sigma_0\sqrt{Lm}$ (log)")
    finish(axes["a"], "(a) moments", ylim=(0, None), ylabel="τ")
    drawing.logs(axes["b"], "y")
    drawing.slope(axes["b"], (scales[0], scales[-1]), scales[0], 1.0, color=PALE, label="in proportion", zorder=1)
    finish(axes["b"], "(b) distance from the limit", "upper left", ylabel="|T / limit − 1|")


def figure_neurons(axes: Mapping[str, Any], results: Results) -> None:
    panel, runs = axes["a"], results["neurons"]
    shares = np.array([run.system.spec.hidden / run.system.spec.width for run in runs])
    grid = np.geomspace(shares.min() / 2, shares.max() * 2, 200)
    for band, alpha in ((2 * np.sqrt(grid), 0.12), (np.sqrt(grid), 0.2)):
        panel.fill_between(grid, 1 - band, 1 + band, color=ACCENT, alpha=alpha, lw=0)
    panel.axhline(1, color=ACCENT, lw=1, ls=DASHES)
    panel.axhline(0, color=PALE, lw=0.8, zorder=1)
    for share, run in zip(shares, runs, strict=True):
        rates = measures.relative_signal_rates(run)
        for column, place, colour in ((0, 0.9, HUES[0]), (1, 1.1, HUES[2])):
            panel.plot(np.full(len(rates), share * place), rates[:, column], "o", color=colour, ms=3, alpha=0.6)
        panel.plot(share, rates.mean(), "_", color=BLACK, ms=14, mew=1.3)
    for label, colour in (("μ1", HUES[0]), ("μ2", HUES[2])):
        panel.plot([], [], "o", color=colour, ms=3, label=label)
    panel.plot([], [], "_", color=BLACK, ms=10, mew=1.3, label="mean of a start")
    drawing.logs(panel, "x")
    panel.set(xlim=(grid[0], grid[-1]), xlabel="$m_1/m$ (log)")
    finish(panel, legend="upper left", ylabel="6 × initial growth of a neuron")


# ---- limits and other settings


def figure_endless(axes: Mapping[str, Any], results: Results) -> None:
    groups = by_field(results["endless"], "width")
    end = max(float(run.series("time")[-1]) for run in results["endless"])
    for name, what, limit, words in (("a", "balance_ratio", 1.5, "3/2"), ("b", "loss_tau", 17.0, "17")):
        panel = axes[name]
        drawing.level(panel, limit, color=ACCENT, lw=1.1)
        for width, runs, colour in drawing.colours(groups):
            for number, run in enumerate(runs):
                look = {"color": colour, "label": f"m = {drawing.power(width)}", **drawing.paler(number)}
                drawing.over_tau(panel, run, run.series(what), **look)
        drawing.log_tau(panel, 1.0, end)
        drawing.note(panel, (1.0, limit), words, color=ACCENT, xytext=(4, 3))
    finish(axes["a"], "(a) balance", "lower right", ylim=(0, 1.7), ylabel=RATIO)
    finish(axes["b"], "(b) loss", ylim=(0, 20), ylabel="training loss × τ")


def figure_variants(axes: Mapping[str, Any], results: Results) -> None:
    panel = axes["a"]
    groups: dict[str, list[Run]] = {"Appendix A": list(results["appendix"])}
    for run in results["variants"]:
        groups.setdefault(_variant(run), []).append(run)
    for (name, runs), colour in zip(groups.items(), (BLACK, *HUES), strict=False):
        for number, run in enumerate(runs):
            loss = run.series("type_loss")[:, 1:3].mean(1)
            look = {"color": colour, "label": name, **drawing.paler(number)}
            drawing.over_steps(panel, run, loss / loss[0], right_step(run), **look)
    drawing.level(panel, 1.0)
    panel.set(xlim=(0, 2), ylim=(0, None), xlabel="step / step from which all sentences are right")
    finish(panel, legend="lower left", ylabel="one-signal loss / its start")


def _variant(run: Run) -> str:
    """What sets it apart from the network of Eq. (1) with plain gradient descent."""
    spec = run.system.spec
    optimizers = {"momentum": "momentum", "adam": "Adam"}
    parts = ["ReLU"] if spec.activation == "relu" else []
    parts += ["a trained"] if spec.trained_output else []
    parts += [f"{spec.heads} heads"] if spec.heads > 1 else []
    parts += [f"{spec.layers} layers"] if spec.layers > 1 else []
    parts += [optimizers[spec.optimizer]] if spec.optimizer in optimizers else []
    return ", ".join(parts) or "as in Eq. (1)"


def figure_language(axes: Mapping[str, Any], results: Results) -> None:
    groups = by_field(results["words"], "topics")
    end = max(float(run.series("time")[-1]) for run in results["words"])
    for topics, runs, colour in drawing.colours(groups):
        for number, run in enumerate(runs):
            look = {"color": colour, "label": f"{topics} topic{'s' * (topics > 1)}", **drawing.paler(number)}
            drawing.over_tau(axes["a"], run, run.series("one_signal_loss"), **look)
            drawing.over_tau(axes["b"], run, run.series("balance_ratio"), **look)
    drawing.log_tau(axes["a"], 0.1, 100)
    drawing.log_tau(axes["b"], 1, end)
    finish(axes["a"], "(a) repeated words, losses", "lower left", ylim=(0, None), ylabel="one-signal loss")
    drawing.level(axes["b"], 1.0)
    finish(axes["b"], "(b) repeated words, balance", ylim=(0, 1.6), ylabel=RATIO)
    panel = axes["c"]
    rows = np.array([[measures.limit_of(run).ratio, run.series("balance_ratio")[-1]] for run in results["sampled"]])
    span = np.array([0.97 * rows.min(), 1.03 * rows.max()])
    panel.plot(span, span, color=ACCENT, lw=1, ls=DASHES, zorder=1)
    panel.plot(*rows.T, "o", color=BLACK, ms=4)
    panel.set(xlim=span, ylim=span, xlabel="R in closed form", ylabel="R at the end", aspect="equal")
    panel.set_yticks(panel.get_xticks())
    finish(panel, "(c) types by chance", xlim=span, ylim=span)


def figure_appendix(axes: Mapping[str, Any], results: Results) -> None:
    versions = (
        ("a", "appendix", "(a) a drawn as all layers"),
        ("b", "appendix_signs", "(b) a = ±1"),
        ("c", "appendix_distinct", "(c) all words distinct"),
    )
    last = max(float(run.series("step")[-1]) for _, name, _ in versions for run in results[name])
    ticks = 10.0 ** np.arange(np.log10(last) + 1e-9)
    for panel_name, experiment, words in versions:
        panel, runs = axes[panel_name], results[experiment]
        for number, run in enumerate(runs):
            drawing.of_types(panel, run, run.series("type_loss"), drawing.over_steps, **drawing.paler(number))
        drawing.logs(panel, "y")
        panel.set_xscale("symlog", linthresh=1, linscale=0.4)
        panel.set_xticks([0, *ticks], ["0", *map(drawing.plain, ticks)])
        panel.set_xticks([], minor=True)
        finish(panel, words, xlim=(0, last), ylim=(1e-4, 3), xlabel="epoch (log from 1 on)")
        drawing.mark(panel, right_step(runs[0]), f"epoch {right_step(runs[0]):g}")
    finish(axes["a"], legend="lower left", ylabel="training loss")
    for name in "bc":
        axes[name].tick_params(labelleft=False)


PAIR: dict[str, Any] = {"panels": ("ab",), "size": (8.4, 3.4)}
TRIPLE: dict[str, Any] = {"panels": ("abc",), "size": (10.0, 3.4)}

FIGURES = (
    Figure(
        "1",
        "Scores and losses over both phases",
        "Fig. 1; Appendix A",
        "Full-batch gradient descent in the setting of Appendix A: m = 128, m1 = 256, 60 sentences of 5 words out of "
        "64, learning rate 0.01. (a) Changes of the scores ⟨W_K μ, W_Q ν⟩ since the start, labelled by key and "
        "query. (b) Training loss of all sentences and of each type; the inset enlarges the first epochs. Thick: the "
        "first run; thin: other weights and sentences. Dotted: the epoch from which on all training sentences of the "
        "first run are right.",
        "Scores between μ1 and μ2 rise and those of μ3 fall, most of it after the dotted line. Before the line, "
        "losses of sentences with one signal rise for some hundred epochs while that of sentences with both falls; "
        "after it all fall, that of sentences without a signal by far the fastest.",
        ("appendix",),
        figure_1,
        **PAIR,
    ),
    Figure(
        "phases",
        "The two phases of the flow",
        "Theorems 3.1 and 3.2; section 4.1",
        "Gradient flow at width 2^14 (60 sentences of 5 words) over τ = |s(0)|² t, where s is the sum of all a_j "
        "w_j. (a) What the network makes of a word, G(μ) = s · W_V μ; dashed, with all Gram matrices frozen at the "
        "start. (b) Training losses of the types. Dotted: T0.5, where the loss of sentences with one signal peaks, "
        "and T1, from which on all sentences are right.",
        "The frozen prediction covers the flow. Values are of order one at T1, and grow as ln τ from then on, that "
        "of μ3 the most. In (b), losses of sentences with one signal rise until T0.5.",
        ("widths",),
        figure_phases,
        **PAIR,
    ),
    Figure(
        "widths",
        "Phase 1 at all widths",
        "Theorem 3.1",
        "Flow of 60 sentences of 5 words at widths from 2^8 to 1e9, several starts each. (a) Both moments in the "
        "clock τ = |s(0)|² t; dashes, predicted for the same start with frozen Gram matrices. (b) Largest changes up "
        "to T1 over all entries: inner products of values, scores, inner products of keys and of queries, softmax "
        "probabilities. Dashed: lines of the slopes in the labels.",
        "Moments in (a) differ between starts, but do not drift with the width. Points in (b) lie along their lines "
        "over seven decades: while G becomes of order one, all that could move attention rests.",
        ("widths",),
        figure_widths,
        **PAIR,
    ),
    Figure(
        "balance",
        "Where the balance ends",
        "Lemma 4.5, made quantitative",
        "R = −G3'/G1' of flows at width 1e6. (a) At τ = 3e6, for n sentences of L words; lines: its limit in closed "
        "form; star: infinitely many sentences, at τ = 1e7. Dotted: n = 3 (L + 1), where the closed form is 1; its "
        "kinks are where sentences without a signal cease to count. (b) R over τ = |s(0)|² t for L = 5; dashed, the "
        "closed form.",
        "Points on the curves, which cross 1 exactly at n = 3 (L + 1): with fewer sentences the lower half of the "
        "balance, R > 1, fails. All tend to 3/2 as n grows. In (b), n = 36 is slow: it is next to a kink.",
        ("counts", "endless"),
        figure_balance,
        **PAIR,
    ),
    Figure(
        "losses",
        "Which losses fall",
        "Theorem 3.3",
        "Losses over τ = |s(0)|² t for n sentences of 5 words at width 1e6: (a) of the training sentences, with a "
        "line of slope −1; (b) of fresh sentences, whose irrelevant words were never trained, with lines of the "
        "predicted slopes −γ a little below the curves. One colour for each n in both.",
        "Training losses fall as 1/τ for every n. Test losses fall more slowly, as τ^-γ; with n = 18 = 3 (L + 1) "
        "sentences not at all, and with n = 12 they rise in the end.",
        ("counts",),
        figure_losses,
        **PAIR,
    ),
    Figure(
        "rates",
        "Types at their own rates",
        "abstract; section 4.2",
        "Flow at width 1e9 with 60 sentences of 5 words over τ = |s(0)|² t. (a) Training losses of the types; pink: "
        "lines of the predicted slopes. (b) The exponents that these curves have at each τ; pink: predicted limits.",
        "Three types share the exponent 1. Losses of sentences without a signal fall faster, with exponent 1.34, so "
        "that their share of the training loss vanishes.",
        ("widths",),
        figure_rates,
        **PAIR,
    ),
    Figure(
        "scores",
        "Scores grow with a logarithm squared",
        "Theorem 3.3; Lemma F.16",
        "Square root of the change of a score over the size that Theorem 3.3 prints for it, against log-time, τ = "
        "|s(0)|² t, at several widths: (a) of μ1 as seen from μ2, (b) of μ3 as seen from μ1. Pink: the predicted "
        "slope in the limit of large width, drawn a little above.",
        "Straight lines, not constants: the printed size lacks a factor (ln τ)². Wide networks run parallel to the "
        "pink line; in narrow ones |s|² grows, and curves bend.",
        ("widths",),
        figure_scores,
        **PAIR,
    ),
    Figure(
        "words",
        "What irrelevant words add",
        "Corollary F.15; Lemma F.14",
        "The part of y F that a training sentence owes to its irrelevant words, averaged over the sentences of a "
        "type, in the flow at width 1e9 (60 sentences of 5 words) over τ = |s(0)|² t. Pink: predicted slopes, drawn "
        "a little below.",
        "Straight lines in ln τ for sentences with a signal: with one signal most of the margin is learned by heart. "
        "For sentences without a signal the part ends constant.",
        ("widths",),
        figure_words,
    ),
    Figure(
        "starts",
        "Small starts",
        "section 4.1; section 5",
        "T0.5 and T1 in the clock τ = |s(0)|² t for smaller and smaller starts (24 sentences of 5 words, width 1e6, "
        "several weights each). (a) The moments; dashed, those of the seven numbers that start from zero. (b) Their "
        "relative distance from the dashed lines.",
        "Points tend to the dashed lines, at a distance in proportion to the start: at the default 0.1, T1 is still "
        "three quarters above its limit.",
        ("small_starts",),
        figure_starts,
        **PAIR,
    ),
    Figure(
        "neurons",
        "Single neurons",
        "Lemma 4.1",
        "Rate at which a_j w_j W_V μ grows at the start, for both signals and the neurons that are followed, times "
        "6/((σ0² + σ1²) m), against the number of neurons over the width (width 2^14, 24 sentences of 5 words). "
        "Dashed: the predicted mean, 1; bands: one and two of the predicted deviations √(m1/m).",
        "With few neurons each grows as the lemma says. With as many neurons as the width has dimensions, or more, "
        "some go backwards: only the mean has the sign.",
        ("neurons",),
        figure_neurons,
    ),
    Figure(
        "endless",
        "Infinitely many sentences",
        "Lemma 4.5; Theorem F.8",
        "Flow over the whole law of sentences at three widths, from several starts, over τ = |s(0)|² t. (a) R = "
        "−G3'/G1'. (b) Training loss times τ. Pink: the limits 3/2 and 17.",
        "R reaches 3/2 at every width. The loss times τ reaches 17 in the widest network; in narrow ones |s|² grows, "
        "which the clock τ leaves out, and the product sinks.",
        ("endless",),
        figure_endless,
        **PAIR,
    ),
    Figure(
        "variants",
        "Other networks and optimizers",
        "section 5",
        "Training loss of sentences with one signal, the mean of both types, over that of the start, for variants of "
        "the network or the optimizer (width 128, 24 sentences of 5 words) and for Appendix A. Steps are counted in "
        "units of the step from which on all training sentences are right. Thin: further runs.",
        "Curves rise above 1 before they fall, that of ReLU by little; only that of Adam does not rise at all.",
        ("variants", "appendix"),
        figure_variants,
    ),
    Figure(
        "language",
        "Words that repeat, types by chance",
        "sections 2.1 and 5; Definition 2.1",
        "(a, b) Flow at width 2^14 with 60 sentences of 5 words, irrelevant ones drawn from 61, all those of a "
        "sentence from one of several topics: loss of sentences with one signal and R = −G3'/G1' over τ = |s(0)|² t. "
        "(c) R at τ = 1e5 where the types of 36 sentences are drawn by chance, against its closed form for the "
        "counts that came out; width 1e6.",
        "Losses of sentences with one signal rise first in every language. R ends above 1 for words that repeat "
        "independently, and may end below 1 with many topics. Points of (c) lie on the diagonal; unequal counts of "
        "both types with one signal take R far from what equal ones give.",
        ("words", "sampled"),
        figure_language,
        **TRIPLE,
    ),
    Figure(
        "appendix",
        "Three readings of Appendix A",
        "Appendix A; section 2.2; Assumption 2.3",
        "Training losses of the types for three versions of the experiment: (a) the output weights a drawn as "
        "Kaiming's start draws all layers, as in Figure 1; (b) a = ±1; (c) as (a), with irrelevant words that never "
        "repeat. Thick: the first run; thin: further ones. Dotted: the epoch from which on all its training "
        "sentences are right. At the quick size (b) and (c) end earlier.",
        "With a = ±1 Phase 1 is over after some twenty epochs, and the first step alone overshoots: such phases cannot "
        "be seen on an axis of 30,000. Distinct words change little.",
        ("appendix", "appendix_signs", "appendix_distinct"),
        figure_appendix,
        **TRIPLE,
    ),
)
