"""Recordings of links in files of other programs: recognition of the format, a reader for each, and two writers."""
