"""What every command says and hears: lines on the terminal, signals, one-line errors and exit codes."""
