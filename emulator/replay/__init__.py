"""Finished runs, played again on other links or devices with no training."""
