"""What the paper says of starts and of Phase 1: Theorem 3.1, Lemmas 4.1 to 4.3, Appendices D and E."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from saddlescope.core.claim import OURS, Claim, all_of, bounded, close, rows_over, scales_as, share_of, together
from saddlescope.core.experiment import listed
from saddlescope.core.run import Run

from ...data import PAPER
from .. import measures
from ..measures import efolds, largest, mean_of, moments

STARTS: dict[str, Any] = {"experiment": "starts", "seeds": share_of(0.9, 60)}
"""With δ = 0.1, nine starts of ten."""

ALL_STARTS: dict[str, Any] = {"experiment": "starts", "seeds": together(60)}

WIDTHS: dict[str, Any] = {"experiment": "widths", "seeds": all_of(7)}
SWEEP: dict[str, Any] = {"experiment": "widths", "seeds": together(7)}

UNION = "the lemma's own bound, for δ = 0.1"
NORMAL = "twenty times three starts of some hundred numbers each: their spread is known to a few percent"
NO_POWER = (
    "widths from 2^8 to 1e9, of which those above 2^12 share their random numbers: chance is worth some hundredths"
)
POLYLOG = "the paper leaves constants and logarithms open: this bound does not grow from width 2^8 to 1e9, that is all"


def wide(least: int) -> Callable[[Run], str | None]:
    """For `applies`: what the paper proves, under Condition 1 and up to a power of 1/m."""

    def reason(run: Run) -> str | None:
        if run.system.spec.width < least:
            return f"width {run.system.spec.width}: its 1/m is not small yet"
        return distinct_words(run) or enough_sentences(run)

    return reason


def distinct_words(run: Run) -> str | None:
    """Assumption 2.3, for a number of sentences."""
    spec = run.system.spec
    if spec.samples is None or spec.vocabulary is not None:
        return "a statement about a number of sentences whose irrelevant words all differ"
    return None if spec.width >= 2**8 else f"width {spec.width}: its 1/m is not small yet"


def enough_sentences(run: Run) -> str | None:
    """Condition 1 has n >= L²; what the balance needs is n > 3(L+1)."""
    from ...prediction import threshold

    spec = run.system.spec
    if spec.samples <= threshold(spec.tokens):
        return f"{spec.samples} sentences of {spec.tokens} words are fewer than Condition 1 asks for"
    return None


WIDE: dict[str, Any] = {**WIDTHS, "applies": wide(2**8)}


def during_phase_1(name: str) -> Callable[[Sequence[Run]], np.ndarray]:
    """Rows (m, largest change)."""
    return rows_over("width", lambda run: largest(run, name))


def _spread(measured: Callable[[Run], np.ndarray]) -> Callable[[Sequence[Run]], list[float]]:
    """Of numbers that should be standard normal."""
    return lambda runs: [float(np.sqrt(np.mean(np.concatenate([measured(run).ravel() for run in runs]) ** 2)))]


STARTS_CLAIMS = listed(
    initial_keys_and_queries=Claim(
        says="At the start W_K and W_Q map words to nearly orthogonal vectors: all inner products are within "
        "σ0² m (√(4/m log(2d/δ)) + 4/m log(2d/δ)) of σ0² m I.",
        source=(PAPER, "Lemma D.1; Lemma H.2"),
        measured=measures.key_query_ratio,
        relation=bounded(1.0, because=UNION),
        **STARTS,
    ),
    initial_attention_is_uniform=Claim(
        says="Attention starts uniform, up to a normal number of size σ0²/L, which is of order 1/(L² m).",
        source=(PAPER, "Corollary D.2"),
        measured=_spread(measures.initial_attention),
        expected=1.0,
        relation=close(0.05, because=NORMAL),
        **ALL_STARTS,
    ),
    initial_values_and_neurons=Claim(
        says="At the start W_V's words and the neurons are nearly orthogonal, to each other too.",
        source=(PAPER, "Lemma D.3; Lemma H.2"),
        measured=measures.value_ratios,
        relation=bounded(1.0, because=UNION),
        **STARTS,
    ),
    initial_mixed_values=Claim(
        says="|W_V X p|² is σ0² m/L, up to √(4/m log(2nL/δ)) of it.",
        source=(PAPER, "Lemma D.4"),
        measured=measures.mixed_value_ratio,
        relation=bounded(1.0, because=UNION),
        **STARTS,
    ),
    initial_neuron_outputs=Claim(
        says="A neuron's output w_j W_V X p is a normal number of size σ0 σ1 √(m/L).",
        source=(PAPER, "Corollary D.5"),
        measured=_spread(measures.neuron_outputs),
        expected=1.0,
        relation=close(0.05, because=NORMAL),
        **ALL_STARTS,
    ),
    initial_signs=Claim(
        says="Half of the neurons have a_j = +1, up to √m1 of them.",
        source=(PAPER, "Lemma D.6"),
        measured=_spread(measures.sum_of_signs),
        expected=1.0,
        relation=close(0.25, because="one number of each of sixty starts: its size is known to a tenth"),
        **ALL_STARTS,
    ),
    initial_values=Claim(
        says="G(0) of a word is of size σ0 σ1 √(m m1).",
        source=(PAPER, "Lemma D.7; Proposition E.8"),
        measured=_spread(measures.initial_values),
        expected=1.0,
        relation=close(0.05, because=NORMAL),
        **ALL_STARTS,
    ),
    initial_outputs_below_a_hundredth=Claim(
        says="F(0) is at most 0.01, with σ0 = 1/(10 √(L m)).",
        source=(PAPER, "Lemma D.8"),
        measured=measures.largest_output,
        relation=bounded(
            0.01, because="the number that the lemma prints; it rests on logarithms that Condition 1 hides"
        ),
        **STARTS,
    ),
    initial_outputs=Claim(
        says="F(0) is of size σ0 σ1 √(L m m1), which has no power of m: it is small only where σ0 is.",
        source=(PAPER, "Lemma D.8; Condition 1"),
        measured=_spread(measures.relative_outputs),
        expected=1.0,
        relation=close(
            0.1, because="sentences of one start share G of μ3, so that sixty starts count, not their sentences"
        ),
        **ALL_STARTS,
        repairs="initial_outputs_below_a_hundredth",
    ),
    initial_neuron_sums=Claim(
        says="What other neurons add to a neuron's gradient, Σ a_j' ⟨w_j, w_j'⟩, is of size σ1² √(m m1).",
        source=(PAPER, "Proposition E.5"),
        measured=_spread(measures.neuron_sums),
        expected=1.0,
        relation=close(0.1, because="sixteen neurons of sixty starts; neurons of one start share their sum"),
        **ALL_STARTS,
    ),
    initial_cross_values=Claim(
        says="What other words add to a word's gradient, ⟨W_V X p, W_V μ⟩, is of size σ0² √(m/L).",
        source=(PAPER, "Proposition E.5"),
        measured=_spread(measures.initial_cross_values),
        expected=1.0,
        relation=bounded(
            1.0, because="a sentence has at most L words besides; the proposition's size without its logarithm"
        ),
        **ALL_STARTS,
    ),
    initial_key_value_products=Claim(
        says="Products of keys and values, |W_K μ|² G(ν) and ⟨W_K ν, W_K μ⟩ G(ν'), are of size σ0² m and σ0² √m times "
        "σ0 σ1 √(m m1).",
        source=(PAPER, "Proposition E.22"),
        measured=mean_of(measures.key_value_products),
        expected=(1.0,) * 2,
        relation=close(0.1, because=NORMAL),
        **ALL_STARTS,
    ),
)

RATES_CLAIMS = listed(
    # ---- Lemmas 4.1, 4.2
    signal_gradient=Claim(
        says="At the start a_j w_j W_V μ grows at a sixth of (σ0² + σ1²) m for μ1 and μ2, on average over neurons.",
        source=(PAPER, "Lemma 4.1; Lemma E.4"),
        measured=mean_of(measures.signal_rates, axis=None),
        expected=1 / 6,
        relation=close(0.1, because="sixteen neurons of seven starts, which differ among themselves by √(m1/m)"),
        **SWEEP,
    ),
    signal_gradient_of_every_neuron=Claim(
        says="It is of that order for every single neuron, where m1 is well below m.",
        source=(PAPER, "Lemma 4.1; Lemma E.4; Condition 1"),
        measured=measures.relative_signal_rates,
        relation=bounded(lower=0.2, because="a fifth of the mean: other neurons move it by √(m1/m), at most a quarter"),
        experiment="neurons",
        applies=lambda run: None if 16 * run.system.spec.hidden <= run.system.spec.width else "m1 is not well below m",
        seeds=all_of(2),
    ),
    signal_gradient_of_many_neurons=Claim(
        says="Single neurons differ from the mean by √(m1/m) of it.",
        source=(OURS, "Lemma 4.1; Proposition E.5"),
        measured=rows_over("hidden", measures.signal_spread),
        relation=scales_as(0.5, 0.1, because="sixteen neurons at each of five numbers from 2^6 to 2^17"),
        experiment="neurons",
        seeds=together(5),
    ),
    common_gradient=Claim(
        says="At the start a_j w_j W_V μ3 grows at most as σ1² √(m m1) + σ0² √(m L) + (σ0² + σ1²) m max F(0).",
        source=(PAPER, "Lemma 4.2; Lemma E.16"),
        measured=measures.common_rates,
        relation=bounded(2.0, because=POLYLOG),
        **WIDE,
    ),
    common_gradient_vanishes=Claim(
        says="As the start shrinks, G3' at the start vanishes with F(0), while G1' stays.",
        source=(PAPER, "Lemma 4.2; section 4.1"),
        measured=rows_over("init_scale", measures.common_share),
        relation=scales_as(1.0, 0.1, because="one start at each of five scales from 0.1 to 1e-5"),
        experiment="small_starts",
        seeds=together(5),
    ),
    word_gradient=Claim(
        says="An irrelevant word's w_j W_V μ moves at most as (σ0² + σ1²) m/n + σ0² L √m during Phase 1.",
        source=(PAPER, "Lemma E.6; Theorem E.15"),
        measured=measures.word_rates,
        relation=bounded(2.0, because=POLYLOG),
        **WIDE,
    ),
    signal_growth=Claim(
        says="During Phase 1 a_j w_j W_V μ moves as P(μ) (σ0² + σ1²) m, up to L σ0² √m + σ1² √(m m1).",
        source=(PAPER, "Theorem E.14; Lemma E.11; Corollary E.10"),
        measured=measures.signal_growth_error,
        relation=bounded(2.0, because=POLYLOG),
        **WIDE,
    ),
    common_growth=Claim(
        says="During Phase 1 a_j w_j W_V μ3 moves at most as σ1² m.",
        source=(PAPER, "Lemma E.17"),
        measured=measures.common_growth,
        relation=bounded(1.0, because=POLYLOG),
        **WIDE,
    ),
    cross_terms=Claim(
        says="During Phase 1 other words add at most L σ0² √m to a word's gradient, and other neurons σ1² √(m m1).",
        source=(PAPER, "Corollary E.10; Lemma E.11"),
        measured=measures.cross_terms,
        relation=bounded(2.0, because=POLYLOG),
        **WIDE,
    ),
    # ---- Theorem 3.1
    first_phase_length=Claim(
        says="|s|² T1 is the same at every width, up to chance: T1 is of order 1/m.",
        source=(PAPER, "Theorem 3.1; Theorem E.26; Corollary E.20"),
        measured=lambda run: efolds(moments(run)[1], 10),
        relation=bounded(0.3, because="between 7.4 and 13.5 from width 2^8 to 1e9: chance of G(0) moves it so far"),
        **WIDE,
    ),
    first_phase_time=Claim(
        says="T0.5 and T1 are those of the flow whose Gram matrices rest.",
        source=(OURS, "Theorem 3.1; section 4.1"),
        measured=moments,
        expected=lambda run: run.prediction.times,
        relation=close(1e-3, because="at the least width, 2^8, Gram matrices move by 1/m of what they are"),
        **WIDE,
    ),
    first_phase_values=Claim(
        says="At T1 the MLP has aligned: G1, G2 and −G3 are of order one.",
        source=(PAPER, "Theorem 3.1; Theorem E.27"),
        measured=lambda run: measures.values(run, moments(run)[1]),
        relation=bounded(lower=0.4, because="of order one, at every width; none is below 0.55"),
        **WIDE,
    ),
    all_right=Claim(
        says="From T1 on every training sentence is right.",
        source=(PAPER, "Theorem 3.1; Corollary E.20"),
        measured=lambda run: run.series("worst_margin")[~measures.first_phase(run)],
        relation=bounded(lower=0.0, because="a margin above zero is right"),
        **WIDTHS,
    ),
    first_phase_loss=Claim(
        says="At T1 the training loss is still of order one: about 0.4.",
        source=(PAPER, "Theorem 3.1; Theorem E.28"),
        measured=lambda run: efolds(run.at("loss", moments(run)[1]), 0.4),
        relation=bounded(0.3, because="Θ(1): between 0.30 and 0.54 at every width; it starts from ln 2"),
        **WIDE,
    ),
    scores_rest=Claim(
        says="During Phase 1 scores change by m^(-3/2) only.",
        source=(PAPER, "Theorem 3.1; Lemma E.23; Theorem E.28; Definition E.2"),
        measured=during_phase_1("moved_scores"),
        relation=scales_as(-1.5, 0.1, because=NO_POWER),
        **SWEEP,
    ),
    value_correlations_rest=Claim(
        says="During Phase 1 inner products of values change by 1/m only.",
        source=(PAPER, "Theorem 3.1; Lemma E.9; Theorem E.28"),
        measured=during_phase_1("moved_values"),
        relation=scales_as(-1.0, 0.1, because=NO_POWER),
        **SWEEP,
    ),
    keys_rest=Claim(
        says="During Phase 1 inner products of keys change by m^-2 only.",
        source=(PAPER, "Theorem 3.1; Lemma E.25; Theorem E.28"),
        measured=during_phase_1("moved_keys"),
        relation=scales_as(-2.0, 0.15, because=NO_POWER),
        **SWEEP,
    ),
    queries_rest=Claim(
        says="During Phase 1 inner products of queries change by m^-2 only.",
        source=(PAPER, "Theorem 3.1; Lemma E.25; Theorem E.28"),
        measured=during_phase_1("moved_queries"),
        relation=scales_as(-2.0, 0.15, because=NO_POWER),
        **SWEEP,
    ),
    neurons_rest=Claim(
        says="During Phase 1 inner products of neurons, and their norms, change by at most 1/m.",
        source=(PAPER, "Theorem 3.1; Proposition E.12; Corollary E.13; Theorem E.28"),
        measured=lambda runs: measures.exponent(during_phase_1("neuron_gram_change")(runs)),
        relation=bounded(-0.9, because="an upper bound: the exponent may be less than −1, up to the same tenth"),
        **SWEEP,
    ),
    attention_rests=Claim(
        says="During Phase 1 softmax probabilities change by m^-2 only: E.3 allows far more, Corollary E.24 says this.",
        source=(PAPER, "Corollary E.24; Proposition E.3"),
        measured=during_phase_1("moved_attention"),
        relation=scales_as(-2.0, 0.1, because=NO_POWER),
        **SWEEP,
    ),
    attention_to_words_rests=Claim(
        says="Between irrelevant words softmax probabilities change by less: by (1/L + 1/n) of the largest change.",
        source=(PAPER, "Corollary E.24"),
        measured=measures.moved_word_attention,
        relation=bounded(1.0, because="the corollary's own factor"),
        **WIDE,
    ),
    # ---- Definition E.2
    neuron_values_move_little=Claim(
        says="During Phase 1 a neuron's w_j W_V μ moves by 1/m1 for μ1, μ2, μ3.",
        source=(PAPER, "Definition E.2; Theorem E.26"),
        measured=during_phase_1("neuron_change"),
        relation=scales_as(-1.0, 0.1, because=NO_POWER),
        **SWEEP,
    ),
    neuron_words_move_less=Claim(
        says="For irrelevant words it moves by O(1/n + 1/√m) of that.",
        source=(PAPER, "Definition E.2; Theorem E.26"),
        measured=measures.neuron_word_ratio,
        relation=bounded(8.0, because=POLYLOG),
        **WIDE,
    ),
    neuron_outputs_move_little=Claim(
        says="During Phase 1 w_j W_V X p moves by at most 4R/L, R being the largest change of w_j W_V μ.",
        source=(PAPER, "Lemma E.7"),
        measured=measures.neuron_output_ratio,
        relation=bounded(4.0, because="the lemma's own factor; its other term vanishes with the width"),
        **WIDE,
    ),
    key_radius=Claim(
        says="Inner products of keys and of queries stay within σ0² √m of their start.",
        source=(PAPER, "Definition E.1; Definition E.2; Definition F.1"),
        measured=measures.key_changes,
        relation=bounded(0.1, because="a tenth of what the definition allows, to the end of Phase 2"),
        **WIDE,
    ),
    # ---- Lemma 4.3
    balance_in_the_first_phase=Claim(
        says="From a moment before T1 on, −G3' lies between (1+C) max(G1', G2') and (1−C)(G1' + G2').",
        source=(PAPER, "Lemma 4.3; Theorem E.19"),
        measured=lambda run: measures.balance_margins(run, measures.late_first_phase(run)),
        relation=bounded(lower=0.1, because="a constant C, from midway between T0.5 and T1 on"),
        **WIDE,
    ),
    values_keep_growing=Claim(
        says="From the peak of the one-signal loss to T1, G1 and G2 grow at a rate of order σ1² m m1.",
        source=(PAPER, "Theorem E.19"),
        measured=measures.rates_from_turn,
        relation=bounded(lower=0.02, because="of order one in the clock τ: a tenth of the first rate, 1/6"),
        **WIDE,
    ),
    one_signal_types_stay_alike=Claim(
        says="During Phase 1 the gradients of both types with one signal differ by O(max F(0)).",
        source=(PAPER, "Proposition E.21"),
        measured=measures.early_one_signal_gap,
        relation=bounded(
            1 / 12, because="a sixth of all sentences, times |g'| <= 1/4, for outputs that differ by 2 max F(0)"
        ),
        **WIDE,
    ),
    readout_rests=Claim(
        says="At T1 |s|² is still σ1² m m1.",
        source=(PAPER, "Theorem E.27"),
        measured=measures.readout_at_right,
        expected=measures.expected_readout,
        relation=close(0.13, because="at m = 2^10 |s(0)|² itself is 1 ± √(2/m) times it: three standard deviations"),
        applies=wide(2**10),
        experiment="widths",
        seeds=all_of(6),
    ),
    margins_soon_of_order_one=Claim(
        says="By 2 T1 every training sentence has a margin of order one.",
        source=(PAPER, "Theorem E.27; Corollary E.20; Theorem E.28"),
        measured=lambda run: run.series("worst_margin")[measures.second_phase(run, 2)][:1],
        relation=bounded(lower=0.2, because="of order one at every width; T1 itself is where the least margin is zero"),
        **WIDE,
    ),
    words_at_the_end_of_phase_1=Claim(
        says="At T1 G of irrelevant words is still of the size σ0 σ1 √(m m1) of the start, up to logarithms and 1/n.",
        source=(PAPER, "Theorem E.27"),
        measured=measures.word_values,
        relation=bounded(
            4.0, because="of some hundred normal numbers the largest is at 3.2; a pull of g = 1/2 adds T1/2n"
        ),
        **WIDE,
    ),
    types_may_be_drawn=Claim(
        says="With types of sentences drawn, not counted out, both phases remain: T1 is a constant, and R ends where "
        "the counts that were drawn put it.",
        source=(PAPER, "section 2.1, below Assumption 2.3"),
        measured=measures.drawn_types,
        relation=bounded(1.0, because="T1 below 20, as with exact counts; R within 2% of its limit by τ = 1e5"),
        experiment="sampled",
        seeds=all_of(3),
    ),
)
PHASE_1_CLAIMS = (*STARTS_CLAIMS, *RATES_CLAIMS)
