"""An error, in the words of the command line."""


class Error(ValueError):
    """A scenario that is wrong, results that cannot be read, or a command that failed: one line for each fault."""
