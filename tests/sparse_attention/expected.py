"""What the tests of all rooms expect of this one."""

LINES = 61
"""Statements, equations, figures, tables and experiments that were counted in the paper: lines of the inventory."""

REFUTED = {
    "competition_at_any_strength",
    "assumption_1",
    "order_leads_to_the_first",
    "universal_growth",
    "window_grows",
    "values_bounded_by_first",
    "removals_keep_everything",
    "reversed_all",
    "truncated_truth_levels",
    "equal_importance_two_steps",
}
"""What the paper prints and does not hold, at quick size."""
