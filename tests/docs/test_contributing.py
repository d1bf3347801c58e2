"""CONTRIBUTING.md: every package is on the map, in the order that import-linter holds, and its nouns are few."""

import re
import tomllib
from itertools import pairwise
from pathlib import Path

from tests.all_of import all_of

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
MAP, GLOSSARY = (
    re.search(rf"^## {title}\n(.*?)(?=^## )", TEXT, re.MULTILINE | re.DOTALL)[1] for title in ("The map", "Glossary")
)


def rows(section):
    return re.findall(r"^\| `?([\w/ ]+?)`?(?: \(its files\))? \|", section, re.MULTILINE)


def packages(folder):
    return {f"{folder}/{path.parent.name}/" for path in (ROOT / folder).glob("*/__init__.py")}


def test_every_package_is_on_the_map_once():
    mapped = [row for row in rows(MAP) if row.endswith("/")]
    inner = set().union(*map(packages, ("algorithms", "emulator", "network", "scenarios")))
    assert sorted(mapped) == sorted(inner | {"scenarios/", "algorithms/", "devices/", "fedlapse/"})


def test_the_map_has_the_order_of_the_import_contracts():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    mapped = rows(MAP)
    ordered = [contract for contract in contracts if contract["type"] == "layers" and "containers" in contract]
    for contract in ordered:
        (folder,) = contract["containers"]
        layers = [[f"{folder}/{name.strip()}/" for name in re.split("[|:]", layer)] for layer in contract["layers"]]
        places = [[mapped.index(name) for name in layer if name in mapped] for layer in layers]
        known = [layer for layer in places if layer]
        assert all_of(max(above) < min(below) for above, below in pairwise(known)), folder
    assert len(ordered) == 4


def test_the_glossary_has_at_most_30_nouns_each_once():
    nouns = rows(GLOSSARY)[1:]
    assert 20 <= len(nouns) <= 30
    assert len(set(nouns)) == len(nouns)


def test_every_path_that_it_names_exists():
    named = set(re.findall(r"`((?:algorithms|devices|network|scenarios|emulator|tests|docs)/[\w/.-]+)`", TEXT))
    missing = {name for name in named if not (ROOT / name).exists() and "mine" not in name}
    assert len(named) > 30
    assert missing == set()
