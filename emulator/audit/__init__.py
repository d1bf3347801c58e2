"""Checks records against their laws, from the files alone."""
