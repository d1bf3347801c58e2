"""Devices: their speed, memory, energy, presence and data."""
