"""Measurements against peers in the same run; `python -m benchmarks` prints the table of ratios."""
