"""Scenario files: their schema, how they are read, and what is built from them."""
