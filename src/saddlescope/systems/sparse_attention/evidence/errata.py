"""What the paper prints and what holds instead."""

from __future__ import annotations

from pathlib import Path

from saddlescope.core.experiment import Erratum, listed, misprints

from . import errata_shown

VERSION = "preprint with appendices A to D, equations (1) to (10), as read in 2026"
"""Of the paper that was read."""

SHOWN = listed(
    eq3=Erratum(
        where="section 2, Eq. (3); captions of Fig. 1 and 3",
        printed="f_{A*_{1:i}} is the truth for one who sees I(1), ..., I(i) alone, and stages are told by the distance "
        "from it.",
        true="It takes the other tokens for silent where they are unknown. The law of x_t given the tokens of I(1), "
        "..., I(i) is the mean of the full law over the others, and what is learned from these positions tends to "
        "that, or to its best fit: a plateau's loss is well below that of Eq. (3).",
        severity="imprecise",
        repair="Average over the tokens that are not seen. As a yardstick that tells the order of the stages Eq. (3) "
        "will do.",
        measure="mean KL, in nats, from the frequencies of the next token given the one before it; 200000 draws, d=4, "
        "w=h=2, b0=3",
        shows=errata_shown.shows_eq3,
    ),
    key_query=Erratum(
        where="section 2.1, K_k^T Q_k",
        printed="Position p looks at p − i for i in I(k).",
        true="At p − i + 1 with the lags of Table 4, as y_t is asked at x_t and tells x_{t+1}. Without the 1 every "
        "head looks one token too far back, and for p = i = w at a coordinate of the token itself.",
        severity="misprint",
        repair="Add 1 (or let lags begin at 0, as in Eq. (2)). p = T + w is not needed: nothing is asked there.",
        measure="mean KL, in nats, of the construction's output from the truth; d=5, T=6, w=4, lambda=40",
        shows=errata_shown.shows_key_query,
    ),
    alpha=Erratum(
        where="section 2.1, the sparse pattern and K_k^T Q_k",
        printed="The construction solves the task; its attention is uniform on I(k).",
        true="Of Eq. (1)'s alpha_i this holds if they are all 1/|I(k)|, which appendix B chooses later.",
        severity="imprecise",
        repair="Assume alpha_i = 1/|I(k)|, or add log alpha_i to lambda.",
        measure="mean KL, in nats, of the construction's output from the truth with alpha = (0.8, 0.2); lambda=40",
        shows=errata_shown.shows_alpha,
    ),
    strengths=Erratum(
        where="section 3, below Eq. (4); appendix B, ground truth; section C.6",
        printed="The strength of the k-th feature is m_k* in section 3 and m_k in appendix B; section C.6 goes on with "
        "B's m.",
        true="B's A_k* is m_k times an orthogonal matrix, so that m_k* = |A_k*|_F = sqrt(d) m_k. The flow is not "
        "indifferent to this factor, 7 at d=50: logits move faster by its square.",
        severity="imprecise",
        repair="Say which of the two b0 belongs to.",
        measure="largest relative deviation from |A_k*|_F, d=5",
        shows=errata_shown.shows_strengths,
    ),
    strict_order=Erratum(
        where="section 3, below Eq. (4)",
        printed="m_1* > m_2* > ... without loss of generality.",
        true="Patterns can be renumbered, ties cannot be broken: with m_1* = m_2* = m_3* heads in step end on all "
        "three positions alike, and Eq. (7) is wrong. Section C.1 has such a case.",
        severity="imprecise",
        repair="Make m_1* > m_2* an assumption; the others may tie.",
        measure="|s − s_1*| at t=1e6 from V=0 and uniform attention, m=1; then m=1.7; T=40, h=H=3, b0=1",
        shows=errata_shown.shows_strict_order,
    ),
    assumption_1=Erratum(
        where="section 3, Assumption 1 and Proposition 1; section D, proof of Proposition 1",
        printed="E<x_i, x_j> = 1[i=j] makes gradient flow on the task that of the tensor problem.",
        true="But for its scale this is the trace of what the proof uses, E(x_i x_j^T) = 1[i=j] I. Where a token's "
        "covariance is not isotropic, or E(x_i x_j^T) of two tokens has no trace without being zero, the flow is "
        "another one.",
        severity="conclusion fails",
        repair="E(x_i x_j^T) = 1[i=j] sigma² I, with time in units of 1/sigma².",
        measure="share of −dL/dtheta of Eq. (8) that is not along that of Proposition 1; covariance diag(0.7, 0.2, "
        "0.1), then I; d=h=3, T=6, H=5",
        shows=errata_shown.shows_assumption_1,
    ),
    assumption_1_scale=Erratum(
        where="section 3, Assumption 1; section D, proof of Proposition 1; section D.1",
        printed="Tokens have E|x_i|² = 1. The proof has their covariance I, and D.1 calls a covariance of order 1/d "
        "that of others, slower by 1/(dT) together with a loss of order 1/T.",
        true="With covariance I, E|x_i|² is d. Assumption 1 itself has 1/d, and everything is slower by 1/d than Eq. "
        "(5); next to Assumption 1 only the 1/T of D.1 is left.",
        severity="imprecise",
        repair="E|x_i|² = d.",
        measure="relative deviation of −dL/dtheta of Eq. (8) from that of Proposition 1, covariance I/d, then I; d=3",
        shows=errata_shown.shows_assumption_1_scale,
    ),
    theorem_1=Erratum(
        where="section 3, Theorem 1 and Eq. (6); section D, invariance of the set R",
        printed="From <V, V_1*> >= <V, V_k*> and s_1 >= s_k, V' and s' keep this order, and the flow tends to s_1*.",
        true="Where s_1 = s_k their difference moves like m_1* <V, V_1*> − m_k* <V, V_k*>, which Eq. (6) allows to be "
        "negative if <V, V_1*> is. From uniform attention and V(0) = −20 (V_1* + V_2* + V_3*) the flow tends to s_2* "
        "and (m_2*/H) V_2*. So does it from starts nearby at which Eq. (6) is strict.",
        severity="conclusion fails",
        repair="m_1* <V(0), V_1*> >= m_k* <V(0), V_k*>, the order of <V, A_k*>, in place of the first half of Eq. (6). "
        "It is kept: the derivative of the difference at zero is m_1*² s_1 − m_k*² s_k. Eq. (6) together with "
        "<V(0), V_1*> >= 0 implies it, but is more than is needed.",
        measure="|s − s_1*| at t=1e6, T=40, h=H=3, b0=1; then the largest over a start as far off on the same side "
        "and six random ones, with T=8, that meet the repaired condition",
        shows=errata_shown.shows_theorem_1,
    ),
    window=Erratum(
        where="section 3, Theorem 2; section D, last line of its proof",
        printed="The bound holds up to t = 1/(c_1 log(1/epsilon)), by which closeness decides how long heads stay "
        "together.",
        true="That time goes to zero with epsilon. Up to it epsilon e^{c_1 t} hardly grows, while heads that start "
        "closer stay together for longer. (In fact like log²(1/epsilon): on the first plateau deviations grow as "
        "exp(const sqrt t), slower than any exponential.)",
        severity="imprecise",
        repair="t <= log(delta/epsilon)/c_1, with a fixed delta much smaller than 1.",
        measure="share of steps in epsilon, 1e-2, 1e-3, 1e-4, in which the window gets shorter while the time until "
        "deviations are 0.1 gets longer",
        shows=errata_shown.shows_window,
    ),
    universal=Erratum(
        where="section 3, Theorem 2",
        printed="c_1 is a universal constant.",
        true="By the proof's own words it depends on H and G. A head that is moved along V_1* and s_1* needs a c_1 of "
        "nearly m_1*. V(0), which the theorem leaves free, enters as well.",
        severity="conclusion fails",
        repair="A constant that depends on H, G and V(0), not on epsilon.",
        measure="relative change of the least c_1 from b0=1 to b0=10; then from epsilon=1e-4 to 1e-6; T=40, h=H=3, V=0",
        shows=errata_shown.shows_universal,
    ),
    blind=Erratum(
        where="appendix B, ground truth",
        printed="All features of one orthogonal A_k* are equally important.",
        true="What an output direction adds to all logits alike the softmax of Eq. (1) does not see: one feature, with "
        "outputs along (1, ..., 1), has no effect at all.",
        severity="imprecise",
        repair="All but this one.",
        measure="1 − smallest/largest singular value of A_1* with the means of its columns removed; then without the "
        "smallest",
        shows=errata_shown.shows_blind,
    ),
    simplex=Erratum(
        where="section C.6, initialization",
        printed="s_i(0) is 1/T plus independent Gaussian noise of variance 1e-6.",
        true="Such entries do not sum to one, so no logits belong to them, and the flow of Eq. (5) keeps the sum only "
        "if it is one. From T of about 300 on some are negative.",
        severity="imprecise",
        repair="The noise on the logits, T times as large: standard deviation 0.04 at T=40.",
        measure="mean deviation of sum_i s_i from 1, T=40, 64 heads",
        shows=errata_shown.shows_simplex,
    ),
    base_scale=Erratum(
        where="section C.6, parameters and the text below",
        printed="All heads first learn position 1; d, T, h and m are given, b0 is not. (lambda = 0 is, but section "
        "2.1's lambda has no part here.)",
        true="Scaling V and G by b makes logits faster by b², so b0 decides what is seen. At b0=10 all heads compete; "
        "at b0=1 one in three never turns to position 1.",
        severity="imprecise",
        repair="b0=10, as in Table 1, as the norm m_k*/m^{h−k} itself.",
        measure="share of the heads with less than half of their attention on position 1 at 1.3 times the time at "
        "which half of its residual is gone; three starts, b0=1, then b0=10",
        shows=errata_shown.shows_base_scale,
    ),
    lemma_1=Erratum(
        where="section D, Lemma 1",
        printed="If s_1 >= s_j and v_1 >= v_j for all j in [h], then (Pi(s) v)_1 >= (Pi(s) v)_j.",
        true="The last step needs v_1 >= <s, v>, to which the T − h other entries contribute: s = (0.3, 0.1, 0.6), "
        "v = (0, 0, 10), h=2 is a counterexample.",
        severity="conclusion fails",
        repair="v_1 >= v_i for all i in [T]. The proof of Theorem 1 needs less: for a j with s_1 = s_j, v_1 >= v_j is "
        "enough.",
        measure="(Pi(s) v)_j − (Pi(s) v)_1 over the largest |Pi(s) v|, at the counterexample; then the largest over "
        "2000 random points of either repaired kind, T=6",
        shows=errata_shown.shows_lemma_1,
    ),
    idle=Erratum(
        where="section D, end of the proof of Theorem 1",
        printed="(7) is the only stationary point in R.",
        true="For T > h there are more, at which Theorem 1's flow stays although Eq. (6) holds: V = 0 and any s on "
        "positions that no pattern needs, s_1 = s_k = 0.",
        severity="imprecise",
        repair="Let s(0) have positive entries only, as every softmax has. The flow cannot end at such points: near "
        "them V decays so fast that log s_1 stays bounded, or follows s so that log s_1 grows.",
        measure="|s − s_1*| at such a point, T=6; then at t=1e7 of a flow that starts near it, with "
        "s_1 = s_2 = s_3 = 3e-4",
        shows=errata_shown.shows_idle,
    ),
    v_optimal=Erratum(
        where="section D, proof of Theorem 2, bound on V",
        printed="|V| cannot exceed |G s|/(H |s|²), else phi would fall. (The norm of G s is missing.)",
        true="The best V for an s is not where V is: s moves on, |G s|/|s|² falls as attention narrows, and V follows "
        "from above while phi rises.",
        severity="conclusion fails",
        repair="|V(t)| is at most the largest of |V(0)| and of |G s|/(H |s|²) at earlier times.",
        measure="largest |V| H |s|²/|G s| − 1 along the symmetric flow from V=0 and uniform attention; T=40, h=H=3, "
        "b0=1",
        shows=errata_shown.shows_v_optimal,
    ),
    v_bound=Erratum(
        where="section D, proof of Theorem 2, bound on V",
        printed="The largest |G s|/(H |s|²) is m_1*/H, which therefore bounds |V|.",
        true="That is its value at s_1*. With s_1 = 1/sqrt(T) and the rest spread evenly it is at least "
        "m_1* (sqrt(T) + 1)/(2H), and the flow itself passes m_1*/H on its way. V(0) is not bounded at all.",
        severity="conclusion fails",
        repair="|V| <= max(|V(0)|, m_1* sqrt(T)/H), by |G s| <= m_1* |s| and |s|² >= 1/T. The theorem needs some bound "
        "only.",
        measure="by how much |V| passes the bound, relative, on the symmetric flow from V=0 and uniform attention; "
        "T=40, h=H=3, b0=1",
        shows=errata_shown.shows_v_bound,
    ),
)
ERRATA: tuple[Erratum, ...] = (*SHOWN, *misprints(Path(__file__).with_name("misprints.tsv")))
