"""The conversation of server and devices, written once for both worlds."""
