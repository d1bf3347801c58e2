"""Shapes without torch's compiler: operators on the meta device load it, a second and 40 MB, only to switch it off."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

COMPILER = "torch._dynamo"


@contextmanager
def without_compiler() -> Iterator[None]:
    """Within it, torch's compiler is loaded only if more is asked of it than to leave a function as it is."""
    if COMPILER in sys.modules:
        yield
        return
    stand_in = _StandIn(COMPILER)
    sys.modules[COMPILER] = stand_in
    try:
        yield
    finally:
        if sys.modules.get(COMPILER) is stand_in:
            del sys.modules[COMPILER]


class _StandIn(ModuleType):
    @staticmethod
    def disable(function: Callable[..., Any], *_: object, **__: object) -> Callable[..., Any]:
        return function

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(COMPILER) is self:
            del sys.modules[COMPILER]
        return getattr(importlib.import_module(COMPILER), name)
