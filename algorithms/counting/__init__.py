"""The FLOPs and memory traffic that declared work takes."""
