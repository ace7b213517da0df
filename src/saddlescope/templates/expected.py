"""What is expected of this room. In a checkout of saddlescope, the tests of all rooms look at it too."""

LINES = 7
"""Statements, equations, figures, tables and experiments that were counted in the paper: lines of the inventory."""

REFUTED: set[str] = set()
"""Names of the claims that the paper makes and that do not hold, at quick size."""
