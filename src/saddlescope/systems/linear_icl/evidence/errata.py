"""What the paper prints and what holds instead."""

from __future__ import annotations

from pathlib import Path

from saddlescope.core.experiment import Erratum, listed, misprints

from . import errata_shown

VERSION = "the short version with appendices A to E, equations (1) to (51)"
"""Of the paper that was read."""

SHOWN = listed(
    fixed_point_count=Erratum(
        where="section 3.1, below Eq. (4); sections 4 and E.3",
        printed="There are 2^D fixed points in function space, and from a small start D+1 of them are visited, "
        "whatever H and R.",
        true="Σ v k qᵀ has rank at most HR, so M(S) is empty for |S| > HR: with HR < D there are Σ_{m <= HR} C(D, m) "
        "such functions, and training ends at M_{HR}.",
        severity="imprecise",
        repair="Assume HR >= D, as all the paper's figures do.",
        measure="relative error of the number of reachable functions, D=4, H=2, R=1",
        shows=errata_shown.shows_fixed_point_count,
    ),
    repeated_eigenvalues=Erratum(
        where="section 3.1, below Eq. (4); section E.3",
        printed="There are 2^D fixed points in function space, for any Λ.",
        true="Stationary maps are the partial singular value decompositions of diag(λ^{3/2} a^{-1/2}) in rescaled "
        "coordinates. Equal eigenvalues make equal singular values, and any direction of their eigenspace may then be "
        "learned alone: a continuum.",
        severity="imprecise",
        repair="Assume distinct eigenvalues; among equal ones count eigenspaces with the number of directions learned.",
        measure="one head turned from e_1 to e_2: where its velocity is below 1e-12, the largest relative distance of "
        "its map from all 2^D listed ones; eigenvalues 0.35, 0.35, 0.15, 0.15 against 0.4, 0.3, 0.2, 0.1",
        shows=errata_shown.shows_repeated_eigenvalues,
    ),
    c3=Erratum(
        where="section 3.1, condition (C3)",
        printed="A head with v = 0 at a fixed point has k or q in the span of the learned eigenvectors.",
        true="That is enough but not needed: v = 0 is at rest when Σ_{d not in S} λ_d² k_d q_d = 0, which Eq. (49) "
        "asks for. At R=1 the set of section E.3 is therefore larger than that of section 3.1. Example: S empty, "
        "k = (1, 1, 0, 0), q = (λ_1^-2, −λ_2^-2, 0, 0).",
        severity="imprecise",
        repair="Use Eq. (49) for R=1 too. The functions, and so their number, stay the same.",
        measure="at the example: the smaller of the shares of k and q outside the span (zero if (C3) held); then the "
        "larger of the head's velocity and the left-hand side of Eq. (49)",
        shows=errata_shown.shows_c3,
    ),
    signs=Erratum(
        where="section 3.2, Eq. (6) and (7); section D.5.2, Eq. (34)",
        printed="A grown head has k = q = v e with v > 0.",
        true="Heads grow to v < 0 as often as to v > 0, and then k = −q, as section D.5.1 says itself. Eq. (7) then "
        "holds for |v|; put into Eq. (7) as printed, a negative v would die out.",
        severity="imprecise",
        repair="k = sgn(v) q, Eq. (7) for |v|: the ansatz up to the symmetry (v, k) -> (−v, −k).",
        measure="max |k − q| / |k| over the grown heads of four flows from init_scale 0.01; then |k − sgn(v) q| / |k|",
        shows=errata_shown.shows_signs,
    ),
    later_plateaus=Erratum(
        where="section 3.2, second paragraph",
        printed="A later plateau lasts longer than an earlier one, because its eigenvalue is smaller.",
        true="The heads that are left keep growing on every plateau, so a later one begins with larger weights. In the "
        "setting of Fig. 1 the second plateau is shorter than the first for more than half of all initial weights; "
        "only the last is almost always the longest.",
        severity="conclusion fails",
        repair="The time that given heads with q = sgn(v) k need to leave M_m, counted from the same weights, grows "
        "with m: all their rates are lower.",
        measure="share of successive plateaus that do not last longer, 16 seeds at init_scale 1e-3; then of "
        "successive departure times from the same weights with q = sgn(v) k",
        shows=errata_shown.shows_later_plateaus,
    ),
    large_n=Erratum(
        where="section 3.2, last paragraph; section 3.3, below Eq. (8)",
        printed="The m-th drop is about λ_m, and at M_m the network performs principal component regression (at M_D "
        "least squares), N not being mentioned any more.",
        true="Both need N much larger than 1 + tr Λ/λ_m. Least squares returns y_q exactly for N >= D, since labels "
        "have no noise; the converged network of Fig. 1 leaves a seventh of the variance of y_q.",
        severity="imprecise",
        repair="Keep the limit N -> ∞, or state Eq. (5) and (8), which hold for every N.",
        measure="E(ŷ_q − least squares)² / E(y_q²) at M_D for N=31, as in the figures; then for N=10^6",
        shows=errata_shown.shows_large_n,
    ),
    rank_divides=Erratum(
        where="section 4 (three times); Fig. 7's caption",
        printed="Plateaus are conspicuous at M_m when m divides R.",
        true="When R divides m, m=0 included, as the paper's own examples have it: all pairs of the grown heads are in "
        "use, and a head must start from nothing. Otherwise a grown head has a free pair, which leaves M_m "
        "exponentially fast.",
        severity="conclusion fails",
        repair="Read: m is a multiple of R.",
        measure="share of m = 0..7 and R = 2, 3, 4 (Fig. 2's spectrum) for which the criterion disagrees with "
        "the curvature: M_m has no growing linear mode",
        shows=errata_shown.shows_rank_divides,
    ),
    eq9=Erratum(
        where="section B.3, Eq. (9)",
        printed="The prediction of y_n is made from the first n columns of X.",
        true="For n <= N the n-th column contains y_n, and the skip connection alone would hand it over. Eq. (11) and "
        "(12) belong to a prediction that sees n − 1 labelled columns and x_n with label 0.",
        severity="imprecise",
        repair="Set the label in the last of the n columns to zero.",
        measure="mean |∂ŷ_n/∂y_n| at M_D, n = 2..31, one sequence",
        shows=errata_shown.shows_eq9,
    ),
    eq24c=Erratum(
        where="section D.2, Eq. (24c)",
        printed="The query moves by v (Λ² − Λ Σ v k qᵀ E(Λ̂²)) k.",
        true="By v (Λ² − Λ Σ v q kᵀ E(Λ̂²)) k, the transpose of the bracket in Eq. (24b).",
        severity="misprint",
        repair="q kᵀ for k qᵀ, as in the right-hand side of Eq. (45c).",
        measure="relative deviation from −½ ∂L/∂q by differences of the loss, three random heads",
        shows=errata_shown.shows_eq24c,
    ),
    eq38=Erratum(
        where="section D.5.2, Eq. (38); section D.6.2, Eq. (43)",
        printed="A plateau lasts about τ/(λ² v), v being the value weight of the growing head when it begins.",
        true="This takes |k| = |q| = |v| and k, q along the eigenvector from the beginning. On the plateau the "
        "equations are homogeneous, so the time to align is a fixed share of it at every initial scale: the error is "
        "a factor that does not tend to 1 (0.57 for the first plateau in the median of 64 seeds, half of them between "
        "0.44 and 0.93), and v may even change its sign first.",
        severity="conclusion fails",
        repair="Only t ∝ τ/init_scale holds. For the factor: t = ∫ ds/|v| with s = ∫ v dt, "
        "v² = v(0)² + ¼ Σ_d (c₊² (e^{2λ_d² s} − 1) + c₋² (e^{−2λ_d² s} − 1)), c± = e_dᵀ(k ± q) at the "
        "beginning, leg by leg if v changes its sign.",
        measure="median |t_1 printed / t_1 − 1| over 16 seeds at init_scale 1e-6, where it would have to be small; "
        "then of the repaired t_1 against integrated flows, four seeds at init_scale 0.01",
        shows=errata_shown.shows_eq38,
    ),
    equal_norms=Erratum(
        where="section D.7, below Eq. (44)",
        printed="From a small start |k|, |q| and |v| of a head are approximately equal throughout training.",
        true="Their squares differ by a constant of the size of the initial squares: on a head's own plateau they "
        "differ by a factor of order one, however small the start. They become equal as the head grows.",
        severity="imprecise",
        repair="Equal once the head has grown, with a relative error of order init_scale².",
        measure="| |k|² − v² | / (|k|² + v²), median over the grown heads of four flows from init_scale 0.01: largest "
        "during training, then at the end",
        shows=errata_shown.shows_equal_norms,
    ),
    e1_population=Erratum(
        where="section 2.2, above Eq. (2); section E.1",
        printed="The blocks of W^V and W^K that start at zero stay zero in training on P sequences.",
        true="Their velocity contains first and third moments of the task vector, which vanish for the population but "
        "not for a finite training set: the blocks leave zero at a rate that falls as 1/√P.",
        severity="imprecise",
        repair="P -> ∞, or a training set that contains each sequence with the opposite labels as well.",
        measure="largest velocity of the zero blocks over that of the others at the start, P=1000; then with the "
        "mirror images added",
        shows=errata_shown.shows_e1_population,
    ),
    fig7=Erratum(
        where="Fig. 7's caption",
        printed="The setting is that of Fig. 1(b) but for the rank, with N=32 and H=5.",
        true="Fig. 1 has N=31 and H=4, so one caption is wrong or three things differ. (32 is the number of tokens of "
        "Fig. 1, the query included.)",
        severity="misprint",
        repair="N=31, and H=5 named as a difference.",
        measure="largest relative difference of the plateau losses of Eq. (5) from those of Fig. 1; they do not "
        "depend on H",
        shows=errata_shown.shows_fig7,
    ),
    e5=Erratum(
        where="section E.5, first paragraph",
        printed="With repeated eigenvalues only the initial weights decide how long a plateau lasts.",
        true="The eigenvalues decide as well: every plateau's duration scales as λ^-2, equal or not (Eq. (43) says so "
        "too). Only the order among equal eigenvalues is left to the initial weights.",
        severity="imprecise",
        repair="In units of λ^-2, between equal eigenvalues.",
        measure="relative change of the time to leave M_0 when Λ is doubled, from the same weights, eigenvalues 0.35, "
        "0.35, 0.15, 0.15; then in units of λ^-2",
        shows=errata_shown.shows_e5,
    ),
)
ERRATA: tuple[Erratum, ...] = (*SHOWN, *misprints(Path(__file__).with_name("misprints.tsv")))
