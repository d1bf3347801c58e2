"""Worlds: the virtual clock, the real clock, and their common interface."""
