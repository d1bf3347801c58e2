"""The schema of a scenario: every key, its unit and its text."""
