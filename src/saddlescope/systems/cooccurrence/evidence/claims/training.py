"""What the paper's experiment shows (Appendix A, Figure 1), and what becomes of it in other networks (section 5)."""

from __future__ import annotations

from typing import Any

import numpy as np

from saddlescope.core.claim import OURS, Claim, all_of, bounded, only, share_of
from saddlescope.core.run import Run

from ...data import PAPER
from .. import measures

APPENDIX: dict[str, Any] = {"experiment": "appendix", "seeds": all_of(3)}
STEPS = "the figure's axis has 30,000 epochs; both phases are seen on it with the naked eye"


def right_step(run: Run) -> float:
    """The step from which on every training sentence is right; NaN if none is."""
    wrong = np.flatnonzero(run.series("worst_margin") <= 0)
    step = run.trajectory["step"].values
    first = int(wrong[-1]) + 1 if wrong.size else 0
    return float(step[first]) if first < len(step) else np.nan


def after(run: Run) -> np.ndarray:
    return run.trajectory["step"].values >= right_step(run)


def peak_steps(run: Run) -> np.ndarray:
    """Of the losses of both types with one signal."""
    return run.trajectory["step"].values[run.series("type_loss")[:, 1:3].argmax(0)].astype(float)


def rises(run: Run) -> np.ndarray:
    """By what factor these losses rise before they fall."""
    loss = run.series("type_loss")[:, 1:3]
    return loss.max(0) / loss[0]


def share_before(run: Run) -> np.ndarray:
    """Of the four scores' whole change, the part that comes before the step at which all are right."""
    change = measures.signed(run, "score_change")
    place = int(np.searchsorted(run.trajectory["step"].values, right_step(run)))
    return change[min(place, len(change) - 1)] / change[-1]


def phases(run: Run) -> np.ndarray:
    """What makes two phases: the one-signal losses rise first, all sentences become right, the scores have their signs,
    and losses end below a tenth of their peak. Each number is positive where it holds."""
    loss = run.series("type_loss")
    change = measures.signed(run, "score_change")[-1]
    return np.r_[
        rises(run) - 1.001,
        1.0 if np.isfinite(right_step(run)) else -1.0,
        change / np.abs(change).max(),
        0.1 - loss[-1, 1:3] / loss[:, 1:3].max(0),
    ]


APPENDIX_CLAIMS = (
    Claim(
        name="one_signal_loss_rises_first",
        says="The losses of sentences with one signal first rise.",
        source=(PAPER, "section 3, Fig. 1 (b); section 4.1"),
        measured=rises,
        relation=bounded(lower=1.03, because="a rise that a curve shows: 3%"),
        **APPENDIX,
    ),
    Claim(
        name="one_signal_loss_turns_in_phase_1",
        says="They turn within Phase 1, after some hundred epochs.",
        source=(PAPER, "section 3, Fig. 1 (b); Appendix A"),
        measured=lambda run: np.r_[peak_steps(run) / 800, 400 / peak_steps(run), peak_steps(run) / right_step(run)],
        relation=bounded(1.0, because="between 400 and 800 epochs, and before all sentences are right"),
        **APPENDIX,
    ),
    Claim(
        name="appendix_phase_1_ends",
        says="Phase 1 ends after one or two thousand of 30,000 epochs.",
        source=(PAPER, "section 3, Fig. 1; Appendix A"),
        measured=lambda run: [right_step(run) / 2500, 1300 / right_step(run)],
        relation=bounded(1.0, because=STEPS + "; of sixteen pairs of data and start one ends at 1195"),
        experiment="appendix",
        seeds=share_of(0.9, 3),
    ),
    Claim(
        name="appendix_signs",
        says="With a = ±1, as section 2.2 has it, Phase 1 lasts as long.",
        source=(PAPER, "section 2.2, for Appendix A; Fig. 1"),
        measured=lambda run: [right_step(run)],
        relation=bounded(lower=100.0, because=STEPS),
        experiment="appendix_signs",
    ),
    Claim(
        name="appendix_kaiming_output",
        says="With a drawn as all other layers are, Phase 1 lasts for more than a thousand epochs.",
        source=(OURS, "Appendix A; Fig. 1"),
        measured=lambda run: [right_step(run)],
        relation=bounded(lower=1000.0, because=STEPS),
        repairs="appendix_signs",
        **APPENDIX,
    ),
    Claim(
        name="appendix_scores_part",
        says="From the end of Phase 1 on scores between the signals rise, those of μ3 fall, without a step back.",
        source=(PAPER, "section 3, Fig. 1 (a)"),
        measured=lambda run: np.diff(measures.signed(run, "score_change")[after(run)], axis=0),
        relation=bounded(lower=0.0, because="monotone at every saved step"),
        **APPENDIX,
    ),
    Claim(
        name="appendix_scores_rest",
        says="During Phase 1 scores do not change significantly: less than a fifth of their whole change.",
        source=(PAPER, "section 3, Fig. 1 (a); Theorem 3.1"),
        measured=share_before,
        relation=bounded(0.2, because="a fifth; m = 128 is no limit, and 7 to 19% are found"),
        **APPENDIX,
    ),
    Claim(
        name="appendix_losses_fall",
        says="During Phase 2 the losses of all four types fall.",
        source=(PAPER, "section 3, Fig. 1 (b)"),
        measured=lambda run: -np.diff(np.log(run.series("type_loss")[after(run)]), axis=0),
        relation=bounded(lower=0.0, because="monotone at every saved step"),
        **APPENDIX,
    ),
    Claim(
        name="both_signals_loss_falls",
        says="The loss of sentences with both signals falls from the start.",
        source=(PAPER, "section 3, Fig. 1 (b)"),
        measured=lambda run: -np.diff(np.log(run.series("type_loss")[:, 0])),
        relation=bounded(lower=0.0, because="monotone at every saved step"),
        **APPENDIX,
    ),
    Claim(
        name="appendix_with_distinct_words",
        says="With all irrelevant words distinct, which takes more than 64, both phases look the same.",
        source=(OURS, "Assumption 2.3; Appendix A"),
        measured=phases,
        relation=bounded(lower=0.0, because="each mark of the two phases, as in `phases`"),
        experiment="appendix_distinct",
    ),
)


def _survive(name: str, what: str, where: str, **fields: Any) -> Claim:
    return Claim(
        name=name,
        says=f"Both phases survive {what}.",
        source=(OURS, where),
        measured=phases,
        relation=bounded(lower=0.0, because="each mark of the two phases, as in `phases`"),
        applies=only(**fields),
        experiment="variants",
    )


VARIANT_CLAIMS = (
    _survive("phases_with_relu", "a ReLU in the MLP", "section 5", activation="relu"),
    _survive("phases_with_trained_output", "training a as well", "section 2.2; section 5", trained_output=True),
    _survive("phases_with_two_heads", "a second head", "section 5, multi-headed attention", heads=2),
    _survive("phases_with_two_layers", "a second layer", "section 5, multi-layer transformer", layers=2),
    _survive("phases_with_momentum", "momentum", "section 5, momentum", optimizer="momentum"),
    _survive("phases_with_adam", "Adam", "section 5, adaptive learning rate", optimizer="adam"),
    Claim(
        name="adam_skips_the_rise",
        says="With Adam one-signal losses never rise: every weight moves at one speed, whatever its gradient's size.",
        source=(OURS, "section 5, adaptive learning rate"),
        measured=rises,
        relation=bounded(1.001, because="no rise of a thousandth"),
        applies=only(optimizer="adam"),
        experiment="variants",
        repairs="phases_with_adam",
    ),
)
