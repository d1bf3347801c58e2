"""Prices declared work in seconds, joules and bytes."""
