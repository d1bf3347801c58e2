"""Federated algorithms, the networks that they train, and the cost of their work."""
