"""Torch's generator, and its hooks on all modules, are one for all threads: whoever uses them takes its turn."""

from threading import RLock

TURN = RLock()
