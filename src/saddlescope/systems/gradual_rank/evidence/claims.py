"""Claims of the paper, each in a form that can lose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from saddlescope.core.claim import OURS, Claim, all_of, bounded, close, monotone, only, ordered, scales_as, together
from saddlescope.core.experiment import listed
from saddlescope.core.run import Run

from .measures import by_claim, common

PAPER = "boix2023"
SUMMARY = "boix2023, a reader's summary"

COUNT = "a count has no tolerance"
ORDER = "an order has no tolerance"
NEXT_ORDER = "what is left is of second order in 1/log(1/alpha), and what overlapping stages do to each other"
SOLVER = "the flow's tolerance is 1e-8 per step, the orbits' the same"
SETTLED = "on a plateau the rest of the last move and the newcomer are powers of alpha = 1e-1000"
LEADING = "times and logarithms are right to leading order: errors are O(1) against log(1/alpha)"
STAYS = "an entry that stays keeps most of its size; one that leaves becomes a power of alpha"
HALVES = "the step's error is first order: what is left is the second order at these rates"


def _smallest(run: Run, largest: float = -500.0) -> str | None:
    return None if run.system.spec.log10_alpha <= largest else "a statement about the limit alpha -> 0"


def _heads(run: Run) -> str | None:
    return None if run.system.spec.heads > 1 else "a statement about several heads"


def _heads_in_the_limit(run: Run) -> str | None:
    return _heads(run) or _smallest(run)


def _leaver(run: Run) -> str | None:
    """Whether Algorithm 1 has an entry leave."""
    stages = run.prediction.stages if run.prediction else ()
    return None if any(stage.extra["left"] for stage in stages) else "a statement about entries that leave"


def _pair(runs: Sequence[Run]) -> tuple[Run, Run]:
    far, near = common.with_scale(runs, -64.0, -128.0)
    return far, near


def _far_pair(runs: Sequence[Run]) -> tuple[Run, Run]:
    """The two smallest scales, for instances on which two stages are less than a percent of T apart."""
    far, near = sorted(runs, key=lambda run: (-run.seed, -run.system.spec.log10_alpha))[-2:]
    return far, near


LADDER: dict[str, Any] = {"experiment": "limit", "seeds": together(4)}
LIMIT: dict[str, Any] = {"experiment": "limit", "applies": _smallest}
LEAVERS: dict[str, Any] = {"experiment": "leavers", "applies": _smallest}
HEADS: dict[str, Any] = {"experiment": "heads", "seeds": all_of(3), "applies": _heads}
HEADS_LIMIT: dict[str, Any] = {**HEADS, "applies": _heads_in_the_limit}
SCALES: dict[str, Any] = {"experiment": "scales", "seeds": together(6)}

CLAIMS = listed(
    # ---- Theorem 1.1, Theorem 4.5: stages as alpha falls
    lateness_law=Claim(
        says="Stage k comes at T_k (1 + C_k / log(1/alpha)): the relative lateness times log(1/alpha) is the same at "
        "alpha = 1e-64 and 1e-128, for the first six stages.",
        source=(PAPER, "Theorem 4.5"),
        measured=lambda runs: common.lateness(_pair(runs)[1], 6),
        expected=lambda runs: common.lateness(_pair(runs)[0], 6),
        relation=close(0.01, because=NEXT_ORDER),
        **LADDER,
    ),
    limit_times=Claim(
        says="Extrapolated to alpha = 0 from 1e-64 and 1e-128, the first six stages come at the T_k of Algorithm 1.",
        source=(PAPER, "Theorem 4.5, Eq. (9)"),
        measured=lambda runs: common.extrapolated_times(*_pair(runs), 6),
        expected=lambda runs: common.limit_times(runs[0], 6),
        relation=close(1e-5, because=NEXT_ORDER),
        **LADDER,
    ),
    first_time=Claim(
        says="The first stage comes at 1 / max_i |g_i(0)|, in units of log(1/alpha).",
        source=(PAPER, "section 4.1.1, Eq. (9)"),
        measured=lambda runs: common.extrapolated_times(*_pair(runs), 1),
        expected=lambda runs: common.first_limit_time(runs[0]),
        relation=close(1e-6, because="the first stage has nothing to overlap with"),
        **LADDER,
    ),
    times_tend_to_limit=Claim(
        says="The distance of t_k from T_k falls as 1 / log(1/alpha), for each of the first six stages.",
        source=(PAPER, "Eq. (14), (15), (19), Lemma C.7"),
        measured=by_claim.lateness_slopes,
        expected=(-1.0,) * 6,
        relation=close(0.03, because=f"{NEXT_ORDER}; stages 4 to 6 overlap at 1e-32"),
        **LADDER,
    ),
    stages_last_log_alpha=Claim(
        says="The plain time from one stage to the next grows in proportion to log(1/alpha), by T_{k+1} − T_k each.",
        source=(PAPER, "Theorem 1.1, section 4.1"),
        measured=lambda runs: by_claim.growth_of_waiting(*_far_pair(runs), 6),
        expected=lambda runs: by_claim.waits(common.limit_times(runs[0], 6)),
        relation=close(1e-3, because=NEXT_ORDER),
        **LADDER,
    ),
    moves_take_constant_time=Claim(
        says="The move itself takes a time that does not depend on alpha.",
        source=(PAPER, "section 4.1, Lemma C.10"),
        measured=lambda runs: common.move_times(_pair(runs)[1], 3),
        expected=lambda runs: common.move_times(_pair(runs)[0], 3),
        relation=close(0.01, because="read off between the solver's steps"),
        **LADDER,
    ),
    plateaus=Claim(
        says="Between stages p rests at theta^k of Algorithm 1, for the first six stages.",
        source=(PAPER, "Theorem 4.5, Eq. (16)"),
        measured=lambda run: common.plateau_errors(run, 6),
        relation=bounded(1e-5, because=SETTLED),
        **LIMIT,
    ),
    one_entry_per_stage=Claim(
        says="From one plateau to the next at most one entry of u*v becomes nonnegligible.",
        source=(PAPER, "Theorem 1.1, Theorem 4.5"),
        measured=lambda run: common.entries_per_stage(run, 5),
        relation=bounded(1, because=COUNT),
        **LIMIT,
    ),
    stages_do_not_tie=Claim(
        says="Entries of the single head enter at distinct times, in the order of Algorithm 1.",
        source=(PAPER, "Assumption 4.2, Appendix A"),
        measured=lambda run: common.times(run, 6),
        relation=ordered(because=ORDER),
        **LIMIT,
    ),
    corrected_times=Claim(
        says="At a finite alpha the corrected Algorithm 1 gives the times of the first six stages, on any teacher, "
        "data and start, near-ties included.",
        source=(OURS, "README, Finite alpha"),
        measured=lambda run: common.times(run, 6),
        expected=lambda run: common.predicted_times(run, 6),
        relation=close(1e-6, because=SOLVER),
        experiment="instances",
        seeds=all_of(20),
    ),
    # ---- inside the proof
    exponential_growth=Claim(
        says="On a plateau an inactive w_i grows exponentially, at the rate g_i(theta^k).",
        source=(PAPER, "Eq. (6), (7), Lemma C.6"),
        measured=lambda run: common.growth_errors(run, 3),
        relation=bounded(1e-5, because="the middle third of a plateau is hundreds of relaxation times from both ends"),
        applies=only(log10_alpha=-128.0),
        experiment="limit",
    ),
    forces_keep_their_value=Claim(
        says="While the network waits, the forces on inactive entries stay at g(theta^k), sign included.",
        source=(PAPER, "Lemma C.6, Eq. (27), (28)"),
        measured=lambda run: common.force_errors(run, 5),
        relation=bounded(1e-5, because=SETTLED),
        **LIMIT,
    ),
    exponents=Claim(
        says="At T_k the logarithms of w to the base alpha are b^k of Eq. (10), up to an error that falls as "
        "1/log(1/alpha).",
        source=(PAPER, "Eq. (10), (17), (18), (21), (26), (36)"),
        measured=by_claim.exponent_errors,
        relation=scales_as(-1.0, 0.05, because=LEADING),
        **LADDER,
    ),
    inactive_are_powers_of_alpha=Claim(
        says="Entries off the support have |u|, |v| below alpha^c with c > 0 while the network waits.",
        source=(PAPER, "Lemma C.8, Lemma D.1"),
        measured=lambda run: common.inactive_exponents(run, 5),
        relation=bounded(lower=1e-3, because="c depends on the stage; the closest runner-up is 0.2% of T behind"),
        **LIMIT,
    ),
    active_rest=Claim(
        says="Until the newcomer has |u|+|v| = 4 rho, the active weights stay within 24 rho of theta^k.",
        source=(PAPER, "Lemma C.5, Eq. (25)"),
        measured=by_claim.at_two_sizes(common.active_wander),
        relation=bounded(24.0, because="the bound as printed, without its second branch: the stronger statement"),
        **LIMIT,
    ),
    newcomer_is_alone=Claim(
        says="When the newcomer has |u|+|v| = 4 rho, all other entries off the support together have less than rho/2.",
        source=(PAPER, "Lemma C.9, Eq. (22), (24)"),
        measured=by_claim.at_two_sizes(common.company),
        relation=bounded(0.5, because="the bound as printed"),
        **LIMIT,
    ),
    newcomer_sign=Claim(
        says="An entry enters with the sign of the force that brought it.",
        source=(PAPER, "Lemma C.9, Eq. (23), Lemma D.3"),
        measured=lambda run: common.newcomer_signs(run, 6),
        expected=(1.0,) * 6,
        relation=close(0.0, because="a sign has no tolerance"),
        **LIMIT,
    ),
    # ---- the assumptions
    strict_minima=Claim(
        says="Every theta^k is a strict minimum on its support: its least curvature is positive.",
        source=(PAPER, "Assumption 4.3"),
        measured=by_claim.least_curvatures,
        relation=bounded(lower=1e-9, because="positive, by more than rounding"),
        **LIMIT,
    ),
    plateaus_return=Claim(
        says="Balanced noise of 0.05 on the support of theta^k dies out: after twelve relaxation times less than 1e-4 "
        "of it is left.",
        source=(PAPER, "Assumption 4.3, Appendix A"),
        measured=by_claim.what_is_left,
        relation=bounded(1e-4, because="e^-12 is 6e-6, and noise along slow directions is not all that was added"),
        experiment="returns",
        seeds=all_of(10),
        repairs="paper_test_of_returns",
    ),
    moves_are_robust=Claim(
        says="With noise of 0.01 on the support and a newcomer of any small size, the move ends at theta^{k+1}.",
        source=(PAPER, "Assumption 4.4"),
        measured=by_claim.distance_from_goal,
        relation=bounded(1e-6, because=SOLVER),
        experiment="moves_on",
        seeds=all_of(10),
    ),
    paper_test_of_returns=Claim(
        says="Noise of 0.05 on all weights above 1e-5 dies out, and the run goes on as if undisturbed.",
        source=(PAPER, "Appendix A, Fig. 9"),
        measured=by_claim.lasting_differences,
        relation=bounded(0.05, because="what is left after a run's length must be less than what was added"),
        experiment="kicks",
        seeds=together(10),
    ),
    paper_test_of_moves=Claim(
        says="Balanced noise of 0.01 when an entry has |u| = 1e-5 keeps no run farther from theta^{k+1}.",
        source=(PAPER, "Appendix A, Fig. 10, with u and v perturbed alike"),
        measured=by_claim.nearest_to_goal,
        relation=bounded(0.02, because="of entries of order one; the next entries are on their way"),
        experiment="entries",
        seeds=together(10),
    ),
    # ---- the toy experiments
    curves_converge=Claim(
        says="As alpha falls, from 0.01 on, the loss curves in units of log(1/alpha) approach a limit.",
        source=(PAPER, "Appendix A, Fig. 6"),
        measured=lambda runs: common.curve_distances(runs)[1:],
        relation=monotone("falls", because=ORDER),
        **SCALES,
    ),
    entries_converge=Claim(
        says="So do the curves of all entries.",
        source=(PAPER, "Appendix A, Figs 7, 8"),
        measured=lambda runs: common.curve_distances(runs, "product")[1:],
        relation=monotone("falls", because=ORDER),
        **SCALES,
    ),
    fewer_move_at_once=Claim(
        says="The smaller the start, the fewer entries are on the move at the same time.",
        source=(PAPER, "section 5, Appendix A, section 6"),
        measured=by_claim.movers,
        relation=monotone("falls", because=ORDER),
        **SCALES,
    ),
    none_leaves_here=Claim(
        says="On this instance no entry that has been learned leaves the support again.",
        source=(PAPER, "Appendix A"),
        measured=by_claim.what_remains,
        relation=bounded(lower=0.5, because=STAYS),
        applies=only(log10_alpha=-32.0),
        experiment="scales",
    ),
    none_leaves_anywhere=Claim(
        says="On ordinary instances no entry that has been learned leaves the support again.",
        source=(PAPER, "Appendix A"),
        measured=by_claim.what_remains,
        relation=bounded(lower=0.5, because=STAYS),
        experiment="leavers",
        seeds=all_of(3),
    ),
    leavers_are_predicted=Claim(
        says="Entries leave the support when Algorithm 1 says so, and later stages are the predicted ones.",
        source=(OURS, "README, Entries that leave"),
        measured=by_claim.departures,
        expected=by_claim.predicted_departures,
        relation=close(0.0, because="which entry leaves at which stage has no tolerance"),
        applies=_leaver,
        experiment="leavers",
        seeds=all_of(3),
        repairs="none_leaves_anywhere",
    ),
    later_times_with_leavers=Claim(
        says="After an entry has left, stages still come at T_k, and plateaus are theta^k.",
        source=(PAPER, "Theorem 4.5"),
        measured=lambda runs: common.extrapolated_times(*_far_pair(runs), 8),
        expected=lambda runs: common.limit_times(runs[0], 8),
        relation=close(1e-5, because=NEXT_ORDER),
        experiment="leavers",
        seeds=together(3),
    ),
    plateaus_with_leavers=Claim(
        says="Between stages p rests at theta^k, before and after an entry has left.",
        source=(PAPER, "Theorem 4.5"),
        measured=lambda run: common.plateau_errors(run, 7),
        relation=bounded(1e-5, because=SETTLED),
        **LEAVERS,
    ),
    leavers_are_pushed=Claim(
        says="The force on an entry that leaves points against it: its weights shrink at the rate |g_i(theta^k)|.",
        source=(PAPER, "Assumption 4.2, Lemma D.4"),
        measured=by_claim.shrinking,
        expected=by_claim.push_on_leavers,
        relation=close(1e-3, because="the move's rest is still dying out"),
        **LEAVERS,
    ),
    layers_learn_likewise=Claim(
        says="In a transformer of two layers stages come at the T_k of Algorithm 1.",
        source=(PAPER, "Example 3.2, Example 4.6"),
        measured=lambda runs: common.extrapolated_times(*_far_pair(runs), 6),
        expected=lambda runs: common.limit_times(runs[0], 6),
        relation=close(1e-4, because=f"{NEXT_ORDER}; two stages are 1% of T apart"),
        experiment="layers",
        seeds=together(2),
    ),
    one_head_per_stage=Claim(
        says="In each stage at most one head of one layer gains an entry.",
        source=(PAPER, "Example 4.6"),
        measured=by_claim.entries_of_heads,
        relation=bounded(1, because=COUNT),
        **HEADS_LIMIT,
    ),
    heads_share_a_stage=Claim(
        says="In each stage the sum over the heads of one layer gains at most one entry.",
        source=(OURS, "README, Ties"),
        measured=by_claim.entries_of_sums,
        relation=bounded(1, because=COUNT),
        repairs="one_head_per_stage",
        **HEADS_LIMIT,
    ),
    heads_share_by_their_start=Claim(
        says="Two heads that gain an entry together share it in the ratio of w² at the start.",
        source=(OURS, "README, Ties"),
        measured=by_claim.shares,
        expected=by_claim.shares_of_the_start,
        relation=close(1e-3, because="read off on the plateau; what other entries do meanwhile is a power of alpha"),
        **HEADS,
    ),
    # ---- gradient descent
    descent_tends_to_flow=Claim(
        says="Gradient descent tends to the flow at first order in the learning rate.",
        source=(PAPER, "Eq. (3), section 5"),
        measured=by_claim.halving_ratios,
        expected=2.0,
        relation=close(0.1, because=HALVES),
        experiment="gradient_descent",
        seeds=together(3),
    ),
    conservation_law=Claim(
        says="u² − v² is conserved, under any loss: by gradient descent up to an error of first order in the rate.",
        source=(PAPER, "Lemma 4.1, Eq. (4), (5)"),
        measured=by_claim.drift_exponents,
        expected=(1.0,) * 4,
        relation=close(0.1, because=HALVES),
        experiment="conservation",
        seeds=together(10),
    ),
    weight_decay_breaks_conservation=Claim(
        says="An L2 term lambda/2 (|u|² + |v|²) makes u² − v² decay as exp(−2 lambda t).",
        source=(PAPER, "section 6, Lemma 4.1"),
        measured=lambda runs: by_claim.decayed(runs).attrs["conserved_drift"],
        expected=by_claim.drift_of_decay,
        relation=close(0.1, because="the steps themselves add a drift of first order in their rate, some percent here"),
        experiment="conservation",
        seeds=together(10),
    ),
    logarithmic_steps=Claim(
        says="Gradient descent on u and v is log w -> log w + log(1 + lr g), log(u−v) -> log(u−v) + log(1 − lr g).",
        source=(OURS, "README, Steps in logarithms"),
        measured=by_claim.step_errors,
        relation=bounded(1e-12, because="rounding of logarithms of order ten"),
        experiment="arithmetic",
        seeds=all_of(2),
    ),
    descent_beyond_floats=Claim(
        says="Where weights are no floating-point numbers, gradient descent goes through the predicted first stage.",
        source=(OURS, "README, Steps in logarithms"),
        measured=lambda run: common.times(run, 1),
        expected=lambda run: common.predicted_times(run, 1),
        relation=close(0.05, because="log(1 + lr g) falls short of lr g by lr g/2, with lr g up to 0.08"),
        experiment="beyond_floats",
    ),
    batches_learn_likewise=Claim(
        says="Stochastic gradient descent goes through the same stages at the same times.",
        source=(PAPER, "section 5, Appendix A"),
        measured=lambda run: common.times(run, 4),
        expected=lambda run: common.predicted_times(run, 4),
        relation=close(0.05, because="batches of 32 change the forces by some percent, at random"),
        experiment="batches",
    ),
    adam_learns_one_by_one=Claim(
        says="With Adam too, from a small start, one entry at a time is learned.",
        source=(PAPER, "section 6"),
        measured=lambda run: common.on_the_move(run, 6),
        relation=bounded(1.5, because="one entry is on the move at a time: the flow has 1.0 at 1e-16"),
        applies=only(log10_alpha=-16.0),
        experiment="adam",
    ),
    adam_moves_all_at_once=Claim(
        says="Adam gives all entries the same pace, whatever their forces: after 200 steps |u|+|v| of each is 400 "
        "learning rates, within a factor of three, at any alpha.",
        source=(OURS, "README, Adam"),
        measured=lambda run: by_claim.pace_of_adam(run, 200),
        relation=bounded(
            float(np.log(3)), because="forces that change their size make a step more or less than its rate"
        ),
        experiment="adam",
        seeds=all_of(3),
        repairs="adam_learns_one_by_one",
    ),
    full_weights_learn_likewise=Claim(
        says="With full matrices singular values of W_V W_O^T are learned one after the other: when one has half its "
        "size, the next has less than a fifth of it.",
        source=(PAPER, "section 5, Fig. 2 (d)"),
        measured=lambda run: by_claim.next_singular_values(run, "vo_values", 3),
        relation=bounded(0.2, because="of what the value has on its way; steps that overlap have one half"),
        applies=only(block=None),
        experiment="full",
    ),
    blocks_learn_likewise=Claim(
        says="So with matrices that are diagonal, or diagonal in blocks.",
        source=(SUMMARY, "next check 1"),
        measured=lambda run: by_claim.next_singular_values(run, "vo_values", 2),
        relation=bounded(0.2, because="of what the value has on its way; steps that overlap have one half"),
        experiment="full",
        seeds=all_of(3),
    ),
    # ---- other networks and losses
    other_losses=Claim(
        says="The theory needs the squared loss.",
        source=(SUMMARY, "limitation 3"),
        measured=lambda run: by_claim.time_errors(run, 2),
        relation=bounded(lower=1e-3, because="a theory that fails would be off by more"),
        applies=lambda run: "a statement about other losses" if run.system.spec.error == "squared" else None,
        experiment="losses",
        seeds=all_of(3),
    ),
    any_smooth_loss=Claim(
        says="Stages come when predicted under the squared, log-cosh, quartic and logistic losses, with an L2 term of "
        "1e-3 on p (without it the logistic loss lets entries run off).",
        source=(PAPER, "Assumption 2.1, Theorem 4.5"),
        measured=lambda run: common.times(run, 2),
        expected=lambda run: common.predicted_times(run, 2),
        relation=close(1e-6, because=SOLVER),
        experiment="losses",
        seeds=all_of(4),
        repairs="other_losses",
    ),
    logistic_runs_off=Claim(
        says="Under the logistic loss on separable data an entry grows without bound: no theta^k exists.",
        source=(PAPER, "section 6"),
        measured=by_claim.late_growth,
        relation=bounded(lower=0.05, because="log t doubles its time: the entry grows by a constant each time"),
        applies=only(penalty=0.0),
        experiment="runaway",
    ),
    penalty_mends_it=Claim(
        says="An L2 term on p gives the entry a place to rest, and the theory back.",
        source=(PAPER, "section 6"),
        measured=by_claim.growth_and_time,
        expected=(1.0,) * 2,
        relation=close(1e-6, because=SOLVER),
        applies=only(penalty=0.01),
        experiment="runaway",
    ),
    relu_learns_likewise=Claim(
        says="With ReLU in place of GeLU, though not smooth, stages come when predicted.",
        source=(PAPER, "section 6; open question 1"),
        measured=lambda run: common.times(run, 3),
        expected=lambda run: common.predicted_times(run, 3),
        relation=close(1e-4, because="steps across kinks are of low order"),
        experiment="relu",
        seeds=all_of(2),
    ),
    # ---- the diagonal linear network
    linear_times=Claim(
        says="With identity covariance every p_i is logistic, and passes half its value at the closed-form time.",
        source=(PAPER, "footnote 2"),
        measured=common.times,
        expected=by_claim.logistic_times,
        relation=close(1e-6, because=f"{SOLVER}; alpha² against 1 is neglected"),
        experiment="linear",
        seeds=all_of(8),
    ),
    linear_limit=Claim(
        says="In the limit coefficient c is learned at time 1/|c|.",
        source=(PAPER, "footnote 2, Eq. (9)"),
        measured=lambda runs: common.extrapolated_times(*_far_pair(runs), 4),
        expected=lambda runs: by_claim.inverse_coefficients(runs[0]),
        relation=close(1e-6, because=SOLVER),
        experiment="linear",
        seeds=together(8),
    ),
    unequal_start_learns_all=Claim(
        says="Without u = v at the start, coefficients of either sign are learned, one by one.",
        source=(PAPER, "footnote 2"),
        measured=by_claim.final_products,
        expected=lambda run: run.system.spec.coefficients,
        relation=close(1e-4, because="runs end when the loss is 1e-6 of the first"),
        experiment="linear",
        seeds=all_of(8),
    ),
    equal_start_learns_positive=Claim(
        says="With u = v at the start, positive coefficients are learned and negative ones never.",
        source=(PAPER, "footnote 2"),
        measured=by_claim.gaps_from_positive,
        relation=bounded(1e-6, because=SOLVER),
        experiment="equal_start",
        seeds=all_of(2),
    ),
    # ---- what a summary makes of it
    rank_grows=Claim(
        says="The number of nonnegligible entries grows by steps and never falls, even where one of them leaves.",
        source=(SUMMARY, "mechanism 1, experiment 1"),
        measured=by_claim.active_counts,
        relation=monotone("rises", because=ORDER),
        **LEAVERS,
    ),
    low_rank_against_random=Claim(
        says="After six stages less than half as many entries hold 99.9% of the change's squared norm as of a random "
        "change's.",
        source=(SUMMARY, "experiment 3"),
        measured=by_claim.rank_against_random,
        relation=bounded(
            0.5, because="half is what one would call a bias; six to nine entries of a hundred are learned"
        ),
        **LIMIT,
    ),
    plateaus_shorten_with_scale=Claim(
        says="A larger start makes the first plateau shorter: from alpha = 0.01 on by 1/max_i |g_i(0)| per unit of "
        "log(1/alpha).",
        source=(SUMMARY, "experiment 2, failure sign 2"),
        measured=lambda runs: by_claim.first_waits(runs)[1:],
        expected=by_claim.expected_first_waits,
        relation=close(0.01, because="at alpha = 0.01 the second entry still comes early enough to be felt"),
        **SCALES,
    ),
    conservation_lets_one_move=Claim(
        says="As long as u² − v² is conserved, only one entry can become active at a time.",
        source=(SUMMARY, "mechanism 2, failure sign 1"),
        measured=by_claim.entries_of_heads,
        relation=bounded(1, because=COUNT),
        **HEADS_LIMIT,
    ),
    ties_enter_together=Claim(
        says="What keeps entries apart is that their times differ, not the conservation law: two that tie pass half "
        "their size at the same moment.",
        source=(OURS, "README, Ties"),
        measured=lambda run: by_claim.tied_moments(run)[:1],
        expected=lambda run: by_claim.tied_moments(run)[1:],
        relation=close(1e-6, because=SOLVER),
        repairs="conservation_lets_one_move",
        **HEADS,
    ),
    broken_conservation_breaks_stages=Claim(
        says="Where u² − v² is not conserved, several entries become active at a time.",
        source=(SUMMARY, "break condition 2"),
        measured=lambda run: common.on_the_move(run, 3),
        relation=bounded(lower=1.5, because="one entry on the move is a stage of its own"),
        applies=lambda run: None if run.system.spec.weight_penalty else "a statement about weight decay",
        experiment="decay",
        seeds=all_of(2),
    ),
    decay_keeps_stages=Claim(
        says="With an L2 term on u and v entries are still learned one by one.",
        source=(OURS, "README, What conservation is for"),
        measured=lambda run: common.on_the_move(run, 3),
        relation=bounded(1.5, because="one entry is on the move at a time"),
        experiment="decay",
        seeds=all_of(3),
        repairs="broken_conservation_breaks_stages",
    ),
    flat_minima_do_no_harm=Claim(
        says="Where theta^k is no strict minimum (heads that share an entry), stages still come when predicted.",
        source=(SUMMARY, "break condition 3"),
        measured=lambda run: common.times(run, 3),
        expected=lambda run: common.predicted_times(run, 3),
        relation=close(1e-6, because=SOLVER),
        **HEADS,
    ),
)
