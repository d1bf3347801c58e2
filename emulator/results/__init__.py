"""From rows of a record to numbers: times, comparisons, the summary."""
