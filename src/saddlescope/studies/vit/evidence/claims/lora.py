"""What the paper's theory would have LoRA do, which it asks and does not try, and what LoRA does."""

from __future__ import annotations

from typing import Any

import numpy as np

from saddlescope.core.claim import OURS, Claim, all_of, bounded, close, only, ordered
from saddlescope.core.experiment import listed
from saddlescope.core.run import Run

from ...lora_spec import NETWORKS

ASKED = ("boix2023", "Section 6, LoRA")
LORA: dict[str, Any] = {"experiment": "lora", "seeds": all_of(2)}


def judged(run: Run, kind: str, network: str) -> float:
    """What `network` of NETWORKS does: its `loss`, `test_loss` or `test_accuracy`."""
    return float(run.trajectory[f"judged_{kind}"].values[NETWORKS.index(network)])


def decrease_kept(run: Run, loss: float) -> float:
    """Share of the full fine-tuning's decrease of the loss."""
    start, full = judged(run, "loss", "start"), judged(run, "loss", "full")
    return (start - loss) / (start - full) if start != full else np.nan


def truncated(run: Run) -> float:
    """Loss with as many directions of each matrix's full change as the small LoRA has."""
    kept = run.trajectory
    return float(np.interp(run.system.spec.small_rank, kept["kept_ranks"].values, kept["kept_loss"].values))


def kept_by_rank(run: Run) -> list[float]:
    """Shares that truncated changes, the small LoRA and the LoRA keep."""
    losses = (truncated(run), judged(run, "loss", "small"), judged(run, "loss", "lora"))
    return [decrease_kept(run, loss) for loss in losses]


def ranks_on_the_way(run: Run) -> tuple[float, float, float]:
    """Stable rank of the LoRA's products, mean over modules: after one step, the lowest after an epoch, at the end."""
    adapted = run.trajectory["advised_ranks"].values >= 1
    after_epochs = run.series("lora_stable_rank")[1:, adapted].mean(1)
    return run.trajectory["early_stable_rank"].values[1, adapted].mean(), after_epochs.min(), after_epochs[-1]


def first_rank(run: Run) -> float:
    first, _, last = ranks_on_the_way(run)
    return first / last


def lowest_rank(run: Run) -> list[float]:
    first, lowest, last = ranks_on_the_way(run)
    return [lowest / first, lowest / last]


def second_direction(run: Run) -> float:
    """Share of its final size that a module's second singular value has when the first has half; median over modules
    that have two.

    Between two moments of measurement both are taken to grow at constant speed.
    """
    two = run.trajectory["advised_ranks"].values >= 2
    values = run.trajectory["early_singular_values"].values[:, two, :2]  # [moment, module, 2]
    shares = values / values[-1]
    found = []
    for first, second in np.moveaxis(shares, 0, -1):
        # Singular values may pass half of their final size more than once: the first time counts.
        grown = int(np.argmax(first >= 0.5))
        found.append(np.interp(0.5, first[[grown - 1, grown]], second[[grown - 1, grown]]) if grown else np.nan)
    return float(np.median(found)) if found else np.nan


CLAIMS = listed(
    lora_rank_holds=Claim(
        says="The ranks that hold nine tenths of each matrix's squared change hold as much of what fine-tuning "
        "learned: with the rest of the change taken away, and biases, norms and positions as before, the decrease of "
        "the loss is kept.",
        source=ASKED,
        **LORA,
        measured=lambda run: decrease_kept(run, judged(run, "loss", "held")),
        relation=bounded(lower=0.9, because="as large a share of the decrease as the ranks hold of the squared change"),
    ),
    lora_recovers=Claim(
        says="A LoRA of the ranks that a full fine-tuning's change has, trained from the same start for as many "
        "epochs, recovers the decrease of the loss.",
        source=ASKED,
        **LORA,
        measured=lambda run: decrease_kept(run, judged(run, "loss", "lora")),
        relation=bounded(lower=0.9, because="as large a share of the decrease as the ranks hold of the squared change"),
    ),
    lora_generalises=Claim(
        says="That LoRA has the test accuracy of the full fine-tuning.",
        source=(OURS, "LoRA"),
        **LORA,
        measured=lambda run: judged(run, "test_accuracy", "lora"),
        expected=lambda run: judged(run, "test_accuracy", "full"),
        relation=close(0.03, because="two standard errors of a difference, with 4 % of 360 test images wrong"),
    ),
    lora_needs_less=Claim(
        says="A LoRA needs less rank than the full change has: with rank one everywhere it recovers more than the "
        "first direction of each matrix's full change keeps; more rank still recovers more.",
        source=(OURS, "LoRA"),
        **LORA,
        applies=only(small_rank=1),
        measured=kept_by_rank,
        relation=ordered(because="shares of one decrease, from one start"),
    ),
    lora_rank_grows=Claim(
        says="A LoRA, which begins at BA = 0, gains rank gradually: after one step it has less than at the end.",
        source=ASKED,
        **LORA,
        measured=first_rank,
        relation=bounded(1.0, because="the theory's rank never falls while directions are joining"),
    ),
    lora_rank_recovers=Claim(
        says="A LoRA's rank falls from the first step on, in which Adam gives all entries of B one size, while the "
        "strongest direction takes over, and only then grows, by a twentieth or more.",
        source=(OURS, "LoRA"),
        **LORA,
        measured=lowest_rank,
        relation=bounded(
            0.95, because="a twentieth: with the rate near zero the mean over modules moves by a thousandth"
        ),
        repairs="lora_rank_grows",
    ),
    lora_one_at_a_time=Claim(
        says="The directions of a LoRA appear one after another: when a module's first has half of its final size, the "
        "second has not yet a quarter of its own.",
        source=ASKED,
        **LORA,
        measured=second_direction,
        relation=bounded(0.25, because="in the limit of small weights the second is still at zero; half is no order"),
    ),
    lora_together=Claim(
        says="The directions of a LoRA grow together: when a module's first has half of its final size, the second has "
        "more than a quarter of its own.",
        source=(OURS, "LoRA"),
        **LORA,
        measured=second_direction,
        relation=bounded(lower=0.25, because="the bound of the claim that it repairs: a half would be in step"),
        repairs="lora_one_at_a_time",
    ),
)
