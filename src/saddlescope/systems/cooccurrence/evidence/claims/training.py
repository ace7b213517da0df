"""What the paper's experiment shows (Appendix A, Figure 1), and what becomes of it in other networks (section 5)."""

from __future__ import annotations

from typing import Any

from saddlescope.core.claim import OURS, Claim, all_of, bounded, monotone, only, share_of
from saddlescope.core.experiment import listed

from ...data import PAPER
from ..measures import after, log_losses, phases, right_step, right_window, rises, share_before, signed, turn_window

APPENDIX: dict[str, Any] = {"experiment": "appendix", "seeds": all_of(3)}
STEPS = "the figure's axis has 30,000 epochs; both phases are seen on it with the naked eye"

APPENDIX_CLAIMS = listed(
    one_signal_loss_rises_first=Claim(
        says="The losses of sentences with one signal first rise.",
        source=(PAPER, "section 3, Fig. 1 (b); section 4.1"),
        measured=rises,
        relation=bounded(lower=1.03, because="a rise that a curve shows: 3%"),
        **APPENDIX,
    ),
    one_signal_loss_turns_in_phase_1=Claim(
        says="They turn within Phase 1, after some hundred epochs.",
        source=(PAPER, "section 3, Fig. 1 (b); Appendix A"),
        measured=turn_window,
        relation=bounded(1.0, because="between 400 and 800 epochs, and before all sentences are right"),
        **APPENDIX,
    ),
    appendix_phase_1_ends=Claim(
        says="Phase 1 ends after one or two thousand of 30,000 epochs.",
        source=(PAPER, "section 3, Fig. 1; Appendix A"),
        measured=right_window,
        relation=bounded(1.0, because=STEPS + "; of sixteen pairs of data and start one ends at 1195"),
        experiment="appendix",
        seeds=share_of(0.9, 3),
    ),
    appendix_signs=Claim(
        says="With a = ±1, as section 2.2 has it, Phase 1 lasts as long.",
        source=(PAPER, "section 2.2, for Appendix A; Fig. 1"),
        measured=right_step,
        relation=bounded(lower=100.0, because=STEPS),
        experiment="appendix_signs",
    ),
    appendix_kaiming_output=Claim(
        says="With a drawn as all other layers are, Phase 1 lasts for more than a thousand epochs.",
        source=(OURS, "Appendix A; Fig. 1"),
        measured=right_step,
        relation=bounded(lower=1000.0, because=STEPS),
        repairs="appendix_signs",
        **APPENDIX,
    ),
    appendix_scores_part=Claim(
        says="From the end of Phase 1 on scores between the signals rise, those of μ3 fall, without a step back.",
        source=(PAPER, "section 3, Fig. 1 (a)"),
        measured=lambda run: signed(run, "score_change")[after(run)].T,
        relation=monotone("rises", because="at every saved step"),
        **APPENDIX,
    ),
    appendix_scores_rest=Claim(
        says="During Phase 1 scores do not change significantly: less than a fifth of their whole change.",
        source=(PAPER, "section 3, Fig. 1 (a); Theorem 3.1"),
        measured=share_before,
        relation=bounded(0.2, because="a fifth; m = 128 is no limit, and 7 to 19% are found"),
        **APPENDIX,
    ),
    appendix_losses_fall=Claim(
        says="During Phase 2 the losses of all four types fall.",
        source=(PAPER, "section 3, Fig. 1 (b)"),
        measured=lambda run: log_losses(run)[after(run)].T,
        relation=monotone("falls", because="at every saved step"),
        **APPENDIX,
    ),
    both_signals_loss_falls=Claim(
        says="The loss of sentences with both signals falls from the start.",
        source=(PAPER, "section 3, Fig. 1 (b)"),
        measured=lambda run: log_losses(run)[:, 0],
        relation=monotone("falls", because="at every saved step"),
        **APPENDIX,
    ),
    appendix_with_distinct_words=Claim(
        says="With all irrelevant words distinct, which takes more than 64, both phases look the same.",
        source=(OURS, "Assumption 2.3; Appendix A"),
        measured=phases,
        relation=bounded(lower=0.0, because="each mark of the two phases, as in `phases`"),
        experiment="appendix_distinct",
    ),
)


def _survive(what: str, where: str, **fields: Any) -> Claim:
    return Claim(
        says=f"Both phases survive {what}.",
        source=(OURS, where),
        measured=phases,
        relation=bounded(lower=0.0, because="each mark of the two phases, as in `phases`"),
        applies=only(**fields),
        experiment="variants",
    )


VARIANT_CLAIMS = listed(
    phases_with_relu=_survive("a ReLU in the MLP", "section 5", activation="relu"),
    phases_with_trained_output=_survive("training a as well", "section 2.2; section 5", trained_output=True),
    phases_with_two_heads=_survive("a second head", "section 5, multi-headed attention", heads=2),
    phases_with_two_layers=_survive("a second layer", "section 5, multi-layer transformer", layers=2),
    phases_with_momentum=_survive("momentum", "section 5, momentum", optimizer="momentum"),
    phases_with_adam=_survive("Adam", "section 5, adaptive learning rate", optimizer="adam"),
    adam_skips_the_rise=Claim(
        says="With Adam one-signal losses never rise: every weight moves at one speed, whatever its gradient's size.",
        source=(OURS, "section 5, adaptive learning rate"),
        measured=rises,
        relation=bounded(1.001, because="no rise of a thousandth"),
        applies=only(optimizer="adam"),
        experiment="variants",
        repairs="phases_with_adam",
    ),
)
