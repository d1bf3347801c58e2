"""Recordings of links in foreign files: a reader for each format, recognition, and two writers."""
