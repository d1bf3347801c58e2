"""A finished run, played again on other links or other devices: what it is read into, and what it is played with."""
