"""What is run for this paper's figures and claims. d=50, n=10 and N=200 (paper: 1000) samples unless said otherwise."""

from __future__ import annotations

from functools import partial

from saddlescope.core.experiment import Experiment, Size, by_seeds, over

SMALL = {"dim": 14, "tokens": 6, "samples": 160}
LEAVER = {**SMALL, "teacher_seed": 30, "data_seed": 31}
"""An ordinary instance on which an entry leaves the support again."""

LAYERS = {"dim": 6, "tokens": 5, "samples": 64, "layers": 2}
HEADS = {"dim": 4, "tokens": 5, "samples": 64, "heads": 2, "stages": 3}
FEW = {"dim": 4, "tokens": 4, "samples": 24, "layers": 2, "stages": 3}
AWAY = {"log10_alpha": -10_000.0}
"""So small a start that nothing else enters while a perturbed plateau settles."""

SCALES = (-1.0, -2.0, -4.0, -8.0, -16.0, -32.0)


def _instances(count: int, **fields: object) -> tuple[dict[str, object], ...]:
    """Random teachers and data, at two scales each."""
    return tuple(
        {"teacher_seed": 1000 + k, "data_seed": 2000 + k, "log10_alpha": scale, **fields}
        for k in range(count)
        for scale in (-32.0, -120.0)
    )


def _kicks(stages: range, **fields: object) -> tuple[dict[str, object], ...]:
    return tuple({"stage": stage, **fields} for stage in stages)


def _equal_time(time: float, *rates: float) -> tuple[dict[str, object], ...]:
    """Learning rates that train for the same plain time."""
    return tuple({"learning_rate": rate, "steps": round(time / rate)} for rate in rates)


def _rates(*rates: float) -> tuple[dict[str, object], ...]:
    """Every loss, and a decay of the weights, at several learning rates."""
    problems = [{"error": error} for error in ("squared", "log_cosh", "quartic", "logistic")]
    return tuple(
        {"learning_rate": rate, **problem} for problem in (*problems, {"weight_penalty": 1e-4}) for rate in rates
    )


def _entries(noise: float) -> tuple[dict[str, object], ...]:
    """One run per stage, as long as its newcomer takes."""
    horizons = (60.0, 90.0, 15.0, 25.0, 15.0)
    return tuple({"stage": stage, "noise": noise, "horizon": horizon} for stage, horizon in enumerate(horizons))


_flow = partial(Experiment, system="gradual_rank", face="flow")
_training = partial(Experiment, system="gradual_rank", face="train")
_linear = partial(Experiment, system="gradual_rank/linear", face="flow")
_perturbed = partial(Experiment, system="gradual_rank/perturbed", face="flow")

EXPERIMENTS = (
    _flow(
        "scales",
        "What do loss and entries do as the initial scale falls?",
        full=Size(1, over("log10_alpha", *SCALES, samples=1000, horizon=1000.0)),
        short=Size(1, over("log10_alpha", *SCALES, horizon=560.0)),
        fields={"stages": 1},
    ),
    _flow(
        "limit",
        "How do the flow's stages tend to those of Algorithm 1?",
        full=Size(1, over("log10_alpha", -16.0, -32.0, -64.0, -128.0, -256.0, -1000.0)),
        short=Size(1, over("log10_alpha", -32.0, -64.0, -128.0, -1000.0)),
        fields={"horizon": 412.0, "stages": 7},
    ),
    _flow(
        "instances",
        "Are the times predicted on any teacher, data and start?",
        full=Size(1, _instances(12)),
        short=Size(1, _instances(10, dim=10, tokens=5, samples=80)),
        fields={"stages": 6},
    ),
    _flow(
        "leavers",
        "What happens when an entry leaves the support again?",
        full=Size(1, over("log10_alpha", -32.0, -64.0, -128.0, -1000.0)),
        short=Size(1, over("log10_alpha", -64.0, -128.0, -1000.0)),
        fields={**LEAVER, "horizon": 125.0},
    ),
    _flow(
        "layers",
        "Does a transformer of two layers learn in the same way?",
        full=Size(1, over("log10_alpha", -32.0, -128.0, -1000.0, -10_000.0)),
        short=Size(1, over("log10_alpha", -1000.0, -10_000.0)),
        fields={**LAYERS, "stages": 6},
    ),
    _flow(
        "heads",
        "Does one head at a time learn where a layer has two?",
        full=Size(10, over("log10_alpha", -32.0, -1000.0) + over("log10_alpha", -1000.0, layers=2)),
        short=Size(3, over("log10_alpha", -32.0, -1000.0)),
        fields=HEADS,
    ),
    _flow(
        "losses",
        "Does the theory hold for other losses than the squared error?",
        **by_seeds(3, 1, over("error", "squared", "log_cosh", "quartic", "logistic")),
        fields={**LEAVER, "log10_alpha": -128.0, "stages": 2, "penalty": 1e-3},
    ),
    _training(
        "gradient_descent",
        "Does gradient descent on u and v tend to the flow, and keep what it conserves?",
        full=Size(1, _equal_time(960, 0.5, 0.25, 0.125, 0.0625)),
        short=Size(1, _equal_time(960, 0.5, 0.25, 0.125)),
        fields={**LEAVER, "log10_alpha": -8.0, "stages": 1},
    ),
    _training(
        "conservation",
        "Is u² − v² conserved as the learning rate falls, under any loss?",
        full=Size(1, _rates(1.0, 0.5, 0.25, 0.125)),
        short=Size(1, _rates(1.0, 0.25)),
        fields={**LEAVER, "log10_alpha": -1.0, "stages": 1, "horizon": 400.0},
    ),
    _training(
        "arithmetic",
        "Are steps of the logarithms steps of gradient descent?",
        **by_seeds(3, 1, over("arithmetic", "weights", "log")),
        fields={**LEAVER, "log10_alpha": -2.0, "stages": 3, "horizon": 80.0, "learning_rate": 0.5},
    ),
    _training(
        "beyond_floats",
        "Can gradient descent run where weights are no floating-point numbers?",
        full=Size(1, over("log10_alpha", -1000.0)),
        short=Size(1, over("log10_alpha", -400.0)),
        fields={**LEAVER, "stages": 1, "horizon": 55.0, "learning_rate": 4.0},
    ),
    _training(
        "adam",
        "Does Adam learn one entry at a time?",
        **by_seeds(3, 1, over("log10_alpha", -4.0, -8.0, -16.0)),
        fields={**LEAVER, "optimizer": "adam", "learning_rate": 1e-3, "steps": 3000, "stages": 6},
    ),
    _training(
        "batches",
        "Does stochastic gradient descent?",
        **by_seeds(3, 1),
        fields={**LEAVER, "batch_size": 32, "log10_alpha": -16.0, "stages": 4, "horizon": 85.0, "learning_rate": 0.5},
    ),
    Experiment(
        "full",
        "Does rank grow by steps where weight matrices are full, or diagonal in blocks?",
        "gradual_rank/full",
        "train",
        full=Size(1, over("block", 1, 5, None, samples=1000)),
        short=Size(1, over("block", 1, 5, None)),
    ),
    _flow(
        "relu",
        "What is left of the theory with ReLU in place of GeLU?",
        **by_seeds(3, 1, over("activation", "gelu", "relu")),
        fields={**FEW, "log10_alpha": -64.0},
    ),
    _linear(
        "linear",
        "Does the diagonal linear network do what is known of it?",
        **by_seeds(10, 2, over("log10_alpha", -8.0, -32.0, -128.0, -1000.0)),
    ),
    _linear(
        "equal_start",
        "What is learned where u = v at the start?",
        **by_seeds(10, 2),
        fields={"equal_start": True, "log10_alpha": -32.0, "horizon": 8.0},
    ),
    _linear(
        "runaway",
        "What becomes of Assumption 4.3 under the logistic loss on separable data?",
        **by_seeds(3, 1, over("penalty", 0.0, 0.01, horizon=40.0)),
        fields={"error": "logistic", "coefficients": (2.0, 0.0), "samples": 40, "log10_alpha": -32.0, "stages": 1},
    ),
    _flow(
        "decay",
        "What does weight decay on u and v do to the conservation law, and to the stages?",
        **by_seeds(3, 1, over("weight_penalty", 0.0, 1e-4, 1e-3)),
        fields={**LEAVER, "log10_alpha": -128.0, "horizon": 90.0, "stages": 4},
    ),
    _perturbed(
        "returns",
        "Does a perturbed plateau settle back?",
        full=Size(4, _kicks(range(1, 8))),
        short=Size(2, _kicks(range(1, 6), **LEAVER)),
        fields={**AWAY, "noise": 0.05, "horizon": 0.2, "moment": 0.1},
    ),
    _perturbed(
        "moves_on",
        "Does a perturbed move end on the same plateau?",
        full=Size(4, _kicks(range(7))),
        short=Size(2, _kicks(range(5), **LEAVER)),
        fields={**AWAY, "noise": 0.01, "kicked": "newcomer", "horizon": 0.2, "moment": 0.1},
    ),
    _perturbed(
        "kicks",
        "What does the paper's own test of Assumption 4.3 show?",
        **by_seeds(1, 1, (*_kicks(range(2, 7), noise=0.0), *_kicks(range(2, 7), noise=0.05))),
        fields={"log10_alpha": -32.0, "kicked": "noticeable", "horizon": 6.0},
    ),
    _perturbed(
        "entries",
        "What does the paper's own test of Assumption 4.4 show?",
        **by_seeds(1, 1, (*_entries(0.0), *_entries(0.01))),
        fields={"log10_alpha": -32.0, "kicked": "newcomer", "moment": 0.9},
    ),
)
