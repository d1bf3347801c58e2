"""The schema of a scenario file: keys, types, bounds and descriptions."""
