"""Conducts all runs of a scenario, a search or a study over one pool of workers."""
