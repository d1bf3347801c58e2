"""The terminal side of every command: printed lines, signals, one-line errors and exit codes."""
