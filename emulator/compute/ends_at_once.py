"""Only for the process from which workers are forked (ready.py): makes it end with the command, whose output it holds
open, and not after Python has torn down all imported modules."""

import atexit
import os

atexit.register(os._exit, 0)
