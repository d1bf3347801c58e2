"""Remembers results of jobs for later runs: keys of jobs, facts (their results), and blobs (the messages that they
made)."""
