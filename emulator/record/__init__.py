"""Writes and reads the record of a run: its events, a row for each round, and its files.  Imports no torch."""
