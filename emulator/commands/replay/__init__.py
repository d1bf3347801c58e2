"""`fedlapse replay` and `fedlapse map`."""
