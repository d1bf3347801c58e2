"""Torch's generator, and its hooks on all modules, are one for all threads: whoever uses them takes its turn."""

from threading import Event, RLock

TURN = RLock()
HANDED_OVER = Event()  # whoever has its turn has nothing left to do but to wait for a GPU, or is done
