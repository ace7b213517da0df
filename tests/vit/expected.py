"""What the tests of all rooms expect of this one."""

LINES = 0
"""Of an inventory: what is treated here of a paper is counted in the paper's own room."""

REFUTED = {
    "rank_grows",
    "lora_rank_grows",
    "lora_one_at_a_time",
}
"""What the paper prints and does not hold, at quick size."""
