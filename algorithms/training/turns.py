"""Torch's generator, and its hooks on all modules, are one for all threads: whoever uses them takes its turn."""

from threading import Event, RLock

TURN = RLock()
HANDED_OVER = Event()  # set when whoever has its turn only waits for a GPU, or is done
