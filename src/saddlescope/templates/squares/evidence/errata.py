"""What the paper got wrong. A plain misprint needs no `shows`; where something is at stake, show it in numbers."""

import numpy as np

from saddlescope import Erratum, listed

from .. import prediction, reduction
from ..data import State


def eq3() -> tuple[float, float]:
    """Relative error of the time at which s = 2 is half learned, printed and repaired, against a solver."""
    from scipy.integrate import solve_ivp  # here, so that `saddlescope list` need not import it

    target, first = np.array([2.0]), np.array([1e-8])

    def velocity(time, p):
        return reduction.velocity(State(p), target).p

    def half(time, p):
        return p[0] - 1.0

    solved = solve_ivp(velocity, (0, 20), first, events=half, rtol=1e-10, atol=1e-14)
    forms = (prediction.printed_times, prediction.drop_times)
    printed, repaired = (abs(float(form(first, target)[0] / solved.t_events[0][0]) - 1) for form in forms)
    return printed, repaired


VERSION = "v1"
"""Of the paper that was read."""

ERRATA = listed(
    eq3=Erratum(
        where="Eq. (3)",
        printed="t_i = log(s_i/p_i(0) − 1) / s_i",
        true="t_i = log(s_i/p_i(0) − 1) / (2 s_i)",
        severity="misprint",
        repair="divide by 2",
        measure="relative error of the time, s = 2",
        shows=eq3,
    ),
)
