"""Recordings of links in others' files: one reader for each format, recognition, and two writers."""
