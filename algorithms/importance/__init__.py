"""Estimates of how much a weight matters, and the arithmetic on them."""
