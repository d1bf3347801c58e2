"""A study's protocol, and what its runs say: comparisons, their reasons, the map, and the verdict."""
