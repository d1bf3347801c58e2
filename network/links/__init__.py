"""A device's link: its rates over time, and TCP over it."""
