"""A user's own modules in a program that calls fedlapse more than once: what has changed is imported anew."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import lru_cache
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any, TypeVar, cast

from scenarios.builders import reads
from scenarios.builders.sources import OURS, file_of, sources

Made = TypeVar("Made", bound=Callable[..., Any])

IMPORTED: dict[str, str] = {}  # SHA-256 of the files of a user's modules, by module, as they were before their import
_named: set[str] = set()  # modules that scenarios name
_from = Path()  # where the program was when the last of them was imported
_clearing: list[Callable[[], object]] = []


def note(module: str) -> None:
    """Notes what lies in the files of a module that is about to be imported, and of a user's that it imports."""
    global _from
    if module not in _named:
        _named.add(module)
        _from = Path.cwd()
        IMPORTED.update({name: digest for name, digest in _here({module}).items() if name not in IMPORTED})


def renew() -> None:
    """Before a call: forgets what was made of files, and a user's modules if one of their files has changed since they
    were imported, or anything that their code has read."""
    for clear in _clearing:
        clear()
    importlib.invalidate_caches()
    if reads.changed() or _here(_named) != IMPORTED or _from != Path.cwd():  # from where they may have read something
        for name in IMPORTED:
            if file := getattr(sys.modules.pop(name, None), "__file__", None):
                # Python tells compiled files by whole seconds and sizes, and an edit may change neither
                Path(cache_from_source(file)).unlink(missing_ok=True)
        reads.forget()
        IMPORTED.clear()
        _named.clear()


def before_each_call(clear: Callable[[], object]) -> None:
    """Has `clear` called before each call of a program: it forgets what was made of files or of a user's code."""
    _clearing.append(clear)


def kept_for_a_call(maxsize: int) -> Callable[[Made], Made]:
    """As lru_cache, for what is made of files or of a user's code: it is made anew in the next call of a program."""

    def keeping(make: Made) -> Made:
        known = lru_cache(maxsize)(make)
        before_each_call(known.cache_clear)
        return cast(Made, known)

    return keeping


def changed(found: dict[str, str]) -> bool:
    """Whether one of these modules has another digest than when it was imported."""
    return any(IMPORTED.get(name, digest) != digest for name, digest in found.items())


def _here(roots: set[str]) -> dict[str, str]:
    """SHA-256 of the files of a user's modules, by module: of these, and of what they import."""
    try:
        return sources({root for root in roots if root.partition(".")[0] not in OURS and file_of(root)}, OURS)
    except OSError:  # one of them has gone
        return {}
