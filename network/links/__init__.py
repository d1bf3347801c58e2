"""A device's link: rates over time, and what TCP makes of them."""
