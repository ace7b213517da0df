"""Spectra and ranks of weight changes: of matrices, of head products, through rounding. Knows no file and no system."""
