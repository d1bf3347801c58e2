"""`make numbers`: how large the product and its tests are, room by room.

A statement is an `ast.stmt`; docstrings are none.
"""

from __future__ import annotations

import ast
from pathlib import Path

PRODUCT = ("algorithms", "devices", "emulator", "fedlapse", "network", "scenarios")
OTHERS = ("benchmarks", "tests")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def statements(text: str) -> int:
    """Statements of a module's source, without docstrings."""
    nodes = list(ast.walk(ast.parse(text)))
    docstrings = sum(
        isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None for node in nodes
    )
    return sum(isinstance(node, ast.stmt) for node in nodes) - docstrings


def size(folder: Path) -> tuple[int, int]:
    """Statements and lines of all Python files below a folder."""
    texts = [path.read_text(encoding="utf-8") for path in folder.rglob("*.py")]
    return sum(map(statements, texts)), sum(text.count("\n") for text in texts)


def main() -> None:
    """Prints a line for each top-level package, and for each room of emulator/."""
    root = Path(__file__).parents[1]
    sizes = {name: size(root / name) for name in (*PRODUCT, *OTHERS)}
    rooms = {f"  emulator/{room.name}": size(room) for room in sorted((root / "emulator").iterdir()) if room.is_dir()}
    total = tuple(sum(sizes[name][which] for name in PRODUCT) for which in (0, 1))
    print(f"{'':28}statements    lines")
    for name, (count, lines) in {"product": total, **sizes, **rooms}.items():
        if count:
            print(f"{name:28}{count:10,}{lines:9,}")


if __name__ == "__main__":
    main()
