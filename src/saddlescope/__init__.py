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

Names are loaded when they are first used, from the modules that __init__.pyi says: importing saddlescope imports no
heavy library.
"""

from saddlescope.core.lazy import lazy_names

__version__ = "0.1.0"

__getattr__, __dir__ = lazy_names(__name__, __file__)
