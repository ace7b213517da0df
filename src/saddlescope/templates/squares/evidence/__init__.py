"""What judges the runs: nothing here may change a run, and a change here makes none again."""
