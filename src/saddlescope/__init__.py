"""saddlescope: a laboratory and an instrument for how transformers learn in stages.

    import saddlescope as ss

    system = ss.system("linear_icl", init_scale=1e-3)
    ss.predict(system, seed=0).stages      # what theory says of this start
    ss.flow(system, seed=0)                # the gradient flow, as an xarray.Dataset; `prediction=` locates its stages
    ss.train(system, seed=0)               # by a real optimizer
    ss.compare(system)                     # the three side by side
    ss.run(system, "flow", seed=0)         # the same with its stages, and how it ended
    ss.train("vit", seed=0)                # by name: a study, a real network, which can only be trained
    ss.judge(system)                       # verdicts on what one flow can decide

    ss.diff("base", "tuned").modules       # what a fine-tune changed: spectra and ranks, matrix by matrix
    ss.Watch(model, every=100)             # the same beside a training

Names are loaded when they are first used: importing saddlescope imports no heavy library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from saddlescope.core.lazy import lazy_names

__version__ = "0.1.0"

HOMES = {
    "subject": "core.registry",
    "subject_types": "core.registry",
    "system": "core.registry",
    "system_types": "core.registry",
    "Subject": "core.subject",
    "Once": "core.subject",
    "OverTime": "core.subject",
    "System": "core.system",
    "Start": "core.start",
    "ReducedStart": "core.start",
    "part": "core.parts",
    "Descent": "core.parts",
    "ExactDescent": "core.parts",
    "OwnLoop": "core.parts",
    "Flow": "core.parts",
    "Theory": "core.parts",
    "HasSamples": "core.parts",
    "HasFreshData": "core.parts",
    "HasJacobian": "core.parts",
    "HasProducts": "core.parts",
    "HasInvariants": "core.parts",
    "HasLandmarks": "core.parts",
    "Symmetry": "core.parts",
    "Limit": "core.parts",
    "Spec": "core.spec",
    "Parameters": "core.spec",
    "require": "core.spec",
    "Stage": "core.stage",
    "Mark": "core.stage",
    "Prediction": "core.stage",
    "Ending": "core.stage",
    "build_trajectory": "core.trajectory",
    "Run": "core.run",
    "Claim": "core.claim",
    "Verdict": "core.claim",
    "close": "core.claim",
    "bounded": "core.claim",
    "ordered": "core.claim",
    "monotone": "core.claim",
    "scales_as": "core.claim",
    "aligned": "core.claim",
    "all_of": "core.claim",
    "share_of": "core.claim",
    "together": "core.claim",
    "only": "core.claim",
    "by_field": "core.claim",
    "Experiment": "core.experiment",
    "Size": "core.experiment",
    "over": "core.experiment",
    "Figure": "core.experiment",
    "Erratum": "core.experiment",
    "source": "core.source",
    "BadArgument": "core.errors",
    "predict": "lab.run",
    "flow": "lab.run",
    "train": "lab.run",
    "run": "lab.run",
    "run_seeds": "lab.ensemble",
    "compare": "lab.compare",
    "measured_stages": "lab.stages",
    "judge": "lab.judge",
    "reproduce": "lab.job",
    "detect_stages": "analysis.stages",
    "check_system": "testing.conformance",
    "diff": "checkpoints.diff",
    "advise": "checkpoints.advice",
    "extract": "checkpoints.extract",
    "stable_rank": "spectra.ranks",
    "read_series": "watch.series",
    "Watch": "watch.watch",
    "SaddleCallback": "watch.huggingface",
    "LightningCallback": "watch.lightning",
    "TreeWatch": "watch.jax_tree",
    "from_function": "systems.gradual_rank.from_function",
}

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    "BadArgument",
    "Claim",
    "Descent",
    "Ending",
    "Erratum",
    "ExactDescent",
    "Experiment",
    "Figure",
    "Flow",
    "HasFreshData",
    "HasInvariants",
    "HasJacobian",
    "HasLandmarks",
    "HasProducts",
    "HasSamples",
    "LightningCallback",
    "Limit",
    "Mark",
    "Once",
    "OverTime",
    "OwnLoop",
    "Parameters",
    "Prediction",
    "ReducedStart",
    "Run",
    "SaddleCallback",
    "Size",
    "Spec",
    "Stage",
    "Start",
    "Subject",
    "Symmetry",
    "System",
    "Theory",
    "TreeWatch",
    "Verdict",
    "Watch",
    "advise",
    "aligned",
    "all_of",
    "bounded",
    "build_trajectory",
    "by_field",
    "check_system",
    "close",
    "compare",
    "detect_stages",
    "diff",
    "extract",
    "flow",
    "from_function",
    "judge",
    "measured_stages",
    "monotone",
    "only",
    "ordered",
    "over",
    "part",
    "predict",
    "read_series",
    "reproduce",
    "require",
    "run",
    "run_seeds",
    "scales_as",
    "share_of",
    "source",
    "stable_rank",
    "subject",
    "subject_types",
    "system",
    "system_types",
    "together",
    "train",
]


__getattr__, __dir__ = lazy_names(__name__, HOMES, __all__)

if TYPE_CHECKING:
    from .analysis.stages import detect_stages as detect_stages
    from .checkpoints.advice import advise as advise
    from .checkpoints.diff import diff as diff
    from .checkpoints.extract import extract as extract
    from .core.claim import Claim as Claim
    from .core.claim import Verdict as Verdict
    from .core.claim import aligned as aligned
    from .core.claim import all_of as all_of
    from .core.claim import bounded as bounded
    from .core.claim import by_field as by_field
    from .core.claim import close as close
    from .core.claim import monotone as monotone
    from .core.claim import only as only
    from .core.claim import ordered as ordered
    from .core.claim import scales_as as scales_as
    from .core.claim import share_of as share_of
    from .core.claim import together as together
    from .core.errors import BadArgument as BadArgument
    from .core.experiment import Erratum as Erratum
    from .core.experiment import Experiment as Experiment
    from .core.experiment import Figure as Figure
    from .core.experiment import Size as Size
    from .core.experiment import over as over
    from .core.parts import Descent as Descent
    from .core.parts import ExactDescent as ExactDescent
    from .core.parts import Flow as Flow
    from .core.parts import HasFreshData as HasFreshData
    from .core.parts import HasInvariants as HasInvariants
    from .core.parts import HasJacobian as HasJacobian
    from .core.parts import HasLandmarks as HasLandmarks
    from .core.parts import HasProducts as HasProducts
    from .core.parts import HasSamples as HasSamples
    from .core.parts import Limit as Limit
    from .core.parts import OwnLoop as OwnLoop
    from .core.parts import Symmetry as Symmetry
    from .core.parts import Theory as Theory
    from .core.parts import part as part
    from .core.registry import subject as subject
    from .core.registry import subject_types as subject_types
    from .core.registry import system as system
    from .core.registry import system_types as system_types
    from .core.run import Run as Run
    from .core.source import source as source
    from .core.spec import Parameters as Parameters
    from .core.spec import Spec as Spec
    from .core.spec import require as require
    from .core.stage import Ending as Ending
    from .core.stage import Mark as Mark
    from .core.stage import Prediction as Prediction
    from .core.stage import Stage as Stage
    from .core.start import ReducedStart as ReducedStart
    from .core.start import Start as Start
    from .core.subject import Once as Once
    from .core.subject import OverTime as OverTime
    from .core.subject import Subject as Subject
    from .core.system import System as System
    from .core.trajectory import build_trajectory as build_trajectory
    from .lab.compare import compare as compare
    from .lab.ensemble import run_seeds as run_seeds
    from .lab.job import reproduce as reproduce
    from .lab.judge import judge as judge
    from .lab.run import flow as flow
    from .lab.run import predict as predict
    from .lab.run import run as run
    from .lab.run import train as train
    from .lab.stages import measured_stages as measured_stages
    from .spectra.ranks import stable_rank as stable_rank
    from .systems.gradual_rank.from_function import from_function as from_function
    from .testing.conformance import check_system as check_system
    from .watch.huggingface import SaddleCallback as SaddleCallback
    from .watch.jax_tree import TreeWatch as TreeWatch
    from .watch.lightning import LightningCallback as LightningCallback
    from .watch.series import read_series as read_series
    from .watch.watch import Watch as Watch
