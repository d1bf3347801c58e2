"""`fedlapse study`."""
