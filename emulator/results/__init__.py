"""From rows of a record to sentences and tables."""
