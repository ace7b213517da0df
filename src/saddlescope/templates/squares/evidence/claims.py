"""What the paper says, in a form that can lose."""

from saddlescope import Claim, all_of, close, listed, ordered

from . import measures

CLAIMS = listed(
    drop_times=Claim(
        says="Coordinate i is learned at t_i = log(s_i/p_i(0) − 1) / (2 s_i).",
        source=("nobody2026", "Eq. (3)"),
        experiment="staircase",
        seeds=all_of(3),
        measured=measures.stage_times,
        expected=measures.predicted_times,
        relation=close(1e-6, because="the form is exact, and the flow is solved to 1e-8 per step"),
    ),
    one_after_the_other=Claim(
        says="Gradient descent learns the coordinates one after the other.",
        source=("nobody2026", "Section 2"),
        experiment="training",
        measured=measures.stage_times,
        relation=ordered(because="the statement is about the order alone"),
    ),
)
