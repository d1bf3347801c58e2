"""The search for an algorithm's best settings: configurations, their scores, and who goes on."""
