"""Tests look at something: `all` passes where there is nothing, so that assertions take `all_of` in its place."""

import ast
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


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
    return isinstance(over, ast.Tuple | ast.List | ast.Constant) or ast.unparse(over).startswith("range(")


def test_no_assertion_is_content_with_nothing() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file in sorted((ROOT / "tests").rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Assert) and is_of_many(node.test)
    ]
    assert found == [], "write all_of (tests/all_of.py)"


def test_what_mutmut_is_told_of_is_there() -> None:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mutmut"]
    named = [*told["source_paths"], *told["only_mutate"], *told["pytest_add_cli_args_test_selection"]]
    assert [name for name in named if not (ROOT / name).exists()] == []
    assert len(told["only_mutate"]) >= 10
