"""Declared work becomes seconds, joules and bytes."""
