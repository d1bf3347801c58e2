"""Checks the records of runs against the laws of docs/design/record.md, from the files alone."""
