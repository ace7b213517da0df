"""What the paper says of Phase 2: Theorems 3.2 and 3.3, Lemmas 4.4 to 4.7, Appendix F; and where it ends."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from saddlescope.core.claim import OURS, Claim, all_of, bounded, close, monotone, only, rows_over, scales_as, together
from saddlescope.core.experiment import listed
from saddlescope.core.run import Run

from ...data import PAPER
from .. import measures
from ..measures import efolds, largest, moments, second_phase
from .phase1 import NO_POWER, POLYLOG, SWEEP, WIDE, WIDTHS, distinct_words, wide

COUNTS: dict[str, Any] = {"experiment": "counts"}
ALL_COUNTS: dict[str, Any] = {**COUNTS, "seeds": all_of(8), "applies": distinct_words}
FROM_2_14: dict[str, Any] = {"experiment": "widths", "seeds": all_of(4), "applies": wide(2**14)}
FROM_2_17: dict[str, Any] = {"experiment": "widths", "seeds": all_of(3), "applies": wide(2**17)}
SIGNS = "a sign, at every saved time from T1 to the end"
SLOW = "limits are approached as 1/ln τ or slower; τ = 3e6"


def _sentences(which: Callable[[int, int], bool], what: str) -> Callable[[Run], str | None]:
    """For `applies`: runs whose number of sentences stands so to 3(L+1)."""

    def reason(run: Run) -> str | None:
        from ...prediction import threshold

        spec = run.system.spec
        if why := distinct_words(run):
            return why
        return None if which(spec.samples, threshold(spec.tokens)) else f"a statement about n {what} 3(L+1)"

    return reason


def to_the_end(*names: str) -> Callable[[Sequence[Run]], np.ndarray]:
    """Rows (m, largest change between T1 and the end)."""
    return rows_over("width", lambda run: [largest(run, name, second_phase) for name in names])


PHASE_2_CLAIMS = listed(
    # ---- Theorem 3.2
    scores_move_apart=Claim(
        says="After T1 scores between μ1 and μ2 rise, and those of μ3 as seen from μ1 and μ2 fall.",
        source=(PAPER, "Theorem 3.2; Lemma 4.7; Lemma F.16"),
        measured=lambda run: measures.signed(run, "score_rate")[second_phase(run)],
        relation=bounded(lower=0.0, because=SIGNS),
        **WIDE,
    ),
    values_move_apart=Claim(
        says="After T1 values of μ1 and μ2 become more alike, and both less like that of μ3; both grow in length.",
        source=(PAPER, "Theorem 3.2; Corollary 4.6; Corollary F.13"),
        measured=lambda run: measures.signed(run, "value_gram_rate", ((0, 1), (0, 0), (1, 1)), ((0, 2), (1, 2)))[
            second_phase(run)
        ],
        relation=bounded(lower=0.0, because=SIGNS),
        **WIDE,
    ),
    second_phase_values=Claim(
        says="After T1 G1, G2 and −G3 stay of order one, and grow.",
        source=(PAPER, "Theorem 3.2; Definition F.1"),
        measured=measures.late_values,
        relation=bounded(lower=0.4, because="of order one; they are 0.55 or more at T1"),
        **WIDE,
    ),
    three_words_together=Claim(
        says="After T1 G1 + G2 + G3 is positive, of order one.",
        source=(PAPER, "Theorem 3.2"),
        measured=lambda run: measures.value_sums(run)[0, second_phase(run)],
        relation=bounded(lower=0.3, because="of order one; 0.75 or more at T1"),
        **WIDE,
    ),
    two_words_together=Claim(
        says="From the moment at which all training sentences are right, G1 + G3 and G2 + G3 are negative.",
        source=(PAPER, "Theorem 3.2, with T1 as Theorem 3.1 has it"),
        measured=lambda run: measures.value_sums(run)[1:, second_phase(run)],
        relation=bounded(lower=0.0, because=SIGNS),
        **WIDE,
    ),
    two_words_together_later=Claim(
        says="G1 + G3 and G2 + G3 are negative from 20 T1 on; at T1 the sentence's own words make up for them.",
        source=(OURS, "Theorem 3.2"),
        measured=lambda run: measures.value_sums(run)[1:, second_phase(run, 20)],
        relation=bounded(lower=0.05, because="negative, and not by rounding; n = 60 is 3.3 times the threshold"),
        repairs="two_words_together",
        **WIDE,
    ),
    # ---- balance
    one_signal_types_balance=Claim(
        says="During Phase 2 gradients of both types with one signal differ by a small share of either.",
        source=(PAPER, "Lemma 4.4; Lemma F.5"),
        measured=measures.one_signal_gap,
        relation=bounded(0.1, because="a constant well below one"),
        **WIDE,
    ),
    gradient_gaps=Claim(
        says="During Phase 2 no gap between the types' gradients is small against their sum, nor G1' against G2'.",
        source=(PAPER, "Lemma 4.5; Lemma F.6"),
        measured=measures.gradient_ratios,
        relation=bounded(20.0, because="a constant: in the limit of seven numbers the largest is 8.22/1.05 = 7.8"),
        **WIDE,
    ),
    balance=Claim(
        says="During Phase 2 −G3' lies between (1+C) max(G1', G2') and (1−C)(G1' + G2').",
        source=(PAPER, "Lemma 4.5; Lemma F.6"),
        measured=lambda run: measures.balance_margins(run, second_phase(run)),
        relation=bounded(lower=0.2, because="a constant C: the limit for n = 60, L = 5 is 0.27"),
        **WIDE,
    ),
    balance_ratio=Claim(
        says="R = −G3'/G1' ends where four numbers, the shares of the types, balance.",
        source=(OURS, "Lemma 4.5"),
        measured=lambda run: run.series("balance_ratio")[-1],
        expected=lambda run: measures.seven_end(run)[0],
        relation=close(0.006, because="with the seven numbers at the same τ; the width is a million"),
        **ALL_COUNTS,
    ),
    balance_ratio_limit=Claim(
        says="R tends to (2 + c − ρ)/(ρ − 1), ρ and c closed forms in n and L, whether or not the fourth type counts.",
        source=(OURS, "Lemma 4.5"),
        measured=lambda run: run.series("balance_ratio")[-1],
        expected=lambda run: measures.limit_of(run).ratio,
        relation=close(0.01, because=SLOW + ": of n = 36, L = 5, where the fourth type hardly counts, 0.7% are left"),
        **ALL_COUNTS,
    ),
    threshold=Claim(
        says="At n = 3(L+1) sentences R is exactly 1: below it the lower half of the balance fails.",
        source=(OURS, "Lemma 4.5"),
        measured=lambda run: run.series("balance_ratio")[-1],
        expected=1.0,
        relation=close(2e-3, because=SLOW),
        applies=_sentences(operator.eq, "="),
        **COUNTS,
    ),
    balance_root=Claim(
        says="R tends to the positive root of the quadratic in Lemma F.6's proof: 3/2 with infinitely many sentences.",
        source=(PAPER, "Eq. (16), proof of Lemma F.6; the number is ours"),
        measured=measures.balance_root,
        expected=(1.5, 1.5),
        relation=close(1e-3, because="τ = 1e7 and widths from 2^10 on: G1' and G2' part by 1/m"),
        applies=lambda run: None if run.system.spec.samples is None else "a statement about n = infinity",
        experiment="endless",
        seeds=all_of(6),
    ),
    pulls_are_ordered=Claim(
        says="During Phase 2 Σ g of the types is ordered: I4, I2 and I3, I1, and I1 is less than the three together.",
        source=(PAPER, "Definition F.1"),
        measured=measures.order_of_pulls,
        relation=bounded(lower=0.0, because=SIGNS),
        **WIDE,
    ),
    # ---- losses
    training_loss=Claim(
        says="During Phase 2 1/L̂ grows in proportion to σ1² m m1 (t − T1).",
        source=(PAPER, "Theorem F.8; Theorem 3.3"),
        measured=lambda run: efolds(measures.loss_pace(run)),
        relation=bounded(
            1.0, because="Θ: within a factor e of 1/8.22, the closed form, from 2 T1 to the end at every width"
        ),
        **WIDE,
    ),
    readout_stays_small=Claim(
        says="|s|² grows by at most (m1/m) (ln τ)², up to constants, at every width.",
        source=(PAPER, "Corollary F.9; Lemma F.10"),
        measured=measures.readout_ratio,
        relation=bounded(
            6.5, because="a constant, at τ = 3e6: G starts late, so that it is below L τ = 8.22 of the limit"
        ),
        **WIDE,
    ),
    training_loss_exponent=Claim(
        says="During Phase 2 the training loss falls as 1/∫(|s|² + A |W_V μ1|²) dt.",
        source=(OURS, "Theorem F.8"),
        measured=measures.loss_slope,
        expected=-1.0,
        relation=close(0.02, because="L̂ ∫|s|² dt reaches its limit as 1/τ; attention adds nothing at any width"),
        **WIDE,
    ),
    training_loss_constant=Claim(
        says="L τ tends to a constant of closed form in n and L: 8.22 for 60 sentences of 5 words.",
        source=(OURS, "Theorem F.8"),
        measured=lambda run: run.series("loss_tau")[-1],
        expected=lambda run: run.prediction.observables["loss_tau"],
        relation=close(0.015, because=SLOW + "; the width is a million"),
        **ALL_COUNTS,
    ),
    training_loss_constant_over_widths=Claim(
        says="The same constant from width 2^14 on.",
        source=(OURS, "Theorem F.8"),
        measured=lambda run: run.series("loss_tau")[-1],
        expected=lambda run: measures.limit_of(run).loss_tau,
        relation=close(0.02, because="|s|² grows by (ln τ)²/m, which the clock τ leaves out: 1.8% at m = 2^14"),
        **FROM_2_14,
    ),
    endless_constants=Claim(
        says="With infinitely many sentences L τ tends to 17, G1 and G2 grow as 2 ln τ, −G3 as 3 ln τ.",
        source=(OURS, "Lemma 4.5; Theorem F.8"),
        measured=measures.end_constants,
        expected=(17.0, 2.0, 2.0, -3.0),
        relation=close(1e-3, because="at width 1e9 and τ = 1e7; the clock is off by σ0²/σ1² = 2.5e-4"),
        applies=lambda run: None if run.system.spec.width >= 10**9 else "at less width |s|² grows",
        experiment="endless",
        seeds=all_of(2),
    ),
    small_training_loss=Claim(
        says="Within polynomial time the training loss is below 1/m.",
        source=(PAPER, "Theorem 3.3; Theorem F.20"),
        measured=measures.loss_in_widths,
        relation=bounded(1.0, because="widths up to 2^17, whose 1/m the horizon τ = 3e6 reaches"),
        applies=lambda run: None if 2**8 <= run.system.spec.width <= 2**17 else "its 1/m is out of the horizon's reach",
        experiment="widths",
        seeds=all_of(5),
    ),
    generalisation_anywhere=Claim(
        says="The test loss falls to 1/poly(m) as the training loss does, whatever the number of sentences.",
        source=(PAPER, "Theorem 3.3, without Condition 1's n >= L²"),
        measured=measures.test_loss_left,
        relation=bounded(0.5, because="from T1, where it is of order one, to τ = 3e6; the training loss falls by 1e-5"),
        **ALL_COUNTS,
    ),
    generalisation=Claim(
        says="The margin of the worst fresh sentence grows as γ ln τ, γ = s3 − s1 < 1: the test loss falls as τ^-γ, "
        "with more than 3(L+1) sentences.",
        source=(OURS, "Theorem 3.3"),
        measured=measures.test_slope,
        expected=lambda run: measures.limit_of(run).exponent,
        relation=close(0.15, because=SLOW + ": of n = 36, L = 5, where the fourth type hardly counts, 8% are left"),
        applies=_sentences(operator.ne, "other than"),
        seeds=all_of(7),
        repairs="generalisation_anywhere",
        **COUNTS,
    ),
    fresh_sentences_below_the_threshold=Claim(
        says="Fresh sentences with one signal end up wrong where there are fewer than 3(L+1) training sentences.",
        source=(OURS, "Theorem 3.3; Lemma 4.5"),
        measured=lambda run: run.series("test_margin")[-1][1:3],
        relation=bounded(0.0, because="a margin below zero is wrong"),
        applies=_sentences(operator.lt, "below"),
        **COUNTS,
    ),
    all_types_at_one_rate=Claim(
        says="Losses of all sentences, whatever their type, fall at almost the same rate.",
        source=(PAPER, "abstract; section 4.2"),
        measured=measures.type_slopes,
        expected=(1.0,) * 4,
        relation=close(0.15, because=SLOW),
        **FROM_2_14,
    ),
    types_at_their_rates=Claim(
        says="Losses of sentences with a signal fall as 1/τ; that of sentences without falls faster, as τ^-s3, where "
        "it does not count.",
        source=(OURS, "abstract; section 4.2"),
        measured=measures.type_slopes,
        expected=lambda run: measures.limit_of(run).margins,
        relation=close(0.06, because=SLOW),
        **FROM_2_14,
        repairs="all_types_at_one_rate",
    ),
    sentences_of_a_type_are_alike=Claim(
        says="During Phase 2 g of sentences of one type differs by a constant factor at most.",
        source=(PAPER, "Corollary F.2"),
        measured=measures.spread_within_types,
        relation=bounded(3.0, because="a constant; at T1 margins differ by F(0), whose spread is 0.1"),
        **WIDE,
    ),
    # ---- readout, values
    readout_grows=Claim(
        says="While all sentences are right |s|² grows.",
        source=(PAPER, "Eq. (5); Lemma F.4"),
        measured=lambda run: run.series("readout_change")[second_phase(run)],
        relation=monotone("rises", because="its rate is 2A Σ g y F/n, a sum of positive terms"),
        **WIDTHS,
    ),
    readout_grows_little=Claim(
        says="It grows as (m1/m) (ln τ)², with the coefficient L τ of the limit.",
        source=(OURS, "Corollary F.9; Lemma F.10"),
        measured=lambda run: measures.bend(run, run.series("readout_change")),
        expected=measures.expected_readout_bend,
        relation=close(0.02, because="from τ = 1e3 to 3e6; at less width |s|² grows, by (ln τ)²/m of itself"),
        **FROM_2_17,
    ),
    value_growth=Claim(
        says="During Phase 2 inner products of values change by 1/(σ1² m m1), up to logarithms.",
        source=(PAPER, "Lemma F.11"),
        measured=to_the_end("moved_values"),
        relation=scales_as(-1.0, 0.05, because=NO_POWER),
        **SWEEP,
    ),
    values_outrun_neurons=Claim(
        says="G changes because values move: what the motion of neurons adds is below a hundredth of Σ g/(n L).",
        source=(PAPER, "section 4.2; Definition F.1; Corollary F.12"),
        measured=measures.neuron_share,
        relation=bounded(0.01, because="o(1/L): from width 2^14 on it is below that, and falls as 1/m to σ0²/σ1²"),
        **FROM_2_14,
    ),
    value_ratios=Claim(
        says="During Phase 2 G1, G2 and −G3 keep ratios of order one.",
        source=(PAPER, "Corollary F.7"),
        measured=measures.value_spread,
        relation=bounded(1.0, because="within a factor e of each other"),
        **WIDE,
    ),
    values_are_logarithmic=Claim(
        says="G of the three words is of order ln τ: it grows by s1, s2 and −s3 per ln τ.",
        source=(OURS, "Definition F.1"),
        measured=lambda run: measures.late_slope(run, run.series("value")[:, :3]),
        expected=lambda run: measures.limit_of(run).slopes,
        relation=close(0.03, because=SLOW),
        **FROM_2_14,
    ),
    words_add_order_one=Claim(
        says="What irrelevant words add to F stays of order one during Phase 2.",
        source=(PAPER, "Definition F.1; Corollary F.15"),
        measured=measures.largest_word_slope,
        relation=bounded(0.1, because="per ln τ: what stays of order one has no slope"),
        **FROM_2_14,
    ),
    words_add_logarithms=Claim(
        says="What irrelevant words add to y F grows as (1 − γ_t) ln τ, the part of a margin's growth that fresh "
        "sentences of its type lack.",
        source=(OURS, "Corollary F.15; Lemma F.14"),
        measured=measures.word_slopes,
        expected=lambda run: measures.expected_word_slopes(run)[:3],
        relation=close(0.03, because=SLOW),
        **FROM_2_14,
        repairs="words_add_order_one",
    ),
    words_are_learned_by_their_share=Claim(
        says="G of an irrelevant word moves at most as |s|² L̂/n.",
        source=(PAPER, "Lemma F.14"),
        measured=measures.word_value_growth,
        relation=bounded(
            2.0, because="g of a sentence is at most 1.75 times the mean: I2 has 0.29 of Σ g, by a sixth of all"
        ),
        **FROM_2_14,
    ),
    # ---- attention
    score_changes_over_widths=Claim(
        says="By the end of Phase 2 C12, C21, −C31, −C32 are of order σ0² √m/(L σ1² m m1): they fall as m^(-3/2).",
        source=(PAPER, "Eq. (3); Theorem 3.3; Lemma F.16"),
        measured=rows_over("width", lambda run: measures.score_sizes(run)[-1]),
        relation=scales_as(0.0, 0.05, because=NO_POWER),
        **SWEEP,
    ),
    score_changes_without_logarithms=Claim(
        says="They are so without logarithms: the ratio to that size does not grow with τ.",
        source=(PAPER, "Theorem 3.3; Lemma F.16"),
        measured=measures.score_growth,
        relation=bounded(2.0, because="a constant, from τ = 100 to 3e6"),
        **WIDE,
    ),
    score_changes_with_logarithms=Claim(
        says="They grow as (ln τ)², with a coefficient of closed form in n and L.",
        source=(OURS, "Theorem 3.3; Lemma F.16"),
        measured=measures.score_bends,
        expected=measures.expected_bends,
        relation=close(0.02, because="from τ = 1e3 to 3e6; at less width |s|² grows, by (ln τ)²/m of itself"),
        **FROM_2_17,
        repairs="score_changes_without_logarithms",
    ),
    scores_of_words_move_less=Claim(
        says="Scores with an irrelevant word change less, by 1/n of it and by chance that falls with the width.",
        source=(PAPER, "Theorem 3.3; Lemma F.16"),
        measured=measures.word_score_ratio,
        relation=bounded(8.0, because=POLYLOG),
        **WIDE,
    ),
    score_rates=Claim(
        says="During Phase 2 the four scores move at L̂ σ0² √m/L, times ln τ.",
        source=(PAPER, "Eq. (7); Lemma 4.7; Lemma F.16"),
        measured=lambda run: efolds(measures.score_rate_sizes(run), measures.score_rate_limit(run)),
        relation=bounded(1.0, because="within a factor e of one constant from τ = 1e3 on: G is ln τ plus a constant"),
        **WIDE,
    ),
    attention_rates_as_stated=Claim(
        says="Softmax probabilities between μ1 and μ2 move at L̂ σ0² m/(√m L²).",
        source=(PAPER, "Corollary F.17"),
        measured=rows_over("width", lambda run: measures.attention_rate_sizes(run, 0.5)),
        relation=scales_as(0.0, 0.05, because=NO_POWER),
        **SWEEP,
    ),
    attention_rates=Claim(
        says="They move at L̂ σ0² m/(m L²), as the corollary's proof has it.",
        source=(PAPER, "Corollary F.17, proof"),
        measured=rows_over("width", lambda run: measures.attention_rate_sizes(run, 1.0)),
        relation=scales_as(0.0, 0.05, because=NO_POWER),
        repairs="attention_rates_as_stated",
        **SWEEP,
    ),
    attention_moves_apart=Claim(
        says="During Phase 2 attention between μ1 and μ2 rises, and that from them to μ3 falls.",
        source=(PAPER, "Corollary F.17"),
        measured=lambda run: measures.signed(run, "attention_rate")[second_phase(run)],
        relation=bounded(lower=0.0, because=SIGNS),
        **WIDE,
    ),
    attention_to_words_as_stated=Claim(
        says="Attention from a signal to an irrelevant word moves by (1/n + L/√m) of that between the signals at most.",
        source=(PAPER, "Corollary F.17"),
        measured=measures.stated_word_attention,
        relation=bounded(3.0, because="a constant; from width 2^14 on it should not grow"),
        **FROM_2_14,
    ),
    attention_to_words_moves_less=Claim(
        says="It moves by some 1/L of that: the softmax takes from words what it gives to signals.",
        source=(OURS, "Corollary F.17"),
        measured=measures.word_attention_ratio,
        relation=bounded(0.25, because="of order 1/L = 0.2, from τ = 1e3 on at every width"),
        **FROM_2_14,
        repairs="attention_to_words_as_stated",
    ),
    attention_hardly_moves=Claim(
        says="To the end softmax probabilities change by m^-2, far less than the 1/L² that Phase 2 allows.",
        source=(PAPER, "Corollary F.17; Definition F.1"),
        measured=to_the_end("moved_attention"),
        relation=scales_as(-2.0, 0.05, because=NO_POWER),
        **SWEEP,
    ),
    attention_adds_little=Claim(
        says="What moving attention adds to F' is a small share of |s|² Σ g/n.",
        source=(PAPER, "Corollary F.18; Definition F.1"),
        measured=lambda run: run.series("attention_share")[second_phase(run)],
        relation=bounded(1e-4, because="o(1): it is 6e-7 at width 2^8 and falls as m^-2"),
        **WIDE,
    ),
    keys_and_queries_in_phase_2=Claim(
        says="To the end inner products of keys and of queries change by σ0²/(σ1² m m1), up to logarithms: by m^-2.",
        source=(PAPER, "Lemma F.19"),
        measured=to_the_end("moved_keys", "moved_queries"),
        relation=scales_as(-2.0, 0.1, because=NO_POWER),
        **SWEEP,
    ),
    # ---- settings
    neurons_set_no_time=Claim(
        says="T1 does not depend on the number of neurons either, in the clock |s|² t.",
        source=(OURS, "section 5; Theorem 3.1"),
        measured=rows_over("hidden", lambda run: moments(run)[1]),
        relation=scales_as(0.0, 0.03, because="one start at each of five numbers from 2^6 to 2^17"),
        experiment="neurons",
        seeds=together(5),
    ),
    small_starts_set_the_limit=Claim(
        says="As the start shrinks, T0.5 and T1 tend to those of the seven numbers.",
        source=(OURS, "section 5; section 4.1"),
        measured=moments,
        expected=measures.limit_moments,
        relation=close(0.02, because="T1 moves by some ten times init_scale, which is 1e-3 or less"),
        applies=lambda run: None if run.system.spec.init_scale <= 1e-3 else "its start is not small",
        experiment="small_starts",
        seeds=all_of(2),
    ),
    words_may_repeat=Claim(
        says="With words that repeat, even in topics, one-signal losses rise first, all sentences become right, and "
        "scores move as in Theorem 3.2.",
        source=(PAPER, "section 2.1; section 5, correlated tokens"),
        measured=measures.words_may_repeat,
        relation=bounded(
            lower=0.0, because="T0.5 after the start, T1 below 100, a thousandth of the run, and four signs"
        ),
        experiment="words",
        seeds=all_of(3),
    ),
    balance_with_topics=Claim(
        says="Balance holds with words that come in topics.",
        source=(OURS, "section 5, correlated tokens; Lemma 4.5"),
        measured=lambda run: measures.balance_margins(run, second_phase(run))[:, -1],
        relation=bounded(lower=0.0, because="C > 0 at the end"),
        experiment="words",
        seeds=all_of(3),
    ),
    balance_with_repeated_words=Claim(
        says="Balance holds with words that repeat independently of each other.",
        source=(OURS, "section 2.1; Lemma 4.5"),
        measured=lambda run: measures.balance_margins(run, second_phase(run))[:, -1],
        relation=bounded(lower=0.0, because="C > 0 at the end"),
        applies=only(topics=1),
        experiment="words",
        repairs="balance_with_topics",
    ),
)
