"""Estimates of the importance of weights, and the arithmetic on them."""
