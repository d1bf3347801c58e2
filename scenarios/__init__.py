"""What to run: scenario files and how they are read."""
