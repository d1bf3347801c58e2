"""`fedlapse trace`: recordings of links."""
