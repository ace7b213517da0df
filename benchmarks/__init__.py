"""Speed as ratios within one run: machines are noisy, ratios less so. `make bench`, or `python -m benchmarks NAME`."""
