"""Builds the objects that a scenario names."""
