"""What the paper says of transformers on the Markov chain, in a form that can lose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from saddlescope.core.claim import Claim, all_of, bounded, close, monotone, only, ordered, together
from saddlescope.core.experiment import listed
from saddlescope.core.run import Run

from ..measures import markov
from ..measures.flow import by
from .flow import COUNT, ORDER, OURS, PAPER

FLAT = "the flattest part of a plateau that still drifts, and a prediction from 2000 sequences, right to half a percent"
RECORD = "steps are recorded every two percent; two runs differ by chance in their mini-batches"


def _plateau(run: Run) -> str | None:
    overlap = markov.separation(run) > markov.PLATEAU
    return "its first two stages overlap: there is no plateau between them" if overlap else None


def _third(run: Run) -> str | None:
    return None if np.isfinite(markov.looking_steps(run)[-1]) else "no head has looked at the last interval yet"


def _furthest(run: Run) -> str | None:
    return None if 1 not in run.system.spec.lags[0] else "a statement about the reversed order"


def _stage_ratios(runs: Sequence[Run]) -> list[list[float]]:
    """t_2/t_1 for each seed, in the ascending order of m > 1."""
    uneven = by([run for run in runs if run.system.spec.importance_ratio > 1], "importance_ratio")
    pairs = [(run.seed, markov.crossing_steps(run)) for run in uneven]
    return [[step[1] / step[0] for one, step in pairs if one == seed] for seed in sorted({one for one, _ in pairs})]


def _switched(runs: Sequence[Run], name: str, on: bool) -> Run:
    (run,) = [run for run in runs if bool(getattr(run.system.spec, name)) is on]
    return run


def _steps_and_levels(run: Run) -> np.ndarray:
    return np.r_[markov.crossing_steps(run)[:2], markov.plateau_levels(run, 2)]


def _expected_steps_and_levels(run: Run) -> np.ndarray:
    """Steps of another run, levels as predicted."""
    return np.r_[markov.crossing_steps(run)[:2], markov.predicted_excess(run)[1:3]]


def _early_stop_contexts(runs: Sequence[Run]) -> list[int]:
    """For each number of sequences, which of the restricted models is nearest when the loss is least."""
    others = markov.by_context(runs)
    chosen = []
    for run in by(markov.unrestricted(runs), "samples"):
        place = markov.best(run)[1]
        chosen.append(int(np.argmin(markov.divergences_from(run, others)[:, place])))
    return chosen


def _ends_and_returns(numbers: Sequence[int]) -> list[int]:
    return [numbers[0], numbers[-1], int((np.diff(numbers) < 0).sum())]


def _approached(runs: Sequence[Run]) -> np.ndarray:
    """Steps at which the transformer is nearest to each of the restricted models, from the shortest context on."""
    (run,) = markov.unrestricted(runs)
    others = markov.by_context(runs)
    return markov.steps(run)[markov.divergences_from(run, others).argmin(1)]


def _lag_one(runs: Sequence[Run], residual: bool) -> float:
    """Of the run that lacks no other part, dropout included."""
    parts = ("layer_norm", "mlp", "keys", "output", "embedding")
    most = max(run.system.spec.dropout for run in runs)
    (run,) = [
        run
        for run in runs
        if run.system.spec.residual is residual
        and run.system.spec.dropout == most
        and all(getattr(run.system.spec, part) for part in parts)
    ]
    return markov.nearest_lag(run)


MINIMAL: dict[str, Any] = {"experiment": "minimal", "seeds": all_of(2)}
FULL: dict[str, Any] = {"experiment": "full", "seeds": all_of(2)}
SIZES: dict[str, Any] = {"experiment": "sizes", "seeds": together(5)}


MINIMAL_CLAIMS = listed(
    # ---- section 2 and section C.1: the minimal model
    construction=Claim(
        says="V_k = A_k* with logits λ on I(k) solves the task as λ grows: its excess loss falls as exp(−2λ), from "
        "λ = 5 to 10 and 15.",
        source=(PAPER, "section 2.1"),
        measured=markov.construction_rates,
        expected=(2.0, 2.0),
        relation=close(0.02, because="the other positions get a share of order exp(−λ), 1% at λ = 5, to next order"),
        **MINIMAL,
    ),
    minimal_stages=Claim(
        says="The loss falls in stages: two drops or more, with plateaus between them.",
        source=(PAPER, "section 2, section C.1, Fig. 1"),
        measured=markov.drops,
        relation=bounded(lower=2, because=COUNT),
        **MINIMAL,
    ),
    minimal_order_by_attention=Claim(
        says="Heads come to look at the intervals in the order of their importance.",
        source=(PAPER, "section 2, Fig. 1"),
        measured=markov.looking_steps,
        relation=ordered(because=ORDER),
        applies=_third,
        **MINIMAL,
    ),
    minimal_plateaus=Claim(
        says="Where the loss falls five times more slowly between two stages than in them, its excess is that of the "
        "best softmax regression on the means of I(1), ..., I(i), not that of the truncated truth.",
        source=(OURS, "section 2, Fig. 3"),
        measured=lambda run: markov.plateau_levels(run, 2),
        expected=lambda run: markov.predicted_excess(run)[1:3],
        relation=close(0.08, because=FLAT),
        experiment="minimal",
        applies=_plateau,
        repairs="truncated_truth_levels",
    ),
    truncated_truth_levels=Claim(
        says="On plateau i the model is the truncated truth f_{A*_{1:i}}: its excess loss is that of the truth without "
        "the other intervals.",
        source=(PAPER, "section 2, Eq. (3), Fig. 3"),
        measured=lambda run: markov.plateau_levels(run, 2),
        expected=lambda run: markov.truncated_levels(run, 2),
        relation=close(0.08, because=FLAT),
        experiment="minimal",
        applies=_plateau,
    ),
    minimal_competition=Claim(
        says="Between the first and the second stage all heads look most at I(1).",
        source=(PAPER, "section 2, Fig. 1"),
        measured=markov.heads_on_first,
        expected=lambda run: run.system.spec.heads,
        relation=close(0.0, because=COUNT),
        **MINIMAL,
    ),
    minimal_cooperation=Claim(
        says="From looking most at one interval, heads come to look most at two or more.",
        source=(PAPER, "section 2, Fig. 1"),
        measured=markov.favourites_gained,
        relation=bounded(lower=1, because=COUNT),
        **MINIMAL,
    ),
    attention_and_features_together=Claim(
        says="A quarter of A_k* is held before any head comes to look at the next interval, k = 1, 2.",
        source=(PAPER, "section 2"),
        measured=markov.feature_leads,
        relation=bounded(lower=0.0, because=ORDER),
        **MINIMAL,
    ),
    # ---- section C.1: scales and ratios
    smaller_scale_slower=Claim(
        says="The second interval is learned the later the smaller the initial attention matrices are.",
        source=(PAPER, "section C.1, Fig. 4 left"),
        measured=markov.second_steps,
        relation=ordered(because=ORDER),
        experiment="init_scales",
        seeds=together(3),
    ),
    zero_scale_keeps_heads_equal=Claim(
        says="From u = 0 heads stay equal.",
        source=(PAPER, "section C.1, Fig. 4 left"),
        measured=markov.head_spread,
        relation=bounded(1e-3, because="64 bits: a difference of rounding would need longer to grow"),
        experiment="init_scales",
        applies=only(init_scale=0.0),
    ),
    zero_scale_learns_one=Claim(
        says="From u = 0 one interval is learned and no other: the loss ends on the first plateau.",
        source=(PAPER, "section C.1, Fig. 4 left"),
        measured=lambda run: run.series("excess")[-1],
        expected=lambda run: markov.predicted_excess(run)[1],
        relation=close(0.05, because=FLAT),
        experiment="init_scales",
        applies=only(init_scale=0.0),
    ),
    equal_importance_two_steps=Claim(
        says="With m = 1 the loss falls in two steps, one interval first and then the other two.",
        source=(PAPER, "section C.1, Fig. 4 right"),
        measured=markov.drops,
        expected=2,
        relation=close(0.0, because=COUNT),
        experiment="ratios",
        applies=only(importance_ratio=1.0),
    ),
    equal_importance_one_step=Claim(
        says="With m = 1 the loss falls in one step: heads share out the intervals at once.",
        source=(OURS, "section C.1"),
        measured=lambda run: [markov.drops(run), markov.favourites(run)],
        expected=lambda run: [1, run.system.spec.patterns],
        relation=close(0.0, because=COUNT),
        experiment="ratios",
        applies=only(importance_ratio=1.0),
        repairs="equal_importance_two_steps",
    ),
    near_importance_three_stages=Claim(
        says="With m = 1.3 and 1.5 all three intervals are learned, in their order.",
        source=(PAPER, "section C.1, Fig. 4 right"),
        measured=markov.looking_steps,
        relation=ordered(because=ORDER),
        experiment="ratios",
        applies=lambda run: None if 1 < run.system.spec.importance_ratio < 1.7 else "a statement about m = 1.3, 1.5",
        seeds=all_of(2),
    ),
    near_importance_intertwined=Claim(
        says="The nearer m is to 1, the nearer together the first two stages are, by their ratio: m = 1.3, 1.5, 1.7.",
        source=(PAPER, "section C.1, Fig. 4 right"),
        measured=_stage_ratios,
        relation=ordered(because=ORDER),
        experiment="ratios",
        seeds=together(4),
    ),
    # ---- sections C.3 and C.5
    online_same=Claim(
        says="With fresh sequences at every step the first two stages come when they come with 9000, and plateaus are "
        "where they should be.",
        source=(PAPER, "section C.3, Fig. 6, 7"),
        measured=lambda runs: _steps_and_levels(_switched(runs, "fresh_data", True)),
        expected=lambda runs: _expected_steps_and_levels(_switched(runs, "fresh_data", False)),
        relation=close(0.08, because=f"{RECORD}; {FLAT}"),
        experiment="online",
        seeds=together(2),
    ),
    decay_irrelevant=Claim(
        says="Without weight decay the first two stages come when they come with it, and plateaus are where they "
        "should be.",
        source=(PAPER, "section C.5"),
        measured=lambda runs: _steps_and_levels(_switched(runs, "weight_decay", False)),
        expected=lambda runs: _expected_steps_and_levels(_switched(runs, "weight_decay", True)),
        relation=close(0.08, because=f"{RECORD}; {FLAT}"),
        experiment="no_decay",
        seeds=together(2),
    ),
    scheduler_ends_learning=Claim(
        says="A scheduler that listens after every epoch takes the second plateau for the end: the third interval is "
        "never looked at, and time stops.",
        source=(OURS, "Table 2"),
        measured=markov.looks_and_lasts,
        expected=(0, 0),
        relation=close(0.0, because=COUNT),
        experiment="scheduler",
    ),
)


FULL_CLAIMS = listed(
    full_order=Claim(
        says="The full architecture's heads come to look at the intervals in the order of their importance.",
        source=(PAPER, "section 2, Fig. 2"),
        measured=markov.looking_steps,
        relation=ordered(because=ORDER),
        **FULL,
    ),
    full_approaches_truths=Claim(
        says="The full architecture comes nearest to f_{A*_{1:i}} for i = 1, 2, 3 one after the other.",
        source=(PAPER, "section 2, Fig. 3 left"),
        measured=lambda run: markov.steps(run)[run.series("divergence").argmin(0)],
        relation=ordered(because=ORDER),
        **FULL,
    ),
    full_cooperation=Claim(
        says="In the end each interval has a head of its own, which gives it more than half of its attention.",
        source=(PAPER, "section 2, Fig. 2"),
        measured=markov.owned,
        relation=bounded(lower=0.5, because="no head can do so for two intervals"),
        **FULL,
    ),
    approaches_restricted_models=Claim(
        says="It comes nearest to models of shorter context before it comes nearest to those of longer.",
        source=(PAPER, "section 2, Fig. 3 right"),
        measured=_approached,
        relation=ordered(because=ORDER),
        experiment="contexts",
        seeds=together(3),
    ),
    skip_carries_the_last_token=Claim(
        says="With the skip connection heads look at the last token half as much as at its neighbours, or less.",
        source=(PAPER, "Fig. 2, caption"),
        measured=lambda runs: _lag_one(runs, True),
        relation=bounded(0.5, because="without a reason it would be looked at as much as the others"),
        experiment="removals",
        seeds=together(7),
    ),
    without_skip_all_alike=Claim(
        says="Without it they look at the last token as much as at the others of its interval.",
        source=(PAPER, "Fig. 2, caption"),
        measured=lambda runs: _lag_one(runs, False),
        expected=1.0,
        relation=close(0.2, because="one seed, trained until the third interval is learned but not to the end"),
        experiment="removals",
        seeds=together(7),
    ),
    removals_keep_everything=Claim(
        says="Without any one of layer norm, skip connections, MLP, keys, output matrix, embeddings and dropout, or "
        "all of them, all three intervals are learned in their order.",
        source=(PAPER, "section C.1"),
        measured=markov.learned_in_order,
        expected=lambda run: run.system.spec.patterns,
        relation=close(0.0, because=COUNT),
        experiment="removals",
        seeds=all_of(7),
    ),
    removals_keep_the_order=Claim(
        says="Without any one of them, or all, intervals are learned in their order, and none is skipped, as far as "
        "training gets.",
        source=(OURS, "section C.1"),
        measured=markov.order_kept,
        relation=bounded(lower=0.0, because=ORDER),
        experiment="removals",
        seeds=all_of(7),
        repairs="removals_keep_everything",
    ),
    # ---- section C.2
    fewer_data_fewer_stages=Claim(
        says="The fewer the sequences, the fewer stages lie above the least loss on the way.",
        source=(PAPER, "section C.2, Fig. 5 left"),
        measured=markov.stages_by_samples,
        relation=monotone("rises", because=COUNT),
        **SIZES,
    ),
    stages_lost=Claim(
        says="Between the smallest and the largest training set, two or more stages are lost.",
        source=(PAPER, "section C.2, Fig. 5 left"),
        measured=markov.stages_lost,
        relation=bounded(lower=2, because=COUNT),
        **SIZES,
    ),
    early_stopping_picks_context=Claim(
        says="Stopped at its least loss, the transformer is nearest to the model of shortest context when it has the "
        "fewest sequences, to that of longest context when it has the most, and never goes back in between.",
        source=(PAPER, "section C.2, Fig. 5 right"),
        measured=lambda runs: _ends_and_returns(_early_stop_contexts(runs)),
        expected=lambda runs: _ends_and_returns(range(len(markov.by_context(runs)))),
        relation=close(0.0, because=COUNT),
        **SIZES,
    ),
    # ---- section C.4
    reversed_all=Claim(
        says="With the most important interval furthest, and intervals of different lengths, all three are learned in "
        "their order.",
        source=(PAPER, "section C.4, Fig. 8, 9"),
        measured=markov.learned_in_order,
        expected=lambda run: run.system.spec.patterns,
        relation=close(0.0, because=COUNT),
        experiment="reversed",
        applies=_furthest,
    ),
    reversed_order=Claim(
        says="With the most important interval furthest, and intervals of different lengths, I(1) is learned first, "
        "then I(2).",
        source=(OURS, "section C.4, Fig. 8, 9"),
        measured=lambda run: markov.looking_steps(run)[:2],
        relation=ordered(because=ORDER),
        experiment="reversed",
        applies=_furthest,
        repairs="reversed_all",
    ),
    reversed_clearer=Claim(
        says="Stages are more clearly apart when the most important interval is furthest than when it is nearest.",
        source=(PAPER, "section C.4"),
        measured=markov.separations,
        relation=ordered(because=ORDER),
        experiment="reversed",
        seeds=together(2),
    ),
)
