"""What goes wrong in words that the command line would say."""


class Error(ValueError):
    """A scenario that is wrong, results that cannot be read, or a command that failed: one line for each fault."""
