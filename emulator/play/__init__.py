"""Runs, from the first request to the last row."""
