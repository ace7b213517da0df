"""What the paper prints and what holds instead."""

from __future__ import annotations

from pathlib import Path

from saddlescope.core.experiment import Erratum, listed, misprints

from . import errata_shown

VERSION = "arXiv v1 (2306.07042, June 2023)"
"""Of the paper that was read."""

SHOWN = listed(
    bounded_data=Erratum(
        where="section 2, Assumption 2.1; section 5, toy models",
        printed="The data are bounded almost surely; the experiments whose assumptions Appendix A checks have Gaussian "
        "tokens, and this assumption is not among those checked.",
        true="No C bounds a Gaussian. The assumption holds for the loss over the 1000 drawn samples, which is what was "
        "trained on, with a C that grows with their number.",
        severity="imprecise",
        repair="Let the expectation be the mean over the training set.",
        measure="share of 20000 fresh samples beyond the largest norm of 40 training samples; then of the training "
        "samples themselves",
        shows=errata_shown.shows_bounded_data,
    ),
    b0=Erratum(
        where="section 4.1.2, Algorithm 1, line 1",
        printed="b^0 starts at 0.",
        true="At 1: log_alpha of weights of size alpha is 1, as the base case of section C.5 says. From 0, Eq. (8) "
        "gives Delta_0(i) = 0 to all i with g_i > 0, and T_1 = 0 in place of 1/|g| of section 4.1.1.",
        severity="misprint",
        repair="b^0 = (1, ..., 1).",
        measure="relative deviation of T_1 by Eq. (8) and (9) from the flow of u and v of a small head: difference of "
        "the times at which |p| = 0.05 is passed at alpha = 1e-16 and 1e-8, per log(1/alpha)",
        shows=errata_shown.shows_b0,
    ),
    a42_start=Erratum(
        where="section 4.2, Assumption 4.2; Assumption C.1",
        printed="At the start u_i and v_i differ.",
        true="Their absolute values must, as section C.3 has it. From v_i = −u_i the conserved u² − v² is zero, so "
        "that p_i = −u_i² for ever: Algorithm 1 lets the coordinate grow to a positive value, the flow never does.",
        severity="conclusion fails",
        repair="|u_i| and |v_i| differ.",
        measure="linear network, v = −u in the first coordinate, alpha = 1e-8, t between T_1 and T_2: relative "
        "distance of p_1 from theta^1; then with |u| and |v| apart",
        shows=errata_shown.shows_a42_start,
    ),
    a43=Erratum(
        where="section 4.2, Assumption 4.3; Assumption C.2",
        printed="Near u^k and on its support L is at least c |u^k − u|². (The ball's radius is called delta where the "
        "line before has delta_k.)",
        true="L is at least L(theta^k) + c |u^k − u|², which step (a) in the proof of Lemma C.5 uses. As printed every "
        "point of positive loss passes, minimum or not.",
        severity="misprint",
        repair="Add L(theta^k) on the right-hand side.",
        measure="the c with which a point passes that is not even stationary (0: it does not); linear network, p_1 "
        "halfway to its coefficient",
        shows=errata_shown.shows_a43,
    ),
    theorem_sign=Erratum(
        where="section 4.2, Theorem 4.5; Theorem C.4",
        printed="From any alpha theta_0 that meets the assumptions, theta(t log(1/alpha)) tends to theta^k.",
        true="theta^k has u^k >= 0 by Eq. (11). This is the limit where u_i(0) > |v_i(0)|, to which the proof turns "
        "in section C.3; else (u_i, v_i) keeps signs of its own, and may tend to minus the pair of theta^k. The "
        "products u*v tend to theirs from any start.",
        severity="imprecise",
        repair="Say it of u*v, or assume u(0) > |v(0)|.",
        measure="relative distance of (u, v) from theta^2, then of u*v from its; mean of eight Gaussian starts of the "
        "linear network, alpha = 1e-12",
        shows=errata_shown.shows_theorem_sign,
    ),
    heads=Erratum(
        where="section 4.2, Example 4.6",
        printed="In a diagonal transformer at most one head of one layer gains at most one in rank in each stage, for "
        "any number of heads H.",
        true="At theta = 0 the heads of a layer are exchangeable, so that their Delta_0 tie and Assumption 4.2 cannot "
        "hold for H >= 2. The same entry enters in all heads of a layer at once, in the ratio of the initial (u ± v)²; "
        "only its sum is pinned down, so Assumption 4.3 fails as well.",
        severity="conclusion fails",
        repair="H = 1. For H >= 2 it is the sum over the heads of a layer that gains at most one.",
        measure="entries that enter beyond one in stage 1 of Algorithm 1, one layer of two heads; then of the sum over "
        "heads",
        shows=errata_shown.shows_heads,
    ),
    descent=Erratum(
        where="section 5, toy models, and Fig. 2's caption; Appendix A and Fig. 9's caption",
        printed="The toy model is trained by gradient descent in one place, and by stochastic gradient descent in the "
        "other.",
        true="These are different rules unless a batch is the whole training set. No batch size is given.",
        severity="imprecise",
        repair="Full batches, which is what the gradient flow of the theory is the limit of.",
        measure="relative deviation of −dL/dp on a batch of 8 from that on all 40 samples; then on a batch of all",
        shows=errata_shown.shows_descent,
    ),
    eigenvalues=Erratum(
        where="Fig. 3's caption",
        printed="Eigenvalues of the change of W_K W_Q^T and W_V W_O^T are plotted.",
        true="These matrices are not symmetric; their eigenvalues are complex and say little of their rank. What "
        "evolves in section 5 and Fig. 2 are singular values.",
        severity="misprint",
        repair="Singular values.",
        measure="relative deviation of the |eigenvalues| from the singular values of a change of W_K W_Q^T, d = 8; "
        "then of the roots of the eigenvalues of the matrix times its transpose",
        shows=errata_shown.shows_eigenvalues,
    ),
    app_a_difference=Erratum(
        where="Appendix A, validation of Assumption 4.2",
        printed="The technical condition is on the coordinates of supp(theta^k) that supp(theta^{k−1}) does not have.",
        true="The other way round, on those that leave. The newcomers that are named have g_i(theta^k) = 0 at every "
        "stage, for theta^k is stationary: the condition would always fail.",
        severity="misprint",
        repair="Exchange the two supports.",
        measure="share of stages at which g_i(theta^k) = 0 for a coordinate of the set; five stages of a head of which "
        "one entry leaves",
        shows=errata_shown.shows_app_a_difference,
    ),
    no_leaver=Erratum(
        where="Appendix A, validation of Assumption 4.2",
        printed="The technical condition holds because no coordinate ever leaves the support.",
        true="That is so on the instance of the figures, not in general: with other teachers, data and starts of the "
        "same kind an entry of W_K W_Q^T leaves. The condition itself held there: what leaves is pushed.",
        severity="imprecise",
        repair="It holds because g_i(theta^k) differs from 0 where a coordinate leaves.",
        measure="share of stages at which a coordinate leaves; then at which one leaves with g_i = 0; d=14, n=6, "
        "160 samples, five stages",
        shows=errata_shown.shows_no_leaver,
    ),
    fig9_weights=Erratum(
        where="Appendix A, validation of Assumption 4.3; Fig. 9's caption",
        printed="After noise on each weight, training brings every weight back to where it would have been.",
        true="Noise on u and v apart changes u² − v², which is conserved: u and v come to rest elsewhere. It is the "
        "products u*v, the entries that are plotted, that return.",
        severity="imprecise",
        repair="Say it of u*v, or move u and v so that u² − v² stays.",
        measure="distance from the plateau at the end as a share of that after the noise of 0.05, of (u, v), then of "
        "u*v; second plateau of a head, support alone",
        shows=errata_shown.shows_fig9_weights,
    ),
    fig9_threshold=Erratum(
        where="Appendix A, validation of Assumption 4.3",
        printed="All weights above 1e-5 are moved, and a return shows that theta^k is a strict minimum on its support.",
        true="At alpha = 1e-32 a coordinate is above 1e-5 while the last 5/32 of its way up are still ahead: it is not "
        "in the support. Noise of 0.05 hands it this way, so that the next stage begins at once.",
        severity="imprecise",
        repair="Move the coordinates of the support alone.",
        measure="relative distance of p from that of the undisturbed run, time 6 after the noise; linear network on "
        "theta^1, the next coordinate at 2e-5",
        shows=errata_shown.shows_fig9_threshold,
    ),
    lemma_c6=Erratum(
        where="section C.6.1, Lemma C.6, Eq. (27)",
        printed="On the k-th plateau every g_i outside the support has the sign of g_i(theta^k).",
        true="Where g_i(theta^k) = 0 it need not stay zero. In an attention head this is half of all coordinates on "
        "the first plateau: without values and outputs, keys and queries have no gradient.",
        severity="imprecise",
        repair="For all i with g_i(theta^k) other than 0, to which alone it is applied.",
        measure="share of the coordinates whose sign differs, halfway through the first plateau of a head at "
        "alpha = 1e-4; then of those with g_i(theta^0) other than 0",
        shows=errata_shown.shows_lemma_c6,
    ),
    lemma_c8_sign=Erratum(
        where="section C.6.1, proof of Lemma C.8, second case",
        printed="A coordinate that has just left the support has v > 0, because u and v are near theirs at theta^k.",
        true="At theta^k both are zero, so nearness says nothing of their signs. That b^k = 0 does: then log_alpha w "
        "is below 1 − c, and Lemma D.3 gives v > 0.",
        severity="imprecise",
        repair="Use Eq. (17) and Lemma D.3.",
        measure="share with v <= 0 of points with u > |v| closer to zero than 0.01, alpha = 1e-32; then of those with "
        "log_alpha w < 1/2",
        shows=errata_shown.shows_lemma_c8_sign,
    ),
    lemma_c10=Erratum(
        where="section C.7, Lemma C.10, last claim",
        printed="During a move all 2p entries of theta keep their size up to a factor that does not depend on alpha.",
        true="w = u + v and u do, where u > |v|. v = (w − (u − v))/2 may pass through zero, as it does for entries of "
        "W_K W_Q^T in the first move of an attention head, which have waited at b = 1. Only the upper bound is used "
        "later, and |v| < u gives it. (The flow in the proof also has a gradient in w for one in theta.)",
        severity="imprecise",
        repair="Say it of u and w; v is bounded by u.",
        measure="share of the entries of W_K W_Q^T whose v changes its sign in the first move of a head, 64 starts; "
        "then whose u changes by more than the factor by which w does",
        shows=errata_shown.shows_lemma_c10,
    ),
    lemma_d4=Erratum(
        where="section D.2, Lemma D.4; Assumption 4.2, last condition",
        printed="A coordinate off the support of theta^k with b in {0, 2} was in that of theta^{k−1}.",
        true="It may be the newcomer i_{k−1} itself: it enters, pushes others over a hill of the loss, and is pulled "
        "back to zero. It was in neither support then, and Assumption 4.2 does not ask for g_i other than 0 there. "
        "(Where L is convex this cannot happen.)",
        severity="imprecise",
        repair="supp(theta^{k−1}) with i_{k−1} added, in the lemma and in the assumption.",
        measure="share of the coordinates off the support with b in {0, 2} that are not in the set; two coordinates, "
        "the first with a double well",
        shows=errata_shown.shows_lemma_d4,
    ),
)
ERRATA: tuple[Erratum, ...] = (*SHOWN, *misprints(Path(__file__).with_name("misprints.tsv")))
