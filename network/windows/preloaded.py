"""Loads the machine code when it is imported: half a second that processes forked afterwards are spared."""

from __future__ import annotations

from network.windows.crowd import compile_all

compile_all()
