"""The search for an algorithm's best settings: configurations, scores, and the selection of survivors."""
