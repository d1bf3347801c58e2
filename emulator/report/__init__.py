"""The report: one page and its charts, one chart per file.  Pure functions."""
