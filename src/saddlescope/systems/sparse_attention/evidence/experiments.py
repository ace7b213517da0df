"""What is run for this paper's figures and claims.

Flows have T=40 positions, h=H=3 and m=1.7 unless said otherwise. The quick size of the Markov task has d=20 tokens, and
b0=6.3, which keeps the size of the logits; the paper's size is that of Tables 1 to 4, and wants a GPU.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from saddlescope.core.experiment import Experiment, Size, by_seeds, over

from ..prediction import competition_slope
from ..spec import PAPER_FULL, PAPER_MINIMAL, RegressionSpec

COMPARED = {"probes": 100}
"""Contexts at which predictions are recorded, so that models can be compared with each other."""

BRIEF = {"steps": 500, "batch_size": 64}
"""Half the cost of the default training, for comparisons at the quick size."""

UPDATES = {**PAPER_FULL, "steps": 2000}
"""The steps of Table 2 read as updates: enough for the full model."""

UNIT = {"base_scale": 1.0}
ALIKE = {**UNIT, "coupled": True, "lumped": True, "init_noise": 0.0}
SCALES = (1.0, 5.0, 10.0, 70.7)
CORNERS = ({"positions": 40, "heads": 3}, {"positions": 10, "heads": 2}, {"positions": 400, "heads": 5})
MANY = {
    "patterns": 10,
    "heads": 10,
    "positions": 1000,
    "importance_ratio": 1.06,
    "lumped": True,
    "base_scale": 2.0,
    "init_noise": 0.01,
}
FURTHEST = {"intervals": ((13, 14), (9, 10, 11, 12), (1, 2, 3, 4, 5, 6, 7, 8))}
"""Section C.4, lags counted from 1: the most important interval is the furthest."""

NEAREST = {"intervals": ((1, 2), (3, 4, 5, 6), (7, 8, 9, 10, 11, 12, 13, 14))}
"""The same lengths with the most important interval nearest."""

FURTHEST_SMALL = {"intervals": ((7,), (5, 6), (1, 2, 3, 4))}
NEAREST_SMALL = {"intervals": ((1,), (2, 3), (4, 5, 6, 7))}
PARTS = ("layer_norm", "residual", "mlp", "keys", "output", "embedding")
"""What section C.1 takes from the full architecture, besides dropout."""


WINDOWS = over("context", 4, 8, 12, **{**UPDATES, **COMPARED, "batch_size": 150})
"""Models of the last 4, 8 and 12 tokens; 150 sequences are 3000 windows."""

WINDOWS_SMALL = over("context", 2, 4, steps=300, batch_size=32, **COMPARED)


def _separations(*exponents: int, **fields: Any) -> tuple[dict[str, Any], ...]:
    """Heads that start 10^-k apart, followed until they have parted: twice the time of the asymptotic law."""
    slope = competition_slope(RegressionSpec(**UNIT, **fields))
    return tuple(
        {**UNIT, **fields, "init_noise": 10.0**-k, "horizon": float(np.ceil(2 * (slope * np.log(10.0**k) + 15) ** 2))}
        for k in exponents
    )


def _small_starts(*sizes: float) -> tuple[dict[str, Any], ...]:
    """Strengths b0, followed for the same time in units of 1/b0."""
    return tuple({"base_scale": b, "init_noise": size, "horizon": 200 / b} for b in (1.0, 3.0, 10.0) for size in sizes)


def _opposed(count: int, *ratios: float) -> tuple[dict[str, Any], ...]:
    """V(0) against all features, in so many sizes, for several ratios of strengths."""
    sizes = (*(round(float(c), 3) for c in np.geomspace(0.01, 100, count)), 20.0)
    return tuple({"init_value": -c, "importance_ratio": m} for m in ratios for c in sizes)


def _without(*parts: str, **fields: Any) -> tuple[dict[str, Any], ...]:
    """One part removed at a time, and all of them together."""
    return (*({**fields, part: False} for part in parts), {**fields, **dict.fromkeys(parts, False)})


_flow = partial(Experiment, system="sparse_attention", face="flow")
_minimal = partial(Experiment, system="sparse_attention/minimal", face="train")
_full = partial(Experiment, system="sparse_attention/full", face="train")

EXPERIMENTS = (
    # ---- the regression flow
    _flow("flow", "In what order and on what plateaus does the flow learn the patterns?", **by_seeds(24, 8)),
    _flow(
        "strengths", "When do all heads compete for the first pattern?", **by_seeds(8, 2, over("base_scale", *SCALES))
    ),
    _flow(
        "haar",
        "What if features are orthogonal matrices, as Appendix B draws them, and so orthonormal only nearly?",
        **by_seeds(8, 2, over("dimension", 10, 50, features="orthogonal")),
    ),
    _flow(
        "lumped",
        "Does it matter that positions which no pattern needs start with different logits?",
        **by_seeds(8, 3, over("lumped", False, True)),
    ),
    _flow(
        "many",
        "Are many patterns learned in their order?",
        full=Size(2, ({**MANY, "patterns": 50, "heads": 50, "positions": 10_000, "horizon": 3000.0, "stages": 25},)),
        short=Size(2, ({**MANY, "importance_ratio": 1.3, "horizon": 600.0, "stages": 7},)),
    ),
    # ---- Theorem 1 and Remark 1
    _flow(
        "together",
        "Where do heads that start alike end, and how fast?",
        full=Size(1, tuple({**corner, "horizon": 1e6} for corner in CORNERS)),
        short=Size(1, tuple({**corner, "horizon": 1e5} for corner in CORNERS)),
        fields=ALIKE,
    ),
    _flow(
        "ordered",
        "Does every start with the order of Eq. (6) lead to the first pattern?",
        **by_seeds(100, 28),
        fields={**ALIKE, "init_noise": 0.3, "init_value": 0.5, "value_noise": 1.0, "horizon": 1e4, "stages": 0},
    ),
    _flow(
        "opposed",
        "Does Theorem 1 hold where V(0) points away from all features?",
        full=Size(1, _opposed(25, 1.2, 1.5, 1.7, 2.0, 3.0)),
        short=Size(1, _opposed(9, 1.2, 1.7, 3.0)),
        fields={**ALIKE, "horizon": 1e5, "stages": 0},
    ),
    _flow(
        "early",
        "How do heads leave the uniform start?",
        full=Size(1, over("positions", 10, 40, 160)),
        short=Size(1, over("positions", 10, 40)),
        fields={**ALIKE, "horizon": 0.1, "stages": 0},
    ),
    # ---- Theorem 2
    _flow(
        "apart",
        "How long do heads that start nearly alike stay together?",
        full=Size(
            4,
            (
                *_separations(6, 8, 10, 12),
                *_separations(6, 12, positions=20, heads=2),
                *_separations(6, 12, importance_ratio=2.5),
                *_separations(6, 12, positions=100, heads=4),
            ),
        ),
        short=Size(2, (*_separations(6, 9, 12), *_separations(6, 12, positions=20, heads=2))),
        # The default solver's own errors part heads that are 1e-12 apart too early.
        solver="tight",
    ),
    _flow(
        "growth",
        "How fast do small differences between heads grow?",
        full=Size(4, _small_starts(1e-6, 1e-8, 1e-10)),
        short=Size(1, _small_starts(1e-6, 1e-10)),
        fields={"stages": 1},
    ),
    # ---- the minimal model on the Markov chain
    _minimal(
        "minimal",
        "Does attention by position alone learn interval by interval, first in competition, then in cooperation?",
        full=Size(2, (PAPER_MINIMAL,)),
        short=Size(3),
    ),
    _minimal(
        "init_scales",
        "What does the initial scale of the attention matrices change?",
        full=Size(
            1,
            (
                *over("init_scale", 1.0, 0.1, 0.01, **PAPER_MINIMAL),
                {**PAPER_MINIMAL, "init_scale": 0.0, "precision": "float64"},
            ),
        ),
        short=Size(1, ({}, {"init_scale": 0.1}, {"init_scale": 0.0, "precision": "float64", "steps": 1500})),
    ),
    _minimal(
        "ratios",
        "How many stages are there when patterns are more nearly equal?",
        full=Size(2, over("importance_ratio", 1.0, 1.3, 1.5, 1.7, **PAPER_MINIMAL)),
        short=Size(1, (*over("importance_ratio", 1.0, 1.3, 1.5, steps=1200), {})),
    ),
    _minimal(
        "online",
        "Is it the same when no sequence is ever seen twice?",
        full=Size(1, over("fresh_data", False, True, **PAPER_MINIMAL)),
        short=Size(1, over("fresh_data", False, True)),
    ),
    _minimal(
        "no_decay",
        "Is it the same without weight decay?",
        full=Size(1, over("weight_decay", 0.01, 0.0, **PAPER_MINIMAL)),
        short=Size(1, over("weight_decay", 0.01, 0.0)),
    ),
    _minimal(
        "scheduler",
        "What if the scheduler of Table 2 listens after every epoch?",
        full=Size(1, ({**PAPER_MINIMAL, "plateau_every": 3},)),
        short=None,
    ),
    # ---- the full architecture
    _full(
        "full",
        "Does a decoder block learn interval by interval?",
        full=Size(2, (PAPER_FULL,)),
        short=Size(2),
        fields=COMPARED,
    ),
    _full(
        "removals",
        "Is any single part of the architecture needed for it?",
        # All parts together are the minimal model but for its scores, and as slow.
        full=Size(
            1,
            (
                {**UPDATES, **COMPARED},
                {**UPDATES, "dropout": 0.0},
                *_without(*PARTS, **UPDATES)[:-1],
                _without(*PARTS, **{**PAPER_FULL, "dropout": 0.0})[-1],
            ),
        ),
        short=Size(
            1,
            (COMPARED, *_without(*PARTS, **BRIEF)[:-1], {**_without(*PARTS)[-1], "learning_rate": 0.01, "steps": 600}),
        ),
    ),
    _full(
        "contexts",
        "Which model of restricted context is the transformer nearest to, and when?",
        full=Size(
            1, ({**PAPER_FULL, **COMPARED}, *WINDOWS, {**UPDATES, **COMPARED, "context": 4, "restriction": "band"})
        ),
        short=Size(1, (COMPARED, *WINDOWS_SMALL)),
    ),
    _full(
        "sizes",
        "What do fewer training sequences change?",
        full=Size(
            1,
            (
                *(
                    {**UPDATES, **COMPARED, "samples": n, "batch_size": min(n, 3000)}
                    for n in (300, 1000, 3000, 9000, 30_000)
                ),
                *WINDOWS,
            ),
        ),
        short=Size(1, (*over("samples", 200, 1000, **BRIEF, **COMPARED), COMPARED, *WINDOWS_SMALL)),
    ),
    _full(
        "reversed",
        "Is it the same when the most important interval is the furthest, and intervals differ in length?",
        full=Size(1, ({**UPDATES, **FURTHEST}, {**UPDATES, **NEAREST})),
        short=Size(1, (FURTHEST_SMALL, NEAREST_SMALL)),
    ),
)
