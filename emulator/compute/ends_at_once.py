"""Imported only by the process from which workers are forked (ready.py).  That process keeps the command's output open,
so at exit it ends at once and skips Python's teardown of its modules."""

import atexit
import os

atexit.register(os._exit, 0)
