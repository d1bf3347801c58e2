"""Remembers results of jobs for later runs: keys, facts, blobs."""
