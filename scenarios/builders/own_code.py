"""Imports a user's own modules again if they have changed, in a program that calls fedlapse more than once."""

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

IMPORTED: dict[str, str] = {}  # SHA-256 of the files of a user's modules, by module, from before their import
_named: set[str] = set()  # modules that scenarios name
_from = Path()  # working directory at the last of these imports
_clearing: list[Callable[[], object]] = []


def note(module: str) -> None:
    """Notes the digests of the files of a module that is about to be imported, and of the user's modules that it
    imports."""
    global _from
    if module not in _named:
        _named.add(module)
        _from = Path.cwd()
        IMPORTED.update({name: digest for name, digest in _here({module}).items() if name not in IMPORTED})


def renew() -> None:
    """Prepares the next call of a program: clears caches of files, and makes Python import the user's modules again if
    one of their files, or anything that their code has read, has changed since their import."""
    for clear in _clearing:
        clear()
    importlib.invalidate_caches()
    if reads.changed() or _here(_named) != IMPORTED or _from != Path.cwd():  # from where they may have read something
        for name in IMPORTED:
            if file := getattr(sys.modules.pop(name, None), "__file__", None):
                # Python identifies compiled files by whole seconds and sizes, which an edit may leave unchanged
                Path(cache_from_source(file)).unlink(missing_ok=True)
        reads.forget()
        forget()


def forget() -> None:
    """Forgets which of the user's modules were imported, and the digests of their files."""
    IMPORTED.clear()
    _named.clear()


def before_each_call(clear: Callable[[], object]) -> None:
    """Registers a function to be called before each call that a program makes; it drops values made from files or a
    user's code."""
    _clearing.append(clear)


def kept_for_a_call(maxsize: int) -> Callable[[Made], Made]:
    """Returns a decorator like lru_cache for functions that make values from files or from a user's code: the values
    are dropped before the next call that a program makes."""

    def keeping(make: Made) -> Made:
        known = lru_cache(maxsize)(make)
        before_each_call(known.cache_clear)
        return cast(Made, known)

    return keeping


def changed(found: dict[str, str]) -> bool:
    """Returns true if one of these modules had another digest when it was imported; `found`: their present digests."""
    return any(IMPORTED.get(name, digest) != digest for name, digest in found.items())


def _here(roots: set[str]) -> dict[str, str]:
    """Returns the SHA-256, by module, of the files of these modules and of the user's modules that they import."""
    try:
        return sources({root for root in roots if root.partition(".")[0] not in OURS and file_of(root)}, OURS)
    except OSError:  # one of them is gone
        return {}
