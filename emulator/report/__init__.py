"""The report: one page, and the charts on it, one file each.  Pure functions."""
