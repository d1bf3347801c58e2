"""Devices: speed, memory, power, heat, presence, and their data."""
