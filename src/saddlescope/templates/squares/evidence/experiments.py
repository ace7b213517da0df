"""The runs that claims and figures draw on, each in a short and a full size."""

from saddlescope import Experiment, Size, over

EXPERIMENTS = (
    Experiment(
        name="staircase",
        asks="Is the largest target learned first, and when?",
        system="squares",
        face="flow",
        short=Size(seeds=3),
        full=Size(seeds=20, preset="paper"),
    ),
    Experiment(
        name="scales",
        asks="How does the first drop depend on the size of the start?",
        system="squares",
        face="flow",
        short=Size(variants=over("init_scale", 1e-2, 1e-3, 1e-4)),
        full=Size(variants=over("init_scale", 1e-2, 1e-4, 1e-6, 1e-8)),
    ),
    Experiment(
        name="training",
        asks="Does gradient descent take the same way?",
        system="squares",
        face="train",
        short=Size(),
        full=Size(seeds=3),
        fields={"learning_rate": 0.01},
    ),
)
