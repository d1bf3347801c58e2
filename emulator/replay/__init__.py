"""Plays finished runs again on other links or devices, without training."""
