"""For the process that workers are forked from alone (ready.py): it ends with the command, whose output it holds open,
and not when Python has taken down all that it had imported."""

import atexit
import os

atexit.register(os._exit, 0)
