"""Sessions: what a command plays.  A session plays all runs of a scenario, a search or a study with one pool of
workers, and writes their results."""
