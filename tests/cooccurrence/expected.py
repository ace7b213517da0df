"""What the tests of all rooms expect of this one."""

LINES = 100
"""Statements, equations, figures, tables and experiments that were counted in the paper: lines of the inventory."""

REFUTED = {
    "initial_outputs_below_a_hundredth",
    "two_words_together",
    "generalisation_anywhere",
    "all_types_at_one_rate",
    "words_add_order_one",
    "score_changes_without_logarithms",
    "attention_rates_as_stated",
    "attention_to_words_as_stated",
    "balance_with_topics",
    "appendix_signs",
    "phases_with_adam",
}
"""What the paper prints and does not hold, at quick size."""
