"""Plays one run, from the first request to the last row of its record."""
