"""Puts systems, engines and analysis together: what was run and what it showed."""
