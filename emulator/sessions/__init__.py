"""All runs of a scenario, or of a search or a study, over one pool of workers."""
