"""A device's link: its rates over time, and TCP on it."""
