"""Computes numbers from the rows of runs' records: times to targets, comparisons of algorithms, the summary."""
