"""The report: one page, and the charts on it, one a file.  Pure."""
