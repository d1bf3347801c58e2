"""Loads the machine code when it is imported: processes forked from this one later save half a second."""

from __future__ import annotations

from network.windows.crowd import compile_all

compile_all()
