"""The trainings that claims and figures draw on: digits on any machine, CIFAR-10 on a GPU."""

from __future__ import annotations

from saddlescope.core.experiment import Experiment, Size, over

from .spec import PAPER

SCALES = (1.0, 0.3, 0.1)
"""Initial scales; 1 is the default initialization."""

SHORT = {**PAPER, "epochs": 100, "augment": False}
"""A fifth of the paper's epochs, without crops and mirror images: after about 40 the loss is zero."""

EXPERIMENTS = (
    Experiment(
        name="digits",
        asks="Low rank, gradual growth and the effect of the initial scale, on images that come with scikit-learn.",
        system="vit",
        face="train",
        paper=Size(seeds=3, variants=over("init_scale", *SCALES)),
        quick=Size(seeds=3, variants=over("init_scale", *SCALES)),
    ),
    Experiment(
        name="digits_relu",
        asks="The same with ReLU, which the theory does not cover.",
        system="vit",
        face="train",
        fields={"activation": "relu"},
        paper=Size(seeds=3),
        quick=Size(seeds=3),
    ),
    Experiment(
        name="cifar",
        asks="The paper's own network and length, CIFAR-10 with crops and mirror images.",
        system="vit",
        face="train",
        fields=PAPER,
        paper=Size(),
        quick=None,
    ),
    Experiment(
        name="cifar_scales",
        asks="The initial scale at the paper's size.",
        system="vit",
        face="train",
        fields=SHORT,
        paper=Size(variants=over("init_scale", *SCALES)),
        quick=None,
    ),
    Experiment(
        name="cifar_relu",
        asks="ReLU at the paper's size.",
        system="vit",
        face="train",
        fields={**SHORT, "activation": "relu"},
        paper=Size(),
        quick=None,
    ),
    Experiment(
        name="cifar_seeds",
        asks="Another start at the paper's size.",
        system="vit",
        face="train",
        fields=SHORT,
        paper=Size(seeds=2),
        quick=None,
    ),
)
