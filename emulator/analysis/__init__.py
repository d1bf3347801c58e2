"""A study's protocol and the analysis of its runs: comparisons, reasons, the map."""
