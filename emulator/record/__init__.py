"""What happened, in words and files.  No torch."""
