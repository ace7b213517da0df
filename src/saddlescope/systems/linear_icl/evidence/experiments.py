"""What is run for this paper's figures and claims. D=4, N=31, H=4 and Eq. (20)'s initial law unless said otherwise."""

from __future__ import annotations

from functools import partial

from saddlescope.core.experiment import Experiment, Size, by_seeds, over

SMALL = {"init_scale": 1e-3}
HARMONIC = tuple(round(1 / d / sum(1 / k for k in range(1, 9)), 12) for d in range(1, 9))
"""Eigenvalues proportional to 1/d with trace one (Fig. 2)."""

SCALES = (0.01, 0.1, 0.5, 1.0, 2.0, 4.0)


def _equal_time(rates: tuple[float, ...], time: float) -> tuple[dict[str, object], ...]:
    """Every loss, at learning rates that train for the same time."""
    return tuple(
        {"error": error, "learning_rate": rate, "steps": round(time / rate)}
        for error in ("absolute", "log_cosh", "quartic")
        for rate in rates
    )


def _data_sets(sizes: tuple[int, ...], count: int) -> tuple[dict[str, object], ...]:
    return tuple({"sequences": size, "data_seed": seed} for size in sizes for seed in range(count))


_flow = partial(Experiment, system="linear_icl", face="flow")

EXPERIMENTS = (
    Experiment(
        "softmax",
        "Does softmax attention learn in drops too?",
        "linear_icl/softmax",
        "train",
        full=Size(6, ({"sequences": 5000, "steps": 12_000},)),
        short=Size(2, ({"sequences": 500, "steps": 6000},)),
        fields={"init_scale": 0.1, "learning_rate": 0.2},
    ),
    _flow(
        "ranks",
        "At which losses do plateaus occur when heads have rank R?",
        **by_seeds(6, 1, over("rank", *range(1, 9))),
        fields={"eigenvalues": HARMONIC, "heads": 9, "init_scale": 0.01},
    ),
    _flow(
        "ensemble",
        "How do the times of the drops vary over initial weights?",
        **by_seeds(1000, 125),
        fields={"init_scale": 0.1},
        keep="stages",
    ),
    Experiment(
        "training",
        "Does gradient descent go through the predicted plateaus?",
        "linear_icl",
        "train",
        full=Size(6, (SMALL,)),
        short=Size(6),
        fields={"init_scale": 0.01, "learning_rate": 0.2},
    ),
    _flow(
        "staircase",
        "What does the flow from a small start visit, when, and in what form?",
        **by_seeds(64, 8),
        fields=SMALL,
    ),
    _flow(
        "few_heads",
        "Where does training end if the heads cannot hold all directions?",
        **by_seeds(8, 2, ({"heads": 2}, {"heads": 1, "rank": 3})),
        fields=SMALL,
    ),
    _flow(
        "durations",
        "Do the printed plateau durations become exact as the start becomes small?",
        **by_seeds(64, 8, over("init_scale", 0.1, 0.01, 1e-3, 1e-4)),
    ),
    _flow(
        "eigenvalue",
        "How does the time to learn one direction depend on its eigenvalue?",
        **by_seeds(16, 4, over("eigenvalues", *((value,) for value in (0.05, 0.1, 0.2, 0.4, 0.8)))),
        fields={"heads": 1, "init_scale": 1e-4},
    ),
    _flow(
        "context",
        "What becomes simple when the context is long?",
        **by_seeds(6, 2, over("context_length", 31, 125, 500, 2000, 8000)),
        fields=SMALL,
    ),
    _flow(
        "scales",
        "What does a larger initial scale do to plateaus and to the shape of the curve?",
        **by_seeds(16, 4, over("init_scale", *SCALES)),
    ),
    Experiment(
        "next_token",
        "Contexts of every length: do they enter through E(1/N) alone?",
        "linear_icl/next_token",
        "flow",
        **by_seeds(16, 6),
        fields=SMALL,
    ),
    _flow(
        "pairs",
        "Which values grow when, with R key-query pairs per head?",
        **by_seeds(16, 3, over("rank", 1, 2, 3, 4)),
        fields={"context_length": 32, "heads": 5, "init_scale": 1e-3},
    ),
    _flow(
        "repeated",
        "What do equal eigenvalues leave of the plateaus?",
        **by_seeds(32, 8, over("rank", 1, 2, 3, 4)),
        fields={"eigenvalues": (0.35, 0.35, 0.15, 0.15), "init_scale": 0.03},
    ),
    _flow(
        "blocks",
        "Do the blocks that start at zero stay zero on a training set of P sequences?",
        full=Size(1, _data_sets((200, 1000, 5000, 20_000, 80_000), 8)),
        short=Size(1, _data_sets((200, 1000, 5000), 2)),
        fields={"init_scale": 0.1},
    ),
    _flow(
        "mirrored_blocks",
        "And where every sequence is there with its mirror image y -> -y?",
        full=Size(1, _data_sets((200, 1000, 5000), 4)),
        short=Size(1, _data_sets((200, 1000), 2)),
        fields={"init_scale": 0.1, "mirrored": True},
    ),
    Experiment(
        "other_loss",
        "Is anything conserved under another loss?",
        "linear_icl/other_loss",
        "train",
        full=Size(2, _equal_time((0.02, 0.01, 0.005, 0.0025), 40.0)),
        short=Size(1, _equal_time((0.04, 0.02, 0.01), 40.0)),
        fields={"init_scale": 1.0, "sequences": 200},
    ),
    Experiment(
        "landscape",
        "Where is the gradient zero, and how is the loss curved there?",
        "linear_icl",
        "predict",
        full=Size(1, (*over("rank", 1, 2, 3, 4), *over("context_length", 1, 1000), {"eigenvalues": (0.5, 0.3, 0.2)})),
        short=Size(1, (*over("rank", 1, 2), {"eigenvalues": (0.5, 0.3, 0.2)})),
    ),
)
