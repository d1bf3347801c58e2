"""Other libraries are used by their public names; ALLOWED has each exception, with the reason."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("algorithms", "devices", "emulator", "fedlapse", "network", "scenarios")
PRIVATE = re.compile(r"_(?!_)\w+")
MODULE = re.compile(r"[a-z]\w*(\.\w+)*\._\w+(\.\w+)*")  # a dotted name with a private part
DOCUMENTED = {"_asdict", "_exit", "_replace"}  # of namedtuples and of os
BY_NAME = {"getattr", "hasattr", "setattr", "delattr"}

# By file: the private name of another library, and why there is no public one.
ALLOWED: dict[str, dict[str, str]] = {
    "algorithms/counting/cost.py": {
        "torch.utils._python_dispatch": "TorchDispatchMode, which torch's own public FlopCounterMode derives from",
        "torch.utils._pytree": "finds the tensors among an operator's arguments, as torch does itself",
        "_schema": "only an operator's schema says whether its result is a view of an argument",
    },
    "algorithms/counting/flops.py": {
        "_euclidean_dist": "the operator that torch.cdist calls; its FLOPs are counted by its name",
    },
    "algorithms/training/stack_layers.py": {
        "_forward_hooks": "nothing public says whether a layer has hooks, which a stack would call with other shapes",
        "_forward_pre_hooks": "as _forward_hooks",
    },
    "algorithms/training/copied.py": {
        "torch._dynamo": "torch loads its compiler, for a second and 40 MB, to switch it off",
    },
    "devices/data/tv.py": {
        "torchvision._meta_registrations": "its import fails beside a torch that is built for the CPU alone",
    },
    "emulator/pricing/memory.py": {
        "_cdata": "which memory a tensor shares; on the meta device all addresses are 0",
    },
    "emulator/compute/rays.py": {
        "ray._private": "nothing public starts Ray apart from the signals that reach the command and its group",
        "_node_ip_address": "keeps a Ray of this computer alone on loopback",
    },
    "network/windows/compiled.py": {
        "_nrt": "without it numba counts references in each step: five sixths of its time",
    },
}


def defined(tree: ast.Module) -> set[str]:
    """The private names that a file gives to functions, classes, variables and attributes of its own objects."""
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(ast.Name("self" | "cls"), name, ast.Store()):
                found.add(name)
    return {name for name in found if PRIVATE.fullmatch(name)}


def imported(tree: ast.Module) -> set[str]:
    """The files of ours, as paths, that a file imports from."""
    froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    modules = {part for node in froms for part in (node.module, *(f"{node.module}.{one.name}" for one in node.names))}
    return {f"{module.replace('.', '/')}.py" for module in modules if module and module.split(".")[0] in ROOMS}


def named(tree: ast.Module) -> Iterator[str]:
    """Each private name that is read, written, imported, or handed over by name."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) | ast.keyword(arg=str(name)) if PRIVATE.fullmatch(name):
                yield name
            case ast.Call(ast.Name(how), [_, ast.Constant(str(name)), *_]):
                if how in BY_NAME and PRIVATE.fullmatch(name):
                    yield name
            case ast.ImportFrom(module=str(module), names=names):
                whole = [module, *(f"{module}.{one.name}" for one in names)]
                yield from [name for name in whole if MODULE.fullmatch(name)][:1]
            case ast.Import(names=names):
                yield from (one.name for one in names if MODULE.fullmatch(one.name))
            case ast.Constant(str(name)) if MODULE.fullmatch(name):
                yield name
            case ast.Dict(keys=keys):  # options, some of them private
                texts = [key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
                private = [text for text in texts if PRIVATE.fullmatch(text)]
                yield from private if len(private) < len(texts) else ()


def foreign(path: str, trees: dict[str, ast.Module], own: dict[str, set[str]]) -> set[str]:
    """The private names that a file uses, and that neither it nor a file of ours that it imports from defines."""
    ours = own[path].union(*(own.get(each, set()) for each in imported(trees[path])))
    return {name for name in named(trees[path]) if name not in ours | DOCUMENTED and name.split(".")[0] not in ROOMS}


def found_in(texts: dict[str, str]) -> dict[str, set[str]]:
    """The private names of other libraries, by file."""
    trees = {path: ast.parse(text) for path, text in texts.items()}
    own = {path: defined(tree) for path, tree in trees.items()}
    return {path: names for path in trees if (names := foreign(path, trees, own))}


@pytest.mark.slow
def test_each_private_name_of_another_library_has_its_reason_and_no_reason_is_left_over() -> None:
    files = [file for room in ROOMS for file in sorted((ROOT / room).rglob("*.py"))]
    found = found_in({file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8") for file in files})
    assert found == {path: set(reasons) for path, reasons in ALLOWED.items()}


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("pool._processes", "_processes"),
        ("pool._queue._writer.close()", "_writer"),
        ("process._config['tempdir'] = folder", "_config"),
        ("class Mine(Theirs):\n    def run(self): return self._resume()", "_resume"),
        ("from torch.nn.modules.batchnorm import _BatchNorm", "torch.nn.modules.batchnorm._BatchNorm"),
        ("from ray._private import worker", "ray._private"),
        ("import torch._dynamo", "torch._dynamo"),
        ("import_module('torch._dynamo')", "torch._dynamo"),
        ("getattr(pool, '_processes')", "_processes"),
        ("init(_node_ip_address='127.0.0.1')", "_node_ip_address"),
        ("options = {'cpus': 1, '_node_ip_address': '127.0.0.1'}", "_node_ip_address"),
    ],
)
def test_a_private_name_of_another_library_is_found(line: str, name: str) -> None:
    assert name in found_in({"emulator/one.py": line})["emulator/one.py"]


@pytest.mark.parametrize(
    "line",
    [
        "class Mine:\n    def __init__(self): self._state = 1\n    def same(self, other): return other._state == 1",
        "def _one(): ...\nmap(_one, [])",
        "from emulator.other import Other\nOther()._shared",
        "row._replace(a=1)._asdict()",
        "__name__, path.__class__, one_.two",
        "{'_ms': 'ms', '_s': 's'}",
    ],
)
def test_names_of_our_own_and_documented_ones_are_not(line: str) -> None:
    assert found_in({"emulator/one.py": line, "emulator/other.py": "class Other:\n    _shared = 1"}) == {}
