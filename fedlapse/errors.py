"""The error of all calls, with the command line's message."""


class Error(ValueError):
    """An invalid scenario, unreadable results, or a failed command; one line for each fault."""
