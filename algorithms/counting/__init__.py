"""The FLOPs and memory traffic of declared work."""
