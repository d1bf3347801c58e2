"""The objects that a scenario names."""
