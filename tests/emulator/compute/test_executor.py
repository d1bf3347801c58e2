"""One interface for whoever does jobs: nobody asks which class it is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from emulator.compute.executor import Executor
from emulator.compute.futures import ended
from emulator.messages.store import Store
from tests.all_of import all_of

ROOT = Path(__file__).parents[3]
CLASS = re.compile(r"^class (\w+)\((\w+)\):", re.MULTILINE)


class Doubling(Executor):
    """The least that an executor says."""

    store: Store

    def submit(self, job: Any, *args: Any) -> Future[Any]:
        return ended(2 * job(*args))


def executors(texts: Iterable[str]) -> set[str]:
    """The names of all classes that derive from Executor."""
    bases, found = dict(pair for text in texts for pair in CLASS.findall(text)), {"Executor"}
    while more := {name for name, base in bases.items() if base in found} - found:
        found |= more
    return found


def names(node: ast.expr) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def asked(tree: ast.Module, of: set[str]) -> Iterator[int]:
    """Lines that ask which executor it is, or name two kinds in one type."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name("isinstance"), args=[_, kind]) if names(kind) & of:
                yield node.lineno
            case ast.BinOp(op=ast.BitOr(), left=left, right=right) if names(left) & of and names(right) & of:
                yield node.lineno
            case ast.MatchClass(cls=ast.Name(name)) if name in of:
                yield node.lineno


def test_nobody_asks_which_executor_it_is() -> None:
    files = [path for room in ("emulator", "benchmarks") for path in sorted((ROOT / room).rglob("*.py"))]
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    of = executors(texts.values())
    assert of >= {"Inline", "Threaded", "Processes", "Members", "Ray", "Remembering", "Knowing", "RecordedJobs"}
    some = {path: text for path, text in texts.items() if re.search(rf"\b({'|'.join(of)})\b", text)}
    assert [f"{path}:{line}" for path, text in some.items() for line in asked(ast.parse(text), of)] == []


@pytest.mark.parametrize(
    "line",
    [
        "isinstance(pool, Remembering)",
        "isinstance(pool, (int, worlds.Ray, Inline))",
        "def f() -> Inline | Ray | int: ...",
        "match pool:\n    case Inline(): ...",
    ],
)
def test_who_asks_is_found(line: str) -> None:
    assert list(asked(ast.parse(line), {"Inline", "Ray", "Remembering"})) != []


def test_who_says_nothing_else_has_no_ledger_and_nothing_to_end() -> None:
    with Doubling() as pool:
        assert pool.submit(max, 3, 4).result(timeout=0) == 8
        assert (pool.knows(max, 3, 4), pool.tally, pool.numerics, pool.immediate) == (False, None, None, False)
        pool.settle(), pool.stop()


def test_who_does_no_jobs_is_no_executor() -> None:
    with pytest.raises(TypeError, match="submit"):
        Executor()  # type: ignore[abstract]
    assert all_of(hasattr(Executor, name) for name in ("stop", "settle", "knows", "__enter__", "__exit__"))
