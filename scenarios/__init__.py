"""Scenario files: their schema, their reader, and the objects that are built from them."""
