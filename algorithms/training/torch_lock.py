"""A lock for torch's process-wide random generator and module hooks."""

from threading import Event, RLock

TURN = RLock()
HANDED_OVER = Event()  # set when the holder of the turn only waits for a GPU, or is done
