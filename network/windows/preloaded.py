"""Loads the machine code on import: processes forked later are spared half a second."""

from __future__ import annotations

from network.windows.crowd import compile_all

compile_all()
