"""saddlescope: a laboratory and an instrument for how transformers learn in stages.

    import saddlescope as ss

    system = ss.system("linear_icl", init_scale=1e-3)
    ss.predict(system, seed=0).stages      # what theory says of this start
    ss.flow(system, seed=0)                # the gradient flow, as an xarray.Dataset; `prediction=` locates its stages
    ss.train(system, seed=0)               # by a real optimizer
    ss.compare(system)                     # the three side by side
    ss.train(ss.subject("vit"), seed=0)    # a study: a real network, which can only be trained

    ss.diff("base", "tuned").modules       # what a fine-tune changed: spectra and ranks, matrix by matrix
    ss.Watch(model, every=100)             # the same beside a training

Names are loaded when they are first used: importing saddlescope imports no heavy library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from saddlescope.core.lazy import lazy_names

__version__ = "0.1.0"

_HOMES = {
    "subject": "core.registry",
    "subject_types": "core.registry",
    "system": "core.registry",
    "system_types": "core.registry",
    "System": "core.system",
    "Study": "core.study",
    "Spec": "core.spec",
    "Parameters": "core.spec",
    "predict": "lab.run",
    "flow": "dynamics.flow",
    "train": "lab.run",
    "run_seeds": "lab.ensemble",
    "compare": "lab.compare",
    "measured_stages": "lab.outcome",
    "judge": "lab.judge",
    "detect_stages": "analysis.stages",
    "check_system": "testing.conformance",
    "diff": "checkpoints.diff",
    "read_series": "watch.series",
    "Watch": "watch.watch",
}

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    "Parameters",
    "Spec",
    "Study",
    "System",
    "Watch",
    "check_system",
    "compare",
    "detect_stages",
    "diff",
    "flow",
    "judge",
    "measured_stages",
    "predict",
    "read_series",
    "run_seeds",
    "subject",
    "subject_types",
    "system",
    "system_types",
    "train",
]


__getattr__, __dir__ = lazy_names(__name__, _HOMES, __all__)

if TYPE_CHECKING:
    from .analysis.stages import detect_stages as detect_stages
    from .checkpoints.diff import diff as diff
    from .core.registry import subject as subject
    from .core.registry import subject_types as subject_types
    from .core.registry import system as system
    from .core.registry import system_types as system_types
    from .core.spec import Parameters as Parameters
    from .core.spec import Spec as Spec
    from .core.study import Study as Study
    from .core.system import System as System
    from .dynamics.flow import flow as flow
    from .lab.compare import compare as compare
    from .lab.ensemble import run_seeds as run_seeds
    from .lab.judge import judge as judge
    from .lab.outcome import measured_stages as measured_stages
    from .lab.run import predict as predict
    from .lab.run import train as train
    from .testing.conformance import check_system as check_system
    from .watch.series import read_series as read_series
    from .watch.watch import Watch as Watch
