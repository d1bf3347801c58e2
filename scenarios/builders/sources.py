"""Finds the source files of a computation: fedlapse's and the user's, without Python's and installed packages'.

It reads imports from the files, also inside functions, and imports nothing.  It does not notice code that is loaded by
other means (`importlib`, a path).
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Collection, Iterable, Sequence
from functools import cache, lru_cache
from importlib.machinery import all_suffixes
from importlib.util import find_spec, resolve_name
from pathlib import Path

OURS = frozenset(("algorithms", "devices", "emulator", "network", "scenarios"))
INSTALLED = {"site-packages", "dist-packages"}  # folders of installed packages


def sources(roots: Collection[str], leave_out: Collection[str] = ()) -> dict[str, str]:
    """Returns the SHA-256 of each source file, by module name: of the modules `roots`, and of all modules that they
    import.

    The packages that contain the roots count, even if installed, unless they are in `leave_out`.  Raises ValueError for
    a root without a file.
    """
    own, here = (OURS | {_top(root) for root in roots}) - {*leave_out}, cache(_written_here)
    digests: dict[str, str] = {}
    seen: set[str] = set()
    todo = set(roots)
    while todo:
        name = todo.pop()
        seen.add(name)
        mine = _top(name) in own or (_top(name) not in leave_out and here(_top(name)))
        file = file_of(name) if mine else None
        if file is not None:
            source = file.read_bytes()
            digests[name] = hashlib.sha256(source).hexdigest()
            package = name if file.stem == "__init__" else name.rpartition(".")[0]
            todo |= imported(source, package) if file.suffix == ".py" else frozenset()
        elif name in roots:
            raise ValueError(f"the module {name} has no file, so a change in it would go unnoticed")
        todo = (todo | {name.rpartition(".")[0]}) - seen - {""}
    return dict(sorted(digests.items()))


def file_of(module: str) -> Path | None:
    """Returns the module's file; None if it has none, or if there is no such module."""
    return _place(module)[0]


@lru_cache(maxsize=4096)
def imported(source: bytes, package: str) -> frozenset[str]:
    """Returns the names of modules that a source file imports, and the names imported from them, which may be modules
    too.  `package`: the file's package, for relative imports."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # a file that cannot be parsed imports nothing
        return frozenset()
    modules: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            modules.update([base, *(f"{base}.{alias.name}" for alias in node.names)])
    return frozenset(modules)


def _top(module: str) -> str:
    return module.partition(".")[0]


def _place(module: str) -> tuple[Path | None, Sequence[Path]]:
    """Returns a module's file, or None, and the folders in which its submodules lie."""
    if module in sys.modules:
        loaded = sys.modules[module]
        return _found(getattr(loaded, "__file__", None), getattr(loaded, "__path__", None))
    parent, _, name = module.rpartition(".")
    if parent:
        return next(filter(any, (_within(folder, name) for folder in _place(parent)[1])), (None, ()))
    try:
        spec = find_spec(module)
    except ImportError:
        return None, ()
    return _found(spec.origin if spec.has_location else None, spec.submodule_search_locations) if spec else (None, ())


def _found(file: str | None, folders: Iterable[str] | None) -> tuple[Path | None, Sequence[Path]]:
    return Path(file) if file else None, [Path(folder) for folder in folders or ()]


def _within(folder: Path, name: str) -> tuple[Path | None, Sequence[Path]]:
    inside = folder / name
    if (inside / "__init__.py").is_file():
        return inside / "__init__.py", [inside]
    files = (folder / (name + suffix) for suffix in all_suffixes())
    return next(filter(Path.is_file, files), None), [inside] if inside.is_dir() else []


def _written_here(top: str) -> bool:
    """Returns true if a top-level module is neither Python's own nor in a folder of installed packages."""
    if top in sys.stdlib_module_names:
        return False
    file, folders = _place(top)
    return any(not INSTALLED & set(place.parts) for place in filter(None, [file, *folders]))
