"""What the paper says of the regression flow, and of its two theorems, in a form that can lose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from saddlescope.core.claim import (
    OURS,
    Claim,
    all_of,
    bounded,
    close,
    monotone,
    only,
    ordered,
    rows_over,
    scales_as,
    together,
)
from saddlescope.core.experiment import listed
from saddlescope.core.run import Run

from ... import prediction
from ..measures import flow

PAPER = "yuksel2025"
COUNT = "a count has no tolerance"
ORDER = "an order has no tolerance"
SOLVER = "the flow's tolerance is 1e-8 per step, and errors add over a few thousand"
SAMPLING = "400,000 sequences leave a sampling error of one to two percent"
NOISE = "heads do not start alike: noise of 0.04 on the logits, grown to a tenth, enters squared"
CREEP = "on a plateau heads still creep towards a vertex, as a power of time"
FAR = "the attention of a head that has arrived; 1 − s_1 falls as t^(-1/2) only"


def _lasting(run: Run) -> str | None:
    overlap, attention = flow.start_order(run)
    held = prediction.lasting_order(overlap, attention, np.array(run.system.spec.strengths))
    return None if held else "a statement about starts whose order lasts"


def _little(run: Run) -> str | None:
    return None if run.system.spec.init_value >= -1 else "a statement about V(0) not far from 0"


def _strong(run: Run) -> str | None:
    return None if run.system.spec.base_scale >= 10 else "a statement about strong features"


def _paired(runs: Sequence[Run], name: str, number: Callable[[Run], Any]) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the runs with and of those without a switch, seed by seed."""
    sides = [sorted((r for r in runs if bool(getattr(r.system.spec, name)) is on), key=_seed) for on in (True, False)]
    on, off = (np.array([number(run) for run in side]) for side in sides)
    return on, off


def _seed(run: Run) -> int:
    return run.seed


def _times_and_shares(run: Run) -> np.ndarray:
    return np.r_[flow.times(run), flow.share_on_first(run)]


def _one_seed(run: Run) -> str | None:
    return None if run.seed == 0 else "one seed is enough"


FLOW: dict[str, Any] = {"experiment": "flow", "seeds": all_of(8)}
ONE_SEED: dict[str, Any] = {"experiment": "flow", "seeds": all_of(1), "applies": _one_seed}
TOGETHER: dict[str, Any] = {"experiment": "together", "seeds": all_of(3)}
ORDERED: dict[str, Any] = {"experiment": "ordered", "seeds": all_of(4), "applies": _lasting}


FLOW_CLAIMS = listed(
    # ---- section C.6: stages of the flow
    flow_order=Claim(
        says="Patterns are learned in the order of their strength.",
        source=(PAPER, "section C.6, Fig. 10"),
        measured=flow.times,
        relation=ordered(because=ORDER),
        **FLOW,
    ),
    flow_time_scales=Claim(
        says="Every stage takes longer than the one before.",
        source=(PAPER, "section C.6"),
        measured=flow.waits,
        relation=ordered(because=ORDER),
        **FLOW,
    ),
    flow_plateaus=Claim(
        says="After k patterns the loss rests at ½ Σ_{j>k} m_j², what the best approximation of rank k leaves.",
        source=(OURS, "section C.6, Fig. 10"),
        measured=lambda run: flow.levels(run)[:2],
        expected=lambda run: run.prediction.levels[1:3],
        relation=close(1e-3, because=CREEP),
        **FLOW,
    ),
    first_stage_time=Claim(
        says="The first stage comes when the symmetric flow from the mean of all heads has it.",
        source=(OURS, "section 3, symmetric flow"),
        measured=lambda run: flow.times(run)[:1],
        expected=lambda run: run.prediction.stages[0].time,
        relation=close(0.02, because=NOISE),
        **FLOW,
    ),
    flow_competition=Claim(
        says="At first every head turns to the strongest pattern: a third after its stage, each has most of its "
        "attention there.",
        source=(PAPER, "section C.6, Fig. 10"),
        measured=flow.share_on_first,
        relation=bounded(lower=0.5, because="more than all other positions together have"),
        **FLOW,
    ),
    competition_at_any_strength=Claim(
        says="Every head turns to the strongest pattern first; section C.6 names no scale: b0 from 1 to 70.7.",
        source=(PAPER, "section C.6; abstract"),
        measured=flow.share_on_first,
        relation=bounded(lower=0.5, because="more than all other positions together have"),
        experiment="strengths",
        seeds=all_of(8),
    ),
    competition_when_strong=Claim(
        says="Every head turns to the strongest pattern first where features are strong, b0 >= 10.",
        source=(OURS, "section C.6"),
        measured=flow.share_on_first,
        relation=bounded(lower=0.5, because="more than all other positions together have"),
        experiment="strengths",
        applies=_strong,
        seeds=all_of(4),
        repairs="competition_at_any_strength",
    ),
    flow_cooperation=Claim(
        says="In the end each pattern has a head of its own, which gives it more than half of its attention.",
        source=(PAPER, "section C.6, Fig. 10"),
        measured=flow.final_shares,
        relation=bounded(lower=0.5, because="no head can do so for two patterns"),
        **FLOW,
    ),
    residual_attention=Claim(
        says="The head of the last pattern keeps a third or more of its attention on the first position.",
        source=(PAPER, "section C.6"),
        measured=flow.residual_attention,
        relation=bounded(lower=1 / 3, because="what a head without residual attention would have is next to nothing"),
        **FLOW,
    ),
    offset_of_the_last_feature=Claim(
        says="The head on the first position holds the last feature with the opposite sign...",
        source=(PAPER, "section C.6"),
        measured=lambda run: flow.offsets(run)[0],
        relation=bounded(-0.5, because="less than minus half of the feature is no leftover of the noise"),
        **FLOW,
    ),
    offset_cancels=Claim(
        says="... so that the first position gets nothing of it from all heads together.",
        source=(PAPER, "section C.6"),
        measured=lambda run: abs(flow.offsets(run)[1]),
        relation=bounded(0.05, because="it then holds at most a fifth of the loss that is left, ½ (m_3/20)² of 0.6"),
        **FLOW,
    ),
    haar_features=Claim(
        says="Features that are orthonormal only up to 1/d change the plateaus at the order 1/d².",
        source=(PAPER, "Assumption 2; Appendix B"),
        measured=flow.level_shifts,
        relation=bounded(1.0, because="three features have three inner products of size 1/d, each entering squared"),
        experiment="haar",
        seeds=all_of(4),
    ),
    idle_positions_lump=Claim(
        says="Positions that no pattern needs act as one: from a common logit, times and attention are those from "
        "different ones.",
        source=(OURS, "section C.6"),
        measured=lambda runs: _paired(runs, "lumped", _times_and_shares)[0],
        expected=lambda runs: _paired(runs, "lumped", _times_and_shares)[1],
        relation=close(0.01, because="the noise of 37 logits enters at second order, 0.04²"),
        experiment="lumped",
        seeds=together(6),
    ),
    many_patterns=Claim(
        says="Many patterns are learned in the order of their strength.",
        source=(PAPER, "section C.6"),
        measured=lambda run: flow.times(run)[: run.system.spec.stages],
        relation=ordered(because=ORDER),
        experiment="many",
        seeds=all_of(2),
    ),
    # ---- Eq. (5), Proposition 1, Assumption 1
    flow_in_s=Claim(
        says="Eq. (5) in the attention itself gives the same trajectory as the flow in logits.",
        source=(PAPER, "Eq. (5)"),
        measured=flow.flow_in_s,
        relation=bounded(1e-6, because=SOLVER),
        **FLOW,
    ),
    population_flow=Claim(
        says="Where E x_i x_jᵀ = δ_ij I, the gradient of the mean square loss is that of ½ |G − P|².",
        source=(PAPER, "Proposition 1"),
        measured=lambda run: flow.gradient_gap(run, "isotropic"),
        relation=bounded(0.03, because=SAMPLING),
        repairs="assumption_1",
        **ONE_SEED,
    ),
    assumption_1=Claim(
        says="E ⟨x_i, x_j⟩ = δ_ij is enough for it: tokens with a few long axes have the same gradient, up to scale.",
        source=(PAPER, "Assumption 1, Proposition 1"),
        measured=lambda run: flow.gradient_gap(run, "anisotropic"),
        relation=bounded(0.03, because=SAMPLING),
        **ONE_SEED,
    ),
    slowdown=Claim(
        says="With covariance I/d and the loss averaged over T, everything is d T times slower.",
        source=(PAPER, "section D.1"),
        measured=flow.slowdown,
        expected=1.0,
        relation=close(0.03, because=SAMPLING),
        **ONE_SEED,
    ),
    # ---- Theorem 1
    symmetric_limit=Claim(
        says="Heads that start alike and uniform all end at V = (m_1/H) V_1*, s = s_1*.",
        source=(PAPER, "Theorem 1, Eq. (7)"),
        measured=lambda run: flow.end_point(run)[:, 0],
        expected=(1.0, 1.0),
        relation=close(0.05, because=FAR),
        **TOGETHER,
    ),
    symmetric_rate=Claim(
        says="They get there as (L − L_1) t -> H (T−1) / (4T), whatever the strengths.",
        source=(OURS, "Theorem 1"),
        measured=flow.above_first_plateau,
        expected=lambda run: prediction.approach_constant(run.system.spec.positions, run.system.spec.heads),
        relation=close(0.01, because="the next term is of order t^(-1/2) times the rest of the attention, at t = 1e5"),
        **TOGETHER,
    ),
    logits_diverge=Claim(
        says="Attention becomes sparse only as logits diverge: 1 − s_1 falls as t^(-1/2).",
        source=(PAPER, "section 2.1; Theorem 1"),
        measured=flow.rest,
        relation=scales_as(-0.5, 0.03, because="positions forget what they had at the start as t^(-1/T) only"),
        **TOGETHER,
    ),
    potential_rises=Claim(
        says="φ of Eq. (9) never falls along the symmetric flow.",
        source=(PAPER, "Eq. (9)"),
        measured=flow.potential,
        relation=monotone("rises", because=SOLVER, slack=1e-7),
        **TOGETHER,
    ),
    rest_points=Claim(
        says="The symmetric flow rests at (m_j/H) V_j*, s = s_j* for every pattern, and at V = 0 off the patterns.",
        source=(PAPER, "Eq. (10)"),
        measured=flow.rest_points,
        relation=bounded(1e-12, because="rounding, and logits of 60 for infinite ones"),
        **TOGETHER,
    ),
    order_leads_to_the_first=Claim(
        says="Every common start with the order of Eq. (6) leads to the first pattern.",
        source=(PAPER, "Theorem 1"),
        measured=lambda run: flow.end_point(run)[0, 0],
        relation=bounded(lower=0.95, because=FAR),
        experiment="opposed",
        seeds=all_of(30),
    ),
    lasting_order_leads_to_the_first=Claim(
        says="Every common start with m_1 ⟨V, V_1*⟩ >= m_j ⟨V, V_j*⟩ and s_1 >= s_j does: Eq. (6) with "
        "⟨V, V_1*⟩ >= 0, for example.",
        source=(OURS, "Theorem 1"),
        measured=lambda run: flow.end_point(run)[0, 0],
        relation=bounded(lower=0.95, because=FAR),
        repairs="order_leads_to_the_first",
        **ORDERED,
    ),
    lasting_order_lasts=Claim(
        says="The flow keeps that order at all times.",
        source=(OURS, "section D, proof of Theorem 1"),
        measured=flow.order_kept,
        relation=bounded(lower=-1e-6, because=SOLVER),
        **ORDERED,
    ),
    counterexample=Claim(
        says="From V(0) = −20 Σ V_k* and uniform attention, m=1.7, heads end at the second pattern.",
        source=(OURS, "Theorem 1"),
        measured=lambda run: flow.end_point(run)[0, 1],
        relation=bounded(lower=0.97, because=FAR),
        experiment="opposed",
        applies=only(init_value=-20.0, importance_ratio=1.7),
    ),
    wider_basin=Claim(
        says="Starts whose order does not last, V(0) = −c Σ V_k* with c up to 1, lead to the first pattern too.",
        source=(PAPER, "Remark 1, section D.1"),
        measured=lambda run: flow.end_point(run)[0, 0],
        relation=bounded(lower=0.95, because=FAR),
        experiment="opposed",
        applies=_little,
        seeds=all_of(15),
    ),
    early_values=Claim(
        says="From V = 0 and s = 1/T, values first grow as m_j t / T.",
        source=(PAPER, "Remark 1"),
        measured=lambda run: flow.growth_from_uniform(run)[0],
        expected=flow.ones_per_pattern,
        relation=close(0.02, because="the next term is H t / (2T), at most 1.5% at t = 0.1, T = 10"),
        experiment="early",
        seeds=all_of(2),
    ),
    early_attention=Claim(
        says="Attention first bends by (m_j² − Σ m²/T) t² / (2T³), most towards the strongest pattern.",
        source=(PAPER, "Remark 1"),
        measured=lambda run: flow.growth_from_uniform(run)[1],
        expected=flow.ones_per_pattern,
        relation=close(0.02, because="the next term is of order H t / T, at most 1.5% at t = 0.1, T = 10"),
        experiment="early",
        seeds=all_of(2),
    ),
    # ---- Theorem 2
    universal_growth=Claim(
        says="The constant in the growth of small differences between heads does not depend on the problem.",
        source=(PAPER, "Theorem 2"),
        measured=lambda runs: flow.growth_rates(runs)[0],
        expected=lambda runs: flow.growth_rates(runs)[1],
        relation=close(0.05, because="rates are read off between the solver's steps"),
        experiment="growth",
        seeds=together(6),
    ),
    growth_scales=Claim(
        says="It is proportional to the strength of the features: the first step of all, W = G z t, sets it.",
        source=(OURS, "Theorem 2"),
        measured=rows_over("base_scale", flow.growth_rate),
        relation=scales_as(1.0, 0.02, because="rates are read off between the solver's steps"),
        experiment="growth",
        seeds=together(6),
        repairs="universal_growth",
    ),
    growth_bound=Claim(
        says="m_1* is large enough: differences stay below ε exp(m_1* t).",
        source=(PAPER, "Theorem 2; section D, constant C(H, G)"),
        measured=flow.excess_over_bound,
        relation=bounded(1.0, because="a bound has no tolerance"),
        experiment="growth",
        seeds=all_of(6),
    ),
    window_grows=Claim(
        says="The time 1/(c_1 log(1/ε)), for which Theorem 2 speaks, is an ever larger part of that in which heads "
        "stay together as they start closer.",
        source=(PAPER, "Theorem 2"),
        measured=flow.printed_windows,
        relation=monotone("rises", because=ORDER),
        experiment="apart",
        seeds=together(3),
    ),
    window_corrected=Claim(
        says="Until log(1/ε)/c_1, with c_1 = m_1*, heads are less than 1 apart.",
        source=(OURS, "Theorem 2"),
        measured=flow.largest_until_window,
        relation=bounded(1.0, because="a bound has no tolerance"),
        experiment="apart",
        applies=lambda run: None if run.system.spec.init_noise < 1e-3 else "a statement about small differences",
        seeds=all_of(6),
    ),
    parting_law=Claim(
        says="Heads stay together much longer: √t_2 grows by √(T (m_1² − m_2²) / (4H)) / m_2 for every factor e that ε "
        "falls by.",
        source=(OURS, "Theorem 2"),
        measured=lambda runs: flow.parting_slopes(runs)[0],
        expected=lambda runs: flow.parting_slopes(runs)[1],
        relation=close(0.15, because="a limit: s_2 is 4 to 9% above it, and relaxes as t^(-1/T) only"),
        experiment="apart",
        seeds=together(6),
        repairs="window_grows",
    ),
    parting_time=Claim(
        says="The time at which heads part follows from that at another ε by the linear growth of differences along "
        "the symmetric flow, at the rate √2 m_2 s_2 to leading order.",
        source=(OURS, "Theorem 2"),
        measured=lambda runs: flow.parting_times(runs)[0],
        expected=lambda runs: flow.parting_times(runs)[1],
        relation=close(
            0.01, because="the directions of the differences settle while they grow by a factor of a million"
        ),
        experiment="apart",
        seeds=together(6),
    ),
    values_bounded_by_first=Claim(
        says="|V| never exceeds m_1*/H along the symmetric flow.",
        source=(PAPER, "section D, proof of Theorem 2"),
        measured=flow.largest_value,
        relation=bounded(1.01, because=SOLVER),
        **TOGETHER,
    ),
    values_overshoot=Claim(
        says="From V = 0, |V| first overshoots m_1*/H, by a tenth or more, but never exceeds √T m_1*/H.",
        source=(OURS, "section D, proof of Theorem 2"),
        measured=flow.overshoot,
        relation=bounded(lower=1.0, because="a bound has no tolerance"),
        repairs="values_bounded_by_first",
        **TOGETHER,
    ),
)
