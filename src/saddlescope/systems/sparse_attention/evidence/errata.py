"""What the paper prints and what holds instead."""

from __future__ import annotations

from saddlescope.core.experiment import Erratum

from . import errata_shown

VERSION = "preprint with appendices A to D, equations (1) to (10), as read in 2026"

ERRATA: tuple[Erratum, ...] = (
    Erratum(
        name="lags",
        where="section 2, Eq. (1) and (2); section C.4",
        printed="The law of x_t is made from x_{t−i} with i from 0 to w−1, x_t itself among them.",
        true="From the w tokens before x_t, as Eq. (3) and Table 4 have it: i from 1 to w. This also uses all of the w "
        "initial tokens; with i up to w−1 the first would never count.",
        severity="misprint",
        repair="Lags from 1 to w throughout. (Or x_{t+1} on the left of Eq. (1): then Eq. (2), K_k^T Q_k of section "
        "2.1 and section C.4 stand, and Eq. (3) and Table 4 are one too high.)",
        version=VERSION,
    ),
    Erratum(
        name="blocks",
        where="section 2, Eq. (2) and the text below it",
        printed="Contiguous blocks end at i_1 > 0, so that I(1) = {0, ..., i_1} has at least two elements; below, all "
        "I(k) are singletons.",
        true="i_1 may be 0. Sections 3 and C.6 have singletons throughout.",
        severity="misprint",
        repair="0 <= i_1.",
        version=VERSION,
    ),
    Erratum(
        name="eq3",
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
        version=VERSION,
    ),
    Erratum(
        name="fig3",
        where="section 2, the paragraph of Eq. (3); Fig. 3's caption",
        printed="In the text, models of restricted context are compared with the truths of Eq. (3), and pass one after "
        "the other.",
        true="A model that sees I(1) alone comes near to no later truth. It is the unrestricted model, as the caption "
        "has it.",
        severity="misprint",
        repair="Read: without restriction.",
        version=VERSION,
    ),
    Erratum(
        name="value_size",
        where="section 2.1, the display of y_t and the sizes below it",
        printed="V_k is square with d + T + w rows, and then A_k*, which has d. (Positions are one-hot in R^T, later "
        "in R^{d+T}; appendix B and section C.1 refer to this section by question marks.)",
        true="V_k is d x (d + T + w), A_k* followed by zeros: with T + w rows of zeros below it the softmax would "
        "share out probability to positions. One-hot positions are in R^{T+w}.",
        severity="misprint",
        repair="V_k = (A_k* 0).",
        version=VERSION,
    ),
    Erratum(
        name="query",
        where="section 2.1, the display of a_t^(k)",
        printed="The query is x_t, in R^d, to which Q_k does not apply.",
        true="It is the t-th column of X with a tilde. A query that does not know its position gives uniform attention "
        "in the construction.",
        severity="misprint",
        repair="A tilde on x_t.",
        version=VERSION,
    ),
    Erratum(
        name="indicator",
        where="section 2.1, the sparse pattern",
        printed="All of the w entries are the indicator that 1 is in I(k).",
        true="Oldest token first they are those of w, w−1, ..., 1. As printed the pattern of I(1) sums to w/|I(1)|, "
        "all others are zero.",
        severity="misprint",
        repair="Let the index run.",
        version=VERSION,
    ),
    Erratum(
        name="key_query",
        where="section 2.1, K_k^T Q_k",
        printed="Position p looks at p − i for i in I(k).",
        true="At p − i + 1 with the lags of Table 4, as y_t is asked at x_t and tells x_{t+1}. Without the 1 every "
        "head looks one token too far back, and for p = i = w at a coordinate of the token itself.",
        severity="misprint",
        repair="Add 1 (or let lags begin at 0, as in Eq. (2)). p = T + w is not needed: nothing is asked there.",
        measure="mean KL, in nats, of the construction's output from the truth; d=5, T=6, w=4, lambda=40",
        shows=errata_shown.shows_key_query,
        version=VERSION,
    ),
    Erratum(
        name="alpha",
        where="section 2.1, the sparse pattern and K_k^T Q_k",
        printed="The construction solves the task; its attention is uniform on I(k).",
        true="Of Eq. (1)'s alpha_i this holds if they are all 1/|I(k)|, which appendix B chooses later.",
        severity="imprecise",
        repair="Assume alpha_i = 1/|I(k)|, or add log alpha_i to lambda.",
        measure="mean KL, in nats, of the construction's output from the truth with alpha = (0.8, 0.2); lambda=40",
        shows=errata_shown.shows_alpha,
        version=VERSION,
    ),
    Erratum(
        name="strengths",
        where="section 3, below Eq. (4); appendix B, ground truth; section C.6",
        printed="The strength of the k-th feature is m_k* in section 3 and m_k in appendix B; section C.6 goes on with "
        "B's m.",
        true="B's A_k* is m_k times an orthogonal matrix, so that m_k* = |A_k*|_F = sqrt(d) m_k. The flow is not "
        "indifferent to this factor, 7 at d=50: logits move faster by its square.",
        severity="imprecise",
        repair="Say which of the two b0 belongs to.",
        measure="largest relative deviation from |A_k*|_F, d=5",
        shows=errata_shown.shows_strengths,
        version=VERSION,
    ),
    Erratum(
        name="strict_order",
        where="section 3, below Eq. (4)",
        printed="m_1* > m_2* > ... without loss of generality.",
        true="Patterns can be renumbered, ties cannot be broken: with m_1* = m_2* = m_3* heads in step end on all "
        "three positions alike, and Eq. (7) is wrong. Section C.1 has such a case.",
        severity="imprecise",
        repair="Make m_1* > m_2* an assumption; the others may tie.",
        measure="|s − s_1*| at t=1e6 from V=0 and uniform attention, m=1; then m=1.7; T=40, h=H=3, b0=1",
        shows=errata_shown.shows_strict_order,
        version=VERSION,
    ),
    Erratum(
        name="assumption_1",
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
        version=VERSION,
    ),
    Erratum(
        name="assumption_1_scale",
        where="section 3, Assumption 1; section D, proof of Proposition 1; section D.1",
        printed="Tokens have E|x_i|² = 1. The proof has their covariance I, and D.1 calls a covariance of order 1/d "
        "that of others, slower by 1/(dT) together with a loss of order 1/T.",
        true="With covariance I, E|x_i|² is d. Assumption 1 itself has 1/d, and everything is slower by 1/d than Eq. "
        "(5); next to Assumption 1 only the 1/T of D.1 is left.",
        severity="imprecise",
        repair="E|x_i|² = d.",
        measure="relative deviation of −dL/dtheta of Eq. (8) from that of Proposition 1, covariance I/d, then I; d=3",
        shows=errata_shown.shows_assumption_1_scale,
        version=VERSION,
    ),
    Erratum(
        name="head_sums",
        where="section 3, y_theta, theta, P and Theorem 2; section D, proofs of Proposition 1 and Theorem 2",
        printed="Sums and maxima over heads go to h, the number of patterns.",
        true="To H, as in section 2.1 and in the factor H of the symmetric flow.",
        severity="misprint",
        repair="H for h wherever heads are counted.",
        version=VERSION,
    ),
    Erratum(
        name="theorem_1",
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
        version=VERSION,
    ),
    Erratum(
        name="window",
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
        version=VERSION,
    ),
    Erratum(
        name="universal",
        where="section 3, Theorem 2",
        printed="c_1 is a universal constant.",
        true="By the proof's own words it depends on H and G. A head that is moved along V_1* and s_1* needs a c_1 of "
        "nearly m_1*. V(0), which the theorem leaves free, enters as well.",
        severity="conclusion fails",
        repair="A constant that depends on H, G and V(0), not on epsilon.",
        measure="relative change of the least c_1 from b0=1 to b0=10; then from epsilon=1e-4 to 1e-6; T=40, h=H=3, V=0",
        shows=errata_shown.shows_universal,
        version=VERSION,
    ),
    Erratum(
        name="blind",
        where="appendix B, ground truth",
        printed="All features of one orthogonal A_k* are equally important.",
        true="What an output direction adds to all logits alike the softmax of Eq. (1) does not see: one feature, with "
        "outputs along (1, ..., 1), has no effect at all.",
        severity="imprecise",
        repair="All but this one.",
        measure="1 − smallest/largest singular value of A_1* with the means of its columns removed; then without the "
        "smallest",
        shows=errata_shown.shows_blind,
        version=VERSION,
    ),
    Erratum(
        name="c4",
        where="section C.4",
        printed="The furthest interval, which is to be the most important, is I(3) = {12, 13}.",
        true="Section 2 numbers by importance: with m_k = m^{h−k} b0 the third is the least important. (Lags are "
        "counted from 0 here, unlike in Table 4.)",
        severity="misprint",
        repair="I(1) = {13, 14}, I(2) = {9, ..., 12}, I(3) = {1, ..., 8}, in lags from 1.",
        version=VERSION,
    ),
    Erratum(
        name="simplex",
        where="section C.6, initialization",
        printed="s_i(0) is 1/T plus independent Gaussian noise of variance 1e-6.",
        true="Such entries do not sum to one, so no logits belong to them, and the flow of Eq. (5) keeps the sum only "
        "if it is one. From T of about 300 on some are negative.",
        severity="imprecise",
        repair="The noise on the logits, T times as large: standard deviation 0.04 at T=40.",
        measure="mean deviation of sum_i s_i from 1, T=40, 64 heads",
        shows=errata_shown.shows_simplex,
        version=VERSION,
    ),
    Erratum(
        name="base_scale",
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
        version=VERSION,
    ),
    Erratum(
        name="inner_product",
        where="section D, tensor notation",
        printed="<M, N> = sum_k <B_k, B'_k> <v_k, v'_k>, a single sum, and |M|_F by it.",
        true="sum over k and l of <B_k, B'_l> <v_k, v'_l>. A single sum depends on how M is written as a sum, and in "
        "Proposition 1's loss it would decouple the heads from G and from each other.",
        severity="misprint",
        repair="The double sum.",
        version=VERSION,
    ),
    Erratum(
        name="basis_index",
        where="section D, proof of Proposition 1",
        printed="v_2 = e_i for i in [d] gives E(v_1 X^T Q X). (v_1 lacks its transpose here and above; y_theta and y* "
        "are called f in the derivatives.)",
        true="v_2 is in R^T, so i is in [T].",
        severity="misprint",
        repair="T for d.",
        version=VERSION,
    ),
    Erratum(
        name="ascent",
        where="section D, end of the proof of Proposition 1",
        printed="The flow ascends the loss.",
        true="It descends, as the two lines before say.",
        severity="misprint",
        repair="Descent.",
        version=VERSION,
    ),
    Erratum(
        name="lemma_1",
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
        version=VERSION,
    ),
    Erratum(
        name="set_r",
        where="section D, proof of Theorem 1, definition of R",
        printed="R asks for <V, V_k*> >= <V, V_k*>, that is for nothing of V, and is invariant.",
        true="V_1* is meant on the left. Even so s_1 may fall below s_k, see theorem_1.",
        severity="misprint",
        repair="m_1* <V, V_1*> >= m_k* <V, V_k*>.",
        version=VERSION,
    ),
    Erratum(
        name="z_dot",
        where="section D, proof of Theorem 1, derivative of z_j",
        printed="z_j' = Pi(s)² (m_1* <V, V_1*> − m_j* <V, V_j*> − H |s|² z_j), a matrix applied to a number.",
        true="z_j' = <s_1* − s_j*, Pi(s)² (V^T G − H |V|² s)>. The difference can be taken first only where s_1 = s_j: "
        "there it is s_1² (m_1* <V, V_1*> − m_j* <V, V_j*>).",
        severity="misprint",
        repair="As above; |V|_F² for |s|² in any case.",
        version=VERSION,
    ),
    Erratum(
        name="idle",
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
        version=VERSION,
    ),
    Erratum(
        name="rest_condition",
        where="section D, proof of Theorem 1, Eq. (10) and the last display but one",
        printed="On the right is <s_j*, s> s_j* with a j that is no index of anything. (Eq. (10) has a small pi.)",
        true="On the right is s itself, idle positions included. Times s and summed up, the condition gives alpha = 0, "
        "without which it would not follow that all positions in use have the same m_j*.",
        severity="misprint",
        repair="s for <s_j*, s> s_j*.",
        version=VERSION,
    ),
    Erratum(
        name="v_optimal",
        where="section D, proof of Theorem 2, bound on V",
        printed="|V| cannot exceed |G s|/(H |s|²), else phi would fall. (The norm of G s is missing.)",
        true="The best V for an s is not where V is: s moves on, |G s|/|s|² falls as attention narrows, and V follows "
        "from above while phi rises.",
        severity="conclusion fails",
        repair="|V(t)| is at most the largest of |V(0)| and of |G s|/(H |s|²) at earlier times.",
        measure="largest |V| H |s|²/|G s| − 1 along the symmetric flow from V=0 and uniform attention; T=40, h=H=3, "
        "b0=1",
        shows=errata_shown.shows_v_optimal,
        version=VERSION,
    ),
    Erratum(
        name="v_bound",
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
        version=VERSION,
    ),
    Erratum(
        name="norm_rate",
        where="section D, proof of Theorem 2, derivative of |W_i|",
        printed="It is <W_i', W_i>/|W_i'|.",
        true="<W_i', W_i>/|W_i|, which is at most |W_i'|.",
        severity="misprint",
        repair="Remove the dot below.",
        version=VERSION,
    ),
)
