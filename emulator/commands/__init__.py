"""The commands of `fedlapse`, one a file."""
