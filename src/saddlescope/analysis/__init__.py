"""Arrays in, arrays out: knows no system."""
