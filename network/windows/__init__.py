"""The simulation of TCP's windows and queues on links that are full, compiled by numba."""
