"""Thin numerics on SciPy alone, below the systems, so that predictions may use them."""
