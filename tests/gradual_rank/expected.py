"""What the tests of all rooms expect of this one."""

LINES = 92
"""Statements, equations, figures, tables and experiments that were counted in the paper: lines of the inventory."""

REFUTED = {
    "paper_test_of_returns",
    "none_leaves_anywhere",
    "one_head_per_stage",
    "adam_learns_one_by_one",
    "other_losses",
    "conservation_lets_one_move",
    "broken_conservation_breaks_stages",
}
"""What the paper prints and does not hold, at quick size."""
