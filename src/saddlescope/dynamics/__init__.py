"""How things move: the only loops over steps and time outside predictions."""
