"""A small paper of our own, installed as somebody's plug-in: the system of CONTRIBUTING.md with an experiment, a claim
and a figure. Its runs take as long as `DROPS_PAUSE` says, so that they can be disturbed, and need no jax."""

from __future__ import annotations

RUNS = 24

PARTS = {
    "drops/__init__.py": "from .system import Drops\n\nSYSTEMS = (Drops,)\n",
    "drops/system.py": """
import os
import time

from .squares import Squares


class Drops(Squares):
    name = "drops"

    def start(self, seed):
        time.sleep(float(os.environ.get("DROPS_PAUSE", "0")))
        if seed == 5 and (fatal := os.environ.get("DROPS_FATAL")):
            # This run takes its process with it, as often as there are files to say so.
            for name in os.listdir(fatal)[:1]:
                os.unlink(os.path.join(fatal, name))
                os.kill(os.getpid(), 9)
        return super().start(seed)
""",
    "drops/evidence/claims.py": """
from saddlescope import Claim, all_of, monotone

CLAIMS = (
    Claim(
        name="falls",
        says="The loss never rises.",
        source=("example", "nowhere"),
        experiment="drops",
        measured=lambda run: run.series("loss"),
        relation=monotone("falls", because="it is a gradient flow", slack=1e-9),
        seeds=all_of(4),
    ),
)
""",
    "drops/evidence/experiments.py": f"""
from saddlescope import Experiment, Size

EXPERIMENTS = (Experiment("drops", "Does it fall?", "drops", "flow", Size({RUNS}), Size({RUNS})),)
""",
    "drops/evidence/figures.py": """
from saddlescope import Figure


def draw(axes, results):
    for run in results["drops"]:
        axes["a"].plot(run.trajectory["time"], run.trajectory["loss"])


FIGURES = (Figure("1", "Losses", "Fig. 1", "The loss.", "It falls.", ("drops",), draw),)
""",
}
