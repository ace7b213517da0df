"""What a LoRA needs and how it grows, drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from saddlescope.core.experiment import Figure, Results
from saddlescope.core.ink import BLACK, GREY, PALE, ramp
from saddlescope.core.run import Run

from .claims.lora import judged

LOOKS = {
    "full": ("#0072B2", "all weights"),
    "lora": ("#D55E00", "LoRA, advised ranks"),
    "small": ("#CC79A7", "LoRA, rank {small_rank}"),
}
"""Colours (Okabe-Ito) and names of the trainings."""

MODULE = "blocks.0.attn.qkv"
"""Whose LoRA is shown growing: a fused weight of the first block has the most directions to choose from."""

SHADES = ("#08306b", "#2171b5", "#9ecae1")


def figure_lora(axes: Mapping[str, Any], results: Results) -> None:
    runs = results["lora"]
    _by_rank(axes["a"], runs[0])
    _curves(axes["b"], runs)
    _growth(axes["c"], runs[0])


def _label(run: Run, name: str) -> str:
    return LOOKS[name][1].format(small_rank=run.system.spec.small_rank)


def _by_rank(axes: Any, run: Run) -> None:
    """LoRAs of several ranks stand at their mean."""
    advised = float(np.mean(run.trajectory["advised_ranks"].values))
    small = run.system.spec.small_rank
    axes.plot(
        run.series("kept_ranks"), run.series("kept_loss"), "o-", color=BLACK, ms=4, lw=1.2, label="full change, cut"
    )
    axes.axvline(advised, color=PALE, lw=1, ls="--", zorder=0)
    axes.plot(advised, judged(run, "loss", "held"), "D", color=LOOKS["full"][0], ms=6, label="cut to advised ranks")
    for name, rank in (("lora", advised), ("small", small)):
        look = {"color": LOOKS[name][0], "ms": 8, "mfc": "none", "mew": 1.6}
        axes.plot(rank, judged(run, "loss", name), "s", label=_label(run, name), **look)
    ticks = run.series("kept_ranks")
    axes.set_xscale("symlog", linthresh=1, linscale=0.7)
    axes.set_yscale("log")
    axes.set_xticks(ticks, [f"{rank:g}" for rank in ticks])
    axes.minorticks_off()
    axes.set(xlabel="directions of each matrix", ylabel="loss on the new task")
    axes.set_ylim(top=6 * axes.get_ylim()[1])  # room for the legend
    axes.legend(fontsize=7, loc="upper right")
    axes.set_title("(a) what a rank holds", loc="left")


def _curves(axes: Any, runs: Any) -> None:
    for place, run in enumerate(runs):
        for name, observable in (("full", "loss"), ("lora", "lora_loss"), ("small", "small_loss")):
            label = _label(run, name) if place == 0 else None
            axes.plot(run.series("time"), run.series(observable), color=LOOKS[name][0], lw=1.2, label=label)
    axes.set_yscale("log")
    axes.set(xlabel="epochs of fine-tuning", ylabel="loss on the new task")
    axes.legend(fontsize=7)
    axes.set_title("(b) three fine-tunings", loc="left")


def _growth(axes: Any, run: Run) -> None:
    modules = run.trajectory.attrs["modules"].split()
    place = modules.index(MODULE)
    epochs = run.series("early_epochs")[1:]
    values = run.series("early_singular_values")[1:, place]
    shown = values[:, values[-1] > 0]
    for mode, colour in reversed(list(enumerate(ramp(SHADES, shown.shape[1])))):
        axes.plot(epochs, shown[:, mode], color=colour, lw=1.2)
    ranks = run.series("early_stable_rank")[1:].mean(1)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set(xlabel="epochs of fine-tuning", ylabel=f"singular values of BA, {MODULE}")
    twin = axes.twinx()
    twin.plot(epochs, ranks, color=GREY, lw=1.2, ls="--")
    twin.set_ylabel("stable rank, mean of all modules (dashed)", color=GREY)
    twin.spines["right"].set_visible(True)
    axes.set_title("(c) a LoRA grows", loc="left")


FIGURE = Figure(
    "lora",
    "The rank that a LoRA needs",
    "Section 6, a question of the paper",
    "A vision transformer trained on handwritten digits learns them turned by a quarter. (a) Loss when each matrix's "
    "change by a full fine-tuning is cut down to its first directions, biases, norms and positions as trained; "
    "diamond, at the ranks that hold 90 % of the squared change, these as before; squares, LoRAs. Ranks that differ by "
    "matrix stand at their mean (dashed). (b) Loss of the fine-tunings, one line per seed. (c) Singular values of what "
    "one module's LoRA adds, from the first step on, and the mean stable rank of all modules.",
    "The advised ranks hold nearly all that was learned, and a LoRA of these ranks learns nearly as much; its loss "
    "ends at about twice the full one's. But a LoRA of rank one gets far below the first direction of the full change: "
    "it finds a change of lower rank. In (c) all directions rise together, and the rank falls before it grows: LoRA's "
    "directions do not join one by one.",
    ("lora",),
    figure_lora,
    panels=("abc",),
    size=(10.0, 3.4),
)
