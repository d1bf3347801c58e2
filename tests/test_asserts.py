"""Tests are run, and look at something: `all` passes where there is nothing, so that assertions take `all_of` in its
place."""

import ast
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.all_of import all_of

ROOT = Path(__file__).parents[1]
FOLDERS = ("algorithms", "devices", "emulator", "fedlapse", "network", "scenarios", "tests")


def is_of_many(call: ast.AST) -> bool:
    """Whether an expression is `all(...)` or `not any(...)` over values that may be empty: neither a display nor a
    range."""
    negated = isinstance(call, ast.UnaryOp) and isinstance(call.op, ast.Not)
    match call.operand if negated else call:
        case ast.Call(func=ast.Name(id=name), args=[over]) if name == ("any" if negated else "all"):
            loops = over.generators if isinstance(over, ast.GeneratorExp) else []
            return not loops or any(loop.ifs or not is_fixed(loop.iter) for loop in loops)
    return False


def is_fixed(over: ast.expr) -> bool:
    if isinstance(over, ast.Tuple | ast.List):
        return not all(isinstance(part, ast.Starred) for part in over.elts)
    return isinstance(over, ast.Constant) or ast.unparse(over).startswith("range(")


def judged(node: ast.AST) -> Iterator[ast.AST]:
    """Yields the parts, joined by `and` or `or`, of what an assertion, or a helper's answer, is about."""
    match node:
        case ast.Assert(test=said) | ast.Return(value=ast.expr() as said):
            yield from said.values if isinstance(said, ast.BoolOp) else [said]


def test_no_assertion_is_content_with_nothing() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{part.lineno}"
        for file in sorted((ROOT / "tests").rglob("*.py"))
        if file.name != "all_of.py"
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        for part in judged(node)
        if is_of_many(part)
    ]
    assert found == [], "write all_of (tests/all_of.py)"


def test_no_folder_has_a_name_that_pytest_leaves_out(pytestconfig: pytest.Config) -> None:
    """Such as `build`, which linters and git leave out, too; and tests lie in files that it looks for."""
    left_out, files = pytestconfig.getini("norecursedirs"), pytestconfig.getini("python_files")
    found = [file.relative_to(ROOT) for name in FOLDERS for file in sorted((ROOT / name).rglob("*.py"))]
    assert {name for path in found for name in path.parts if any(fnmatch(name, each) for each in left_out)} == set()
    mine = [path for path in found if path.parts[0] == "tests"]
    tests = [path for path in mine if "\ndef test_" in (ROOT / path).read_text(encoding="utf-8")]
    assert len(tests) > 300
    assert all_of(any(fnmatch(path.name, each) for each in files) for path in tests)


def test_what_mutmut_is_told_of_is_there() -> None:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mutmut"]
    named = [*told["source_paths"], *told["only_mutate"], *told["pytest_add_cli_args_test_selection"]]
    assert [name for name in named if not (ROOT / name).exists()] == []
    assert len(told["only_mutate"]) >= 10
