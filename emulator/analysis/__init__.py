"""A study's protocol, and what its runs say: comparisons, their reasons, and the map."""
