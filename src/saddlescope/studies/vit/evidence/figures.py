"""The paper's figures of vision transformers, and some of our own, drawn from experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from saddlescope.core.claim import by_field
from saddlescope.core.experiment import Figure, Results
from saddlescope.core.ink import BLACK, GREY, ramp
from saddlescope.core.run import Run

from . import measures
from .lora_figures import FIGURE as LORA
from .measures import OV, QK

START = "#c0392b"
"""Of initial spectra: red, as in the paper."""

EPOCHS = ("#c7e9c0", "#41ab5d", "#00441b")
"""Of changes by epoch: greens, the darkest for the last."""

COLOURS = {QK: "#2171b5", OV: "#cb3a3a"}
"""Of the two products, as in the paper's Figure 12."""

SCALES = ("#9ecae1", "#2171b5", "#08306b")
MODES = (BLACK, "#2171b5", "#c6dbef")
NAMES = {QK: r"$W_K W_Q^\top$", OV: r"$W_V W_O^\top$"}
SHOWN_MODES = 12
SHOWN_EPOCHS = 6
DRAWN = 120
HEAD = 0
"""The head that single-head panels show; the paper's are random ones."""

Axes = Mapping[str, Any]


def _marked_epochs(run: Run) -> list[int]:
    """Places of the saved times to show: evenly spread in log time, the first and the last among them."""
    time = run.series("time")
    wanted = np.geomspace(1, time[-1], SHOWN_EPOCHS)
    return sorted({int(np.abs(time - epoch).argmin()) for epoch in wanted})


def _some(run: Run) -> np.ndarray:
    """Places of saved times, from the first epoch on, that are enough to draw a curve."""
    last = len(run.series("time")) - 1
    return np.unique(np.linspace(1, last, min(last, DRAWN)).round().astype(int))


def _normalised(axes: Any, run: Run, layer: int, circuit: int) -> None:
    """The start's spectrum in red, the change's at some epochs in green, each over its largest value."""
    start = measures.spectrum_of(run, "start")[layer, circuit, HEAD]
    axes.plot(np.arange(1, len(start) + 1), start / start[0], color=START, label="start")
    values, time = run.series("singular_values"), run.series("time")
    places = _marked_epochs(run)
    for colour, place in zip(ramp(EPOCHS, len(places)), places, strict=True):
        spectrum = values[place, layer, circuit, HEAD]
        label = f"epoch {time[place]:g}"
        axes.plot(np.arange(1, len(spectrum) + 1), spectrum / spectrum[0], color=colour, label=label)
    axes.set(xlabel="mode", xlim=(1, len(start)), ylim=(0, 1.02), title=f"layer {layer + 1}, {NAMES[circuit]}")


def _legend(axes: Axes, **options: Any) -> None:
    """One for all panels, in the first."""
    next(iter(axes.values())).legend(fontsize=7, **options)


def _label_rows(axes: Axes, label: str) -> None:
    """In the first panel of each row; rows have up to three."""
    for panel in list(axes.values())[::3]:
        panel.set_ylabel(label)


def draw_first_head(experiment: str, axes: Axes, results: Results) -> None:
    (run,) = results[experiment][:1]
    _normalised(axes["a"], run, 1, QK)
    _label_rows(axes, "singular value / largest")
    _legend(axes)


def draw_normalised(experiment: str, axes: Axes, results: Results) -> None:
    (run,) = results[experiment][:1]
    depth = run.system.spec.depth
    layers = (0, depth // 2, depth - 1)
    places = [(layer, circuit) for circuit in (QK, OV) for layer in layers]
    for panel, (layer, circuit) in zip(axes.values(), places, strict=True):
        _normalised(panel, run, layer, circuit)
    _label_rows(axes, "singular value / largest")
    _legend(axes)


def draw_by_layer(experiment: str, axes: Axes, results: Results) -> None:
    """Stable rank of both changes over epochs: mean over the heads of a layer, their standard deviation shaded."""
    (run,) = results[experiment][:1]
    time, ranks = (run.series(name)[_some(run)] for name in ("time", "stable_rank"))
    top = 1.08 * (ranks.mean(-1) + ranks.std(-1)).max()
    for layer, panel in enumerate(axes.values()):
        for circuit in (QK, OV):
            mean, spread = ranks[:, layer, circuit].mean(-1), ranks[:, layer, circuit].std(-1)
            panel.plot(time, mean, color=COLOURS[circuit], label=f"Δ{NAMES[circuit]}")
            panel.fill_between(time, mean - spread, mean + spread, color=COLOURS[circuit], alpha=0.2, linewidth=0)
        panel.set(title=f"layer {layer + 1}", xlabel="epoch", ylim=(0, top), xlim=(0, time[-1]))
    _legend(axes, loc="upper left")
    _label_rows(axes, "stable rank")


def draw_evolution(axes: Axes, results: Results) -> None:
    """Singular values of one head of the second layer over epochs, for three scales: QK above, OV below."""
    runs = [group[0] for group in reversed(by_field(results["cifar_scales"], "init_scale").values())]
    places = [(circuit, run) for circuit in (QK, OV) for run in runs]
    for panel, (circuit, run) in zip(axes.values(), places, strict=True):
        values = run.series("singular_values")[:, 1, circuit, HEAD, :SHOWN_MODES]
        for mode, colour in enumerate(ramp(MODES, SHOWN_MODES)):
            panel.plot(run.series("time"), values[:, mode], color=colour, linewidth=1.1)
        panel.set(title=f"Δ{NAMES[circuit]}, scale {run.system.spec.init_scale:g}", xlabel="epoch", ylim=(0, None))
        panel.set_xlim(0, run.series("time")[-1])
    _label_rows(axes, "singular value")


def draw_scales(axes: Axes, results: Results) -> None:
    """Stable rank of the change of W_K W_Qᵀ at the end by initial scale, at layers 1, 3 and 5."""
    groups = by_field(results["cifar_scales"], "init_scale")
    for layer, panel in zip((0, 2, 4), axes.values(), strict=True):
        ends = [group[0].series("stable_rank")[-1, layer, QK] for group in groups.values()]
        places = np.arange(len(ends))
        panel.bar(places, [end.mean() for end in ends], color=ramp(SCALES, len(ends)), width=0.6)
        panel.errorbar(places, [e.mean() for e in ends], [e.std() for e in ends], fmt="none", ecolor=BLACK, capsize=3)
        panel.axhline(1.0, color=GREY, linewidth=0.8, linestyle=":")
        panel.set_xticks(places, [f"{scale:g}" for scale in groups])
        panel.set(title=f"layer {layer + 1}", xlabel="initial scale")
    _label_rows(axes, "stable rank of ΔQK")


def draw_against_start(axes: Axes, results: Results) -> None:
    """Spectrum of the change and of the start, in one head of each layer."""
    (run,) = results["cifar"][:1]
    start, change = (measures.spectrum_of(run, name)[:, QK] for name in ("start", "change"))
    for layer, panel in enumerate(axes.values()):
        head = layer % start.shape[1]
        modes = np.arange(1, start.shape[-1] + 1)
        panel.plot(modes, start[layer, head], color=START, label="start")
        panel.plot(modes, change[layer, head, : len(modes)], color=EPOCHS[-1], label="change")
        panel.set(title=f"layer {layer + 1}, head {head + 1}", xlabel="mode", xlim=(1, len(modes)), ylim=(0, None))
    _legend(axes)
    _label_rows(axes, "singular value")


def draw_digits(axes: Axes, results: Results) -> None:
    """Mean stable rank of both changes, and the loss, over epochs by initial scale; thin: single seeds."""
    groups = by_field(results["digits_scales"], "init_scale")
    for colour, (scale, runs) in zip(ramp(SCALES, len(groups)), groups.items(), strict=True):
        time = runs[0].series("time")
        for panel, circuit in ((axes["a"], QK), (axes["b"], OV)):
            curves = np.array([measures.by_layer(run, circuit).mean(-1) for run in runs])
            panel.plot(time[1:], curves[:, 1:].T, color=colour, linewidth=0.5, alpha=0.6)
            panel.plot(time[1:], curves[:, 1:].mean(0), color=colour, label=f"scale {scale:g}")
        losses = np.array([run.series("loss") for run in runs])
        axes["c"].plot(time, losses.T, color=colour, linewidth=0.5, alpha=0.6)
        axes["c"].plot(time, losses.mean(0), color=colour)
    for panel, circuit in ((axes["a"], QK), (axes["b"], OV)):
        panel.set(title=f"Δ{NAMES[circuit]}", xlabel="epoch", ylabel="stable rank", ylim=(0.9, None))
    axes["c"].set(title="training loss", xlabel="epoch", yscale="log")
    axes["a"].legend(fontsize=8)


def draw_shapes(axes: Axes, results: Results) -> None:
    """Stable rank of the change, and of the products at the start, against depth, width and number of heads."""
    runs = results["shapes"]
    for panel, field in zip(axes.values(), ("depth", "width", "heads"), strict=True):
        for circuit in (QK, OV):
            rows = np.array(sorted(map(tuple, measures.ranks_over(field, circuit)(runs))))
            panel.plot(*rows.T, "o-", color=COLOURS[circuit], label=f"Δ{NAMES[circuit]}")
        begun = np.array(sorted(map(tuple, measures.start_ranks_over(field)(runs))))
        panel.plot(*begun.T, "s--", color=GREY, label="products at the start")
        panel.set(xlabel=field, xscale="log", yscale="log", ylim=(0.9, 30))
        panel.set_xticks(rows[:, 0], [f"{value:g}" for value in rows[:, 0]])
        panel.minorticks_off()
    axes["a"].set_ylabel("stable rank")
    axes["a"].legend(fontsize=8, loc="upper left")


def draw_kept(experiment: str, axes: Axes, results: Results) -> None:
    for run in results[experiment]:
        ranks, share = measures.share_kept(run)
        accuracy = run.trajectory["kept_test_accuracy"].values
        label = {"color": COLOURS[QK], "marker": "o", "markersize": 3, "linewidth": 1}
        # Rank 0 has no place on a logarithmic axis: half a direction stands for it.
        axes["a"].plot(np.maximum(ranks, 0.5), share, **label)
        axes["b"].plot(np.maximum(ranks, 0.5), accuracy, **label)
        largest = measures.stable_rank(measures.spectrum_of(run, "change")).max()
        for panel in axes.values():
            panel.axvline(largest, color=GREY, linewidth=0.8, linestyle=":")
    for panel in axes.values():
        ticks = [0.5, *ranks[1:]]
        panel.set_xscale("log")
        panel.set_xticks(ticks, ["0", *(f"{rank:g}" for rank in ranks[1:])], fontsize=8)
        panel.minorticks_off()
        panel.set_xlabel("directions kept of each change")
    axes["a"].axhline(1.0, color=GREY, linewidth=0.8)
    axes["a"].set_ylabel("share of the loss decrease")
    axes["b"].set(ylabel="test accuracy", ylim=(0, 1))


SIX = ("abc", "def")
TWELVE = ("abc", "def", "ghi", "jkl")


def _of_data(name: str, experiment: str, spectra: str, ranks: str, panels: Sequence[str]) -> tuple[Figure, Figure]:
    return (
        Figure(
            name=spectra,
            title=f"Spectra of changes during training, {name}",
            source=f"Figure {spectra}",
            caption=f"{name}: singular values of one head over their largest, of the product at the start (red) and of "
            "its change at some epochs (green), in three layers.",
            look_for="Green curves fall at once where the red one falls slowly: the change has few directions. Later "
            "epochs (darker) lie higher.",
            experiments=(experiment,),
            draw=partial(draw_normalised, experiment),
            panels=SIX,
            size=(9.0, 5.2),
        ),
        Figure(
            name=ranks,
            title=f"Stable rank of the change by layer, {name}",
            source=f"Figure {ranks}",
            caption=f"{name}: stable rank of the change of both products over epochs, mean and standard deviation over "
            "the heads of each layer.",
            look_for="Ranks of a few, where the products themselves begin at a third of the head's width, and a rise "
            "that slows down but has no jump.",
            experiments=(experiment,),
            draw=partial(draw_by_layer, experiment),
            panels=tuple(panels),
            size=(9.0, 2.6 * len(panels)),
        ),
    )


FIGURES = (
    *(
        Figure(
            name=name,
            title=f"Spectra of one head's change, {data}",
            source=f"Figure {name}",
            caption=f"{data}, one head of the second layer: singular values over the largest, of W_K W_Qᵀ at the start "
            "(red) and of its change at some epochs (green).",
            look_for="The change is far from the red curve at every epoch, and comes nearer to it slowly.",
            experiments=(experiment,),
            draw=partial(draw_first_head, experiment),
        )
        for name, data, experiment in (("1a", "CIFAR-10", "cifar"), ("1b", "ImageNet", "imagenet"))
    ),
    Figure(
        name="3",
        title="How singular values grow, at three initial scales",
        source="Figure 3",
        caption=f"CIFAR-10: the {SHOWN_MODES} largest singular values of one head's change in the second layer over "
        "epochs, for initial scales 1, 0.3 and 0.1.",
        look_for="Few curves leave the axis, one after another, and the fewer the smaller the scale.",
        experiments=("cifar_scales",),
        draw=draw_evolution,
        panels=SIX,
        size=(9.0, 5.2),
    ),
    Figure(
        name="4",
        title="Stable rank by initial scale",
        source="Figure 4",
        caption="CIFAR-10: stable rank of the change of W_K W_Qᵀ after training, mean and standard deviation over the "
        "heads of layers 1, 3 and 5.",
        look_for="The default scale has the highest rank everywhere; 0.3 and 0.1 are near one, in no fixed order.",
        experiments=("cifar_scales",),
        draw=draw_scales,
        panels=("abc",),
        size=(8.0, 3.0),
    ),
    Figure(
        name="5",
        title="Spectrum of the change against the start's",
        source="Figure 5",
        caption="CIFAR-10, default scale, after training: singular values of W_K W_Qᵀ at the start and of its change, "
        "in one head of each layer.",
        look_for="The change has a few values above all of the start's, and a tail below them.",
        experiments=("cifar",),
        draw=draw_against_start,
        panels=SIX,
        size=(9.0, 5.2),
    ),
    *_of_data("CIFAR-10", "cifar", "11", "12", SIX),
    *_of_data("CIFAR-100", "cifar100", "13", "14", SIX),
    *_of_data("ImageNet", "imagenet", "15", "16", TWELVE),
    Figure(
        name="digits",
        title="Rank of the change on digits, by initial scale",
        source="Figures 4 and 12, in small",
        caption="scikit-learn's digits, three layers of width 64: stable rank of both changes, mean over all heads, "
        "and the loss, over epochs; thin lines are single seeds.",
        look_for="The smaller the scale, the lower the rank; in the first epochs it falls before it rises.",
        experiments=("digits_scales",),
        draw=draw_digits,
        panels=("abc",),
        size=(9.0, 3.0),
    ),
    Figure(
        name="shapes",
        title="Rank of the change against depth, width and heads",
        source="open question 3",
        caption="Digits: stable rank of both changes after training, and of the products at the start, for networks "
        "that differ in one number from the usual one.",
        look_for="The start's rank grows with the width; the change's does not.",
        experiments=("shapes",),
        draw=draw_shapes,
        panels=("abc",),
        size=(9.0, 3.0),
    ),
    *(
        Figure(
            name=name,
            title=f"What few directions keep, {data}",
            source="open question 2",
            caption=f"{data}: the changes of all attention matrices cut down to their first directions, all else "
            "as trained. Dotted: the largest stable rank of any head.",
            look_for="An eighth of all directions keep nearly everything; as many as the stable rank says do not.",
            experiments=(experiment,),
            draw=partial(draw_kept, experiment),
            panels=("ab",),
            size=(8.0, 3.2),
        )
        for name, data, experiment in (("kept", "Digits", "digits"), ("kept_cifar", "CIFAR-10", "cifar"))
    ),
    LORA,
)
