"""Claims of the paper, each in a form that can lose."""

from __future__ import annotations

from typing import Any

from saddlescope.core.claim import (
    OURS,
    Claim,
    aligned,
    all_of,
    bounded,
    close,
    monotone,
    ordered,
    scales_as,
    share_of,
    together,
)
from saddlescope.core.experiment import listed
from saddlescope.core.run import Run

from .measures import common, growth, landscape, prompts, sampling, sweeps

PAPER = "zhang2025"

EXACT = "an identity: weights are of order one and sums have some hundred terms of rounding 1e-16"
COUNT = "a count has no tolerance"
ORDER = "an order has no tolerance"
SETTLED = "runs last 1.3 x the time of the last drop, thousands of e-folds after it"
KEPT = "what a head keeps of its start is of relative size init_scale"
RESTING = "what grows meanwhile is small: its size to the third power at the flattest point"
ROUNDING = "rounding, 1e-16, may grow while the network sits on a plateau"
PROLONGED = "a run is prolonged until the last plateau is within 1e-6"


# ---- what a run can decide ---------------------------------------------------------------------------------


def _decidable(run: Run, smallest: float = 0.1) -> str | None:
    """Why a run cannot decide what the paper says of the population from a small start, or None.

    Its length counts, and not what was seen in it: a run that is long enough and lacks a drop is a refutation.
    """
    spec = run.system.spec
    if spec.sequences is not None:
        return "a statement about the population, and this run has finitely many sequences"
    if spec.init_scale > smallest:
        return f"init_scale {spec.init_scale} is not small"
    last = run.prediction.last_time if run.prediction else None
    if last is None or run.trajectory["time"].values[-1] < last:
        return "the run is shorter than the predicted time of the last drop"
    return None


def _small(run: Run) -> str | None:
    return _decidable(run, 1e-2)


def _rank_one(run: Run) -> str | None:
    spec = run.system.spec
    if spec.rank > 1 or len(set(spec.eigenvalues)) < spec.dim or spec.stage_count < spec.dim:
        return "a statement about heads of rank one, distinct eigenvalues, and a head for each"
    return _small(run)


def _sample(run: Run) -> str | None:
    return None if run.system.spec.sequences is not None else "a statement about finitely many sequences"


def _many(run: Run) -> str | None:
    count = run.system.spec.sequences
    return None if count is not None and count >= 5000 else "a statement about thousands of sequences"


def _mirrored(run: Run) -> str | None:
    return None if run.system.spec.mirrored else "a statement about data that contain their mirror image"


def _every_length(run: Run) -> str | None:
    return None if run.system.spec.objective == "next_token" else "a statement about contexts of every length"


def _only(rank: int | None = None, most: int | None = None) -> Any:
    def reason(run: Run) -> str | None:
        spec = run.system.spec
        if rank is not None and spec.rank != rank:
            return f"a statement about rank {rank}"
        if most is not None and spec.dim > most:
            return f"a search that is thorough up to {most} dimensions"
        return None

    return reason


STAIRCASE = {"experiment": "staircase", "seeds": all_of(6)}
RANK_ONE = {**STAIRCASE, "applies": _rank_one}
LANDSCAPE = {"experiment": "landscape", "seeds": all_of(2)}
DURATIONS = {"experiment": "durations", "seeds": together(32)}
ENSEMBLE = {"experiment": "ensemble", "seeds": together(1000)}
CONTEXT = {"experiment": "context", "seeds": together(10)}
RANKS = {"experiment": "ranks", "seeds": together(48)}
SCALES = {"experiment": "scales", "seeds": together(24)}
NEXT_TOKEN = {"experiment": "next_token", "seeds": all_of(6), "applies": _small}
LENGTHS = {"experiment": "next_token", "seeds": together(1), "applies": _every_length}

CLAIMS = listed(
    # ---- the staircase: section 3.2, Fig. 1
    number_of_drops=Claim(
        says="From a small start the loss falls in D abrupt drops.",
        source=(PAPER, "section 3.2, Fig. 1(a)"),
        measured=common.drops_seen,
        expected=lambda run: run.system.spec.stage_count,
        relation=close(0.0, because=f"{COUNT}; drops are found in the curve alone, without the theory's levels"),
        applies=_rank_one,
        experiment="staircase",
        seeds=share_of(0.9, 6),
    ),
    order_of_learning=Claim(
        says="Eigenvectors are learned one after the other, in descending order of their eigenvalues.",
        source=(PAPER, "section 3.2"),
        measured=common.learning_times,
        relation=ordered(because=ORDER),
        applies=_decidable,
        **STAIRCASE,
    ),
    plateau_levels=Claim(
        says="Between drops the loss rests at L(M_m).",
        source=(PAPER, "Eq. (5)"),
        measured=common.levels,
        expected=common.theory_levels,
        relation=close(1e-5, because=RESTING),
        applies=_small,
        **STAIRCASE,
    ),
    visited_fixed_points=Claim(
        says="The network visits M_0, M_1, .., M_D in this order: on plateau m exactly e_1 .. e_m are fitted.",
        source=(PAPER, "section 3.2"),
        measured=common.gain_errors,
        relation=bounded(
            1e-4,
            because="what grows on a conspicuous plateau is some percent of its size, cubed, at its flattest point",
        ),
        **RANK_ONE,
    ),
    last_plateau=Claim(
        says="Training ends at the loss of M_D.",
        source=(PAPER, "Eq. (5), section 3.3"),
        measured=lambda run: run.series("loss")[-1],
        expected=lambda run: common.theory_level(run, run.system.spec.stage_count),
        relation=close(1e-6, because=PROLONGED),
        applies=_decidable,
        **STAIRCASE,
    ),
    fewer_heads_stop_earlier=Claim(
        says="Where heads and pairs hold fewer directions than there are, training ends at M_m with m = HR.",
        source=(PAPER, "section 3.2, with the condition that it lacks"),
        measured=lambda run: run.series("loss")[-1],
        expected=lambda run: common.theory_level(run, run.system.spec.stage_count),
        relation=close(1e-6, because=PROLONGED),
        applies=lambda run: None if run.system.spec.stage_count < run.system.spec.dim else "there are heads enough",
        experiment="few_heads",
        seeds=all_of(4),
    ),
    learned_gain=Claim(
        says="At the end every eigenvector is fitted with the coefficient of Eq. (4).",
        source=(PAPER, "Eq. (4), (6a)"),
        measured=lambda run: common.gains_at(run, -1)[: run.system.spec.stage_count],
        expected=common.ones_per_stage,
        relation=close(1e-6, because=SETTLED),
        applies=_small,
        **STAIRCASE,
    ),
    one_head_per_eigenvector=Claim(
        says="Each eigenvector falls to one head, whose key and query are aligned with it.",
        source=(PAPER, "section 3.2, Fig. 1(c), Eq. (6)"),
        measured=growth.head_cosines,
        relation=aligned(0.999, because=KEPT),
        applies=_rank_one,
        experiment="staircase",
        seeds=all_of(64),
    ),
    one_head_where_drops_stand_apart=Claim(
        says="Each eigenvector learned between two conspicuous plateaus falls to one head, aligned with it; where two "
        "drops nearly coincide, two heads share two directions, and only their sum is fixed.",
        source=(PAPER, "section 3.2, Fig. 1(c), Eq. (6), corrected"),
        measured=lambda run: growth.head_cosines(run, apart=True),
        relation=aligned(0.999, because=KEPT),
        repairs="one_head_per_eigenvector",
        **RANK_ONE,
    ),
    alignment_in_the_limit=Claim(
        says="As the start becomes small, every head becomes aligned: the angle left at the end is proportional to "
        "w_init.",
        source=(PAPER, "section 3.2, Eq. (6), D.5.2; the rate is ours"),
        measured=sweeps.angle_by_scale,
        relation=scales_as(1.0, 0.05, because="the median over seeds; at 0.1 the angle is no longer small"),
        **DURATIONS,
        repairs="one_head_per_eigenvector",
    ),
    opposite_key_and_query=Claim(
        says="Key and query of a head point the same way if its value is positive and opposite ways if it is negative.",
        source=(PAPER, "section D.5.1"),
        measured=common.signed_cosines,
        relation=bounded(lower=0.999, because=KEPT),
        **RANK_ONE,
    ),
    product_along_eigenvectors=Claim(
        says="Whatever the signs, the product v k q' grows along e_d e_d'.",
        source=(PAPER, "section D.5.1"),
        measured=common.tilt,
        relation=bounded(1e-6, because=SETTLED),
        **RANK_ONE,
    ),
    equal_norms=Claim(
        says="In every head that has grown, value, key and query have equal norms.",
        source=(PAPER, "section 3.2, D.7"),
        measured=common.norm_gaps,
        relation=bounded(
            1e-4, because="their squares differ by what is conserved, init_scale² = 1e-6 of a grown weight"
        ),
        applies=lambda run: _decidable(run, 1e-3),
        **STAIRCASE,
    ),
    conservation=Claim(
        says="|k|² − |q|² of each pair and Σ|k|² − v² of each head do not change.",
        source=(PAPER, "Eq. (44), (50)"),
        measured=lambda run: run.trajectory.attrs["conserved_drift"],
        relation=bounded(1e-7, because="the solver's rtol is 1e-8 per step, and a run takes a few thousand steps"),
        experiment="pairs",
        seeds=all_of(12),
    ),
    scalar_growth=Claim(
        says="During a drop the growing head's value follows the scalar equation (7).",
        source=(PAPER, "Eq. (7), (36), (42), Fig. 1(b)"),
        measured=growth.growth_error,
        relation=bounded(
            0.02,
            because="with the other heads a thousandth of its size; at 5% of its growth the head is "
            "not yet quite aligned",
        ),
        **RANK_ONE,
    ),
    growth_time=Claim(
        says="The time that the value takes from 0.3 to 0.9 of its final size is that of the closed form (37).",
        source=(PAPER, "Eq. (37)"),
        measured=lambda run: growth.growth_times(run)[0],
        expected=lambda run: growth.growth_times(run)[1],
        relation=close(0.05, because="at 0.3 of its growth a head still turns towards its eigenvector"),
        **RANK_ONE,
    ),
    early_alignment=Claim(
        says="On the first plateau keys and queries follow the exponentials of Eq. (33) in the integral of the value.",
        source=(PAPER, "Eq. (32), (33)"),
        measured=growth.early_error,
        relation=bounded(1e-2, because="the integral of v is taken by the trapezoidal rule on the saved times"),
        **RANK_ONE,
    ),
    regression_in_context=Claim(
        says="On plateau m the network, given fresh tokens, answers by Eq. (8): regression on m principal components.",
        source=(PAPER, "Eq. (8)"),
        measured=prompts.distance_from_theory,
        relation=bounded(1e-4, because="relative to the answers; as near as the learned shares are to 0 and 1"),
        **RANK_ONE,
    ),
    # ---- gradient descent, the paper's own method
    levels_under_descent=Claim(
        says="Gradient descent with a finite step rests at the same losses.",
        source=(PAPER, "Eq. (5), Fig. 1(a)"),
        measured=common.levels,
        expected=common.theory_levels,
        relation=close(1e-4, because="init_scale 0.01, and snapshots stand apart by up to a percent of the time"),
        applies=_small,
        experiment="training",
        seeds=all_of(6),
    ),
    levels_on_sequences=Claim(
        says="On thousands of sampled sequences, as the paper trains, the loss rests near the same levels.",
        source=(PAPER, "Eq. (5), Fig. 1(a)"),
        measured=sampling.stray_levels,
        relation=bounded(0.05, because="over tr Λ; 5000 sequences know the mean square error to 2 or 3 percent"),
        applies=_many,
        experiment="blocks",
        seeds=all_of(2),
    ),
    flow_equations=Claim(
        says="Eq. (24) is the descent of the loss on sequences: at weights of order one the mean square gap is of "
        "order 1/P.",
        source=(PAPER, "Eq. (22)-(24), (45)"),
        measured=lambda runs: sweeps.against(runs, "sequences", sampling.gradient_gap),
        relation=scales_as(
            -1.0,
            0.2,
            because="eight data sets of each size: their mean square is known to some tens of percent, over a factor "
            "of 400 in P",
        ),
        experiment="blocks",
        seeds=together(40),
    ),
    second_moments=Claim(
        says="E(Λ̂²) over contexts of length N has the eigenvalues of Eq. (18).",
        source=(PAPER, "Eq. (17)-(19)"),
        measured=lambda runs: sampling.of_one_length(runs[0]),
        expected=lambda runs: common.frame_of(runs[0]).second_moments,
        relation=close(0.02, because="sampled: 40000 contexts, a fourth moment known to some thousandths"),
        experiment="staircase",
        seeds=together(1),
    ),
    # ---- the times of the drops: D.5, D.6
    printed_durations=Claim(
        says="A plateau lasts 1/(λ² v) with the growing head's value at its beginning.",
        source=(PAPER, "Eq. (38), (43)"),
        measured=sweeps.printed_factors,
        expected=lambda runs: common.ones_per_stage(runs[0]),
        relation=close(0.1, because="the printed sign is ≈; a tenth of the duration is generous, over the median seed"),
        **DURATIONS,
    ),
    durations_do_not_converge=Claim(
        says="The factor between printed and true duration does not tend to one: its distance from it is the same at "
        "every small initial scale.",
        source=(PAPER, "Eq. (38), (43), corrected"),
        measured=lambda runs: sweeps.factor_from_one(runs, scale=1e-4),
        expected=lambda runs: sweeps.factor_from_one(runs, scale=1e-3),
        relation=close(0.05, because="a distance that vanished with the scale would be ten times smaller"),
        **DURATIONS,
        repairs="printed_durations",
    ),
    stage_times=Claim(
        says="The stage algorithm gives the times of all drops from the initial weights alone.",
        source=(PAPER, "Eq. (38), (43), corrected"),
        measured=common.drop_times,
        expected=lambda run: run.prediction.times,
        relation=close(0.005, because="a runner-up head may be a percent of its final size when another drop comes"),
        applies=_rank_one,
        experiment="staircase",
        seeds=share_of(0.95, 6),
        repairs="printed_durations",
    ),
    time_scales_with_eigenvalue=Claim(
        says="The time to learn a direction from a small start is proportional to its eigenvalue to the power −2.",
        source=(PAPER, "section 3.2, D.6"),
        measured=sweeps.first_drop_by_eigenvalue,
        relation=scales_as(-2.0, 1e-3, because="exact by homogeneity but for the drop, some units of time in 1e5"),
        experiment="eigenvalue",
        seeds=together(20),
    ),
    later_plateaus_longer=Claim(
        says="Each plateau lasts longer than the one before it.",
        source=(PAPER, "section 3.2, Fig. 1(a)"),
        measured=sweeps.median_durations,
        relation=ordered(because=f"{ORDER}; medians over seeds"),
        **ENSEMBLE,
    ),
    second_plateau_is_shorter=Claim(
        says="The second plateau, which begins with heads that have grown during the first, is shorter than it; from "
        "then on each lasts longer than the one before it.",
        source=(PAPER, "section 3.2, Fig. 1(a), corrected"),
        measured=sweeps.duration_ratios,
        relation=bounded(lower=1.0, because=f"{ORDER}; ratios of medians over seeds"),
        **ENSEMBLE,
        repairs="later_plateaus_longer",
    ),
    variance_grows=Claim(
        says="The later a drop, the more its time varies over initial weights.",
        source=(PAPER, "section D.6"),
        measured=sweeps.spreads,
        relation=ordered(because=f"{ORDER}; standard deviations of 1000 seeds, each known to a few percent"),
        **ENSEMBLE,
    ),
    initial_norms=Claim(
        says="The norms of all initial values, of all keys and of all queries are of order w_init.",
        source=(PAPER, "Eq. (20), (21)"),
        measured=sweeps.initial_sizes,
        expected=(1.0, 1.0, 1.0),
        relation=close(
            0.5, because="mean squares over w_init², one by Eq. (20); eight seeds of four values know it to a quarter"
        ),
        **DURATIONS,
    ),
    early_remainder=Claim(
        says="What the early equations leave out is of fifth order in w_init.",
        source=(PAPER, "Eq. (31)"),
        measured=lambda runs: sweeps.against(runs, "init_scale", growth.remainder),
        relation=scales_as(
            5.0, 1e-3, because="a polynomial of fifth degree, found as the difference of numbers of third order"
        ),
        **DURATIONS,
    ),
    # ---- long contexts
    drop_is_eigenvalue=Claim(
        says="As the context grows, the m-th drop of the loss becomes λ_m, with an error of order 1/N.",
        source=(PAPER, "section 3.2, limit of Eq. (5)"),
        measured=lambda runs: sweeps.against(runs, "context_length", common.drop_gaps),
        relation=scales_as(-1.0, 0.05, because="at N=31 the next order, (11/31)² of the smallest drop, still counts"),
        **CONTEXT,
    ),
    principal_component_regression=Claim(
        says="As the context grows, the answer on plateau m tends to w'x_q on m principal components, as N^(-1/2).",
        source=(PAPER, "Eq. (8), limit; the rate is ours"),
        measured=lambda runs: sweeps.against(runs, "context_length", prompts.distance_from_regression),
        relation=scales_as(-0.5, 0.03, because="2000 prompts, and at N=31 corrections of order 1/N"),
        **CONTEXT,
    ),
    least_squares=Claim(
        says="As the context grows, the converged network tends to in-context least squares, as N^(-1/2).",
        source=(PAPER, "section 3.3; the rate is ours"),
        measured=lambda runs: sweeps.against(runs, "context_length", prompts.distance_from_least_squares),
        relation=scales_as(-0.5, 0.03, because="2000 prompts, and at N=31 corrections of order 1/N"),
        **CONTEXT,
    ),
    # ---- landscape: 3.1, D.3, D.4, E.3
    fixed_points=Claim(
        says="At all 2^D sets of learned eigenvectors the gradient vanishes, whatever idle heads hold under (C3).",
        source=(PAPER, "Eq. (3), (4), (46)-(49)"),
        measured=landscape.gradients,
        relation=bounded(1e-12, because=EXACT),
        **LANDSCAPE,
    ),
    fixed_points_complete=Claim(
        says="There are no others in function space: every zero of the gradient that a search finds is one of the 2^D, "
        "and it finds all of them.",
        source=(PAPER, "section 3.1; completeness is ours"),
        measured=landscape.hunted,
        expected=landscape.all_and_no_others,
        relation=close(0.0, because=COUNT),
        applies=_only(rank=1, most=3),
        experiment="landscape",
        seeds=all_of(1),
    ),
    fixed_point_losses=Claim(
        says="The loss at M(S) is tr Λ minus the learned part.",
        source=(PAPER, "Eq. (29)"),
        measured=landscape.landscape_losses,
        expected=landscape.theory_landscape,
        relation=close(1e-12, because=EXACT),
        **LANDSCAPE,
    ),
    visited_without_negative_curvature=Claim(
        says="The visited fixed points have no negative curvature: M_m with m a multiple of R, all pairs of the grown "
        "heads in use and idle heads at zero, however the heads share the directions.",
        source=(OURS, "room README; section 3.2, 4 of zhang2025"),
        measured=landscape.calm_rates,
        relation=bounded(1e-12, because="growth rates that vanish, to rounding of a symmetric matrix of order one"),
        **LANDSCAPE,
    ),
    others_are_strict_saddles=Claim(
        says="All other fixed points, of whatever form, are strict saddles.",
        source=(OURS, "room README; section 3.2 of zhang2025"),
        measured=landscape.wild_rates,
        relation=bounded(lower=1e-5, because="clearly above rounding; what heads share at random is seldom degenerate"),
        **LANDSCAPE,
    ),
    global_minimum=Claim(
        says="M_D is the global minimum over all maps that attention can make.",
        source=(PAPER, "section 3.3"),
        measured=landscape.slope_at_the_end,
        relation=bounded(1e-12, because=EXACT),
        **LANDSCAPE,
    ),
    strict_saddle_rate=Claim(
        says="The rate at which an unvisited fixed point is left is that of the 2 x 2 block of two eigenvectors.",
        source=(OURS, "room README"),
        measured=landscape.growth_rates,
        expected=landscape.theory_rates,
        relation=close(1e-9, because="eigenvalues of order 0.1 of a symmetric matrix of order one, to rounding"),
        applies=_only(rank=1),
        experiment="landscape",
        seeds=all_of(2),
    ),
    # ---- heads of rank R: section 4, E.4
    plateaus_where_m_divides_rank=Claim(
        says="Conspicuous plateaus occur at L(M_m) for m that divides R.",
        source=(PAPER, "section 4, Fig. 2, 7, 8"),
        measured=lambda runs: sweeps.misplaced(runs, sweeps.divides),
        relation=bounded(0.0, because=f"{COUNT}; R = 1..8, medians of six seeds, m = 0 granted"),
        **RANKS,
    ),
    plateaus_at_multiples_of_rank=Claim(
        says="In the median run, conspicuous plateaus occur at L(M_m) exactly for m that is a multiple of R.",
        source=(PAPER, "section 4, Fig. 2, 7, 8, corrected"),
        measured=lambda runs: sweeps.misplaced(runs, sweeps.is_multiple),
        relation=bounded(0.0, because=f"{COUNT}; R = 1..8, medians of six seeds"),
        **RANKS,
        repairs="plateaus_where_m_divides_rank",
    ),
    grown_heads=Claim(
        says="ceil(D/R) heads grow.",
        source=(PAPER, "section 4, E.4"),
        measured=lambda run: len(common.grown_heads(run, -1)),
        expected=lambda run: common.heads_for(run)[-1],
        relation=close(0.0, because=COUNT),
        applies=_small,
        experiment="ranks",
        seeds=share_of(0.9, 8),
    ),
    new_value_at_multiples=Claim(
        says="A new value grows at the drop after plateau m if m is a multiple of R, and at no other.",
        source=(PAPER, "Fig. 7, E.4"),
        measured=common.grown_counts,
        expected=common.heads_for,
        relation=close(0.0, because=COUNT),
        applies=_small,
        experiment="pairs",
        seeds=share_of(0.9, 12),
    ),
    grown_value_speeds_pairs=Claim(
        says="A grown head's value, which multiplies the growth of its other pairs, is many times that of idle heads.",
        source=(PAPER, "section 4, E.4"),
        measured=common.value_ratios,
        relation=bounded(lower=10.0, because="the paper says 'larger'; ten times is clearly so"),
        applies=lambda run: "a statement about rank above one" if run.system.spec.rank == 1 else _small(run),
        experiment="pairs",
        seeds=share_of(0.9, 9),
    ),
    # ---- repeated eigenvalues: E.5
    plateaus_between_equal_eigenvalues=Claim(
        says="With R=1, plateaus occur between equal eigenvalues too, in some runs.",
        source=(PAPER, "section E.5, Fig. 9"),
        measured=lambda runs: sweeps.first_ranks(runs, 1).max(),
        relation=bounded(lower=common.CONSPICUOUS, because="the dwell above which a plateau is conspicuous"),
        experiment="repeated",
        seeds=together(32),
    ),
    skipped_between_equal_eigenvalues=Claim(
        says="And in some runs they are skipped.",
        source=(PAPER, "section E.5, Fig. 9"),
        measured=lambda runs: sweeps.first_ranks(runs, 1).min(),
        relation=bounded(0.05, because="a stop of a twentieth of the time until then is not seen on a linear axis"),
        experiment="repeated",
        seeds=together(128),
    ),
    # ---- initial scale: B.2
    larger_start_shortens_plateaus=Claim(
        says="Increasing the initial scale shortens every plateau.",
        source=(PAPER, "section B.2, Fig. 4"),
        measured=lambda runs: sweeps.by_scale(runs, common.durations),
        relation=monotone("falls", because=f"{ORDER}; medians over seeds at six scales"),
        **SCALES,
    ),
    rich_shape=Claim(
        says="From a small start drops are sigmoids: the share of the fall that is made while the loss falls ever "
        "faster is that of Eq. (7), 1 − 0.6² = 0.64.",
        source=(PAPER, "section B.2, Fig. 4"),
        measured=lambda runs: sweeps.concave_shares(runs)[0],
        expected=0.64,
        relation=close(0.1, because="some tens of saved times resolve a drop"),
        **SCALES,
    ),
    lazy_shape=Claim(
        says="From a large start the loss decays as sums of exponentials do, slower and slower.",
        source=(PAPER, "section B.2, Fig. 4"),
        measured=lambda runs: sweeps.concave_shares(runs)[-1],
        relation=bounded(0.1, because="the share that is made while falling faster is zero for exponentials"),
        **SCALES,
    ),
    mixed_shape=Claim(
        says="In between the shape changes from the one to the other.",
        source=(PAPER, "section B.2, Fig. 4"),
        measured=sweeps.concave_shares,
        relation=monotone(
            "falls",
            because="medians over a few seeds: from 0.01 to 0.5, where all curves are rich, "
            "they wander by some hundredths",
            slack=0.05,
        ),
        **SCALES,
    ),
    # ---- softmax: B.1
    softmax_drops=Claim(
        says="Softmax attention, too, learns in several drops with slow phases between them.",
        source=(PAPER, "section B.1, Fig. 3"),
        measured=lambda run: common.drops_seen(run, smallest=0.05),
        relation=bounded(lower=2, because="several means two at least; each a twentieth of the fall or more"),
        experiment="softmax",
        seeds=all_of(2),
    ),
    # ---- contexts of every length: B.3
    next_token_levels=Claim(
        says="Trained on every token, the loss rests at the levels with E(1/N) in the place of 1/N.",
        source=(PAPER, "Eq. (12), Fig. 5"),
        measured=common.levels,
        expected=common.theory_levels,
        relation=close(1e-5, because=RESTING),
        **NEXT_TOKEN,
    ),
    next_token_predictor=Claim(
        says="The converged network answers fresh prompts by β' [Λ + E(1/N)(Λ + tr Λ)]⁻¹ x_q.",
        source=(PAPER, "Eq. (10), (11)"),
        measured=lambda run: prompts.distance_from_theory(run)[-1:],
        relation=bounded(1e-6, because=SETTLED),
        **NEXT_TOKEN,
    ),
    second_moments_of_all_lengths=Claim(
        says="E(Λ̂²) over lengths 1..N is Λ² + E(1/N)(Λ + tr Λ)Λ.",
        source=(PAPER, "Eq. (16)"),
        measured=lambda runs: sampling.of_all_lengths(runs[0]),
        expected=lambda runs: common.frame_of(runs[0]).second_moments,
        relation=close(0.03, because="sampled: 4000 contexts of each length, a fourth moment known to a percent"),
        **LENGTHS,
    ),
    only_mean_inverse_length=Claim(
        says="Another distribution of lengths with the same E(1/N) has the same E(Λ̂²), all the loss knows of them.",
        source=(PAPER, "section B.3"),
        measured=lambda runs: sampling.of_two_lengths(runs[0]),
        expected=lambda runs: common.frame_of(runs[0]).second_moments,
        relation=close(
            0.03, because="sampled: 60000 contexts of each of two lengths, a fourth moment known to a percent"
        ),
        **LENGTHS,
    ),
    # ---- zero blocks: E.1
    zero_blocks_stay_zero=Claim(
        says="The blocks of value and key that start at zero stay zero when the network is trained on P sequences.",
        source=(PAPER, "section 2.2, E.1; our reading, for a training set"),
        measured=lambda run: run.series("stray").max(),
        relation=bounded(1e-9, because=ROUNDING),
        applies=_sample,
        experiment="blocks",
        seeds=all_of(6),
    ),
    zero_blocks_stay_zero_by_symmetry=Claim(
        says="They stay zero on any data that w -> -w leaves as they are, of which the population is one case.",
        source=(PAPER, "section E.1, corrected"),
        measured=lambda run: run.series("stray").max(),
        relation=bounded(1e-9, because=ROUNDING),
        applies=_mirrored,
        experiment="mirrored_blocks",
        seeds=all_of(4),
        repairs="zero_blocks_stay_zero",
    ),
    zero_blocks_pull=Claim(
        says="On P sequences the mean square pull on these blocks is of order 1/P.",
        source=(PAPER, "section E.1, corrected"),
        measured=lambda runs: sweeps.against(runs, "sequences", sampling.pull_on_zero_blocks),
        relation=scales_as(
            -1.0,
            0.2,
            because="eight data sets of each size: their mean square is known to some tens of "
            "percent, over a factor of 400 in P",
        ),
        experiment="blocks",
        seeds=together(40),
        repairs="zero_blocks_stay_zero",
    ),
    # ---- any loss: D.7, E.6
    conservation_for_any_loss=Claim(
        says="The flow of any loss keeps these quantities: under gradient descent they drift as the step does.",
        source=(PAPER, "Eq. (51), D.7, E.6"),
        measured=sweeps.drift_by_step,
        relation=scales_as(
            1.0, 0.1, because="the next order in the step; |y - ŷ| has a kink, which costs a few percent"
        ),
        experiment="other_loss",
        seeds=together(9),
    ),
)
