"""What the tests of all rooms expect of this one."""

LINES = 63
"""Statements, equations, figures, tables and experiments that were counted in the paper: lines of the inventory."""

REFUTED = {
    "printed_durations",
    "zero_blocks_stay_zero",
}
"""What the paper prints and does not hold, at quick size."""
