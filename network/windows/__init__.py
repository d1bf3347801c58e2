"""TCP on links that are full: congestion windows, queues and drops."""
