"""`fedlapse tune`."""
