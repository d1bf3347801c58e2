"""Clocks: the virtual one, the real one, and what both offer."""
