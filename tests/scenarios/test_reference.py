"""The keys of a scenario as Markdown tables."""

import json
import re
from importlib import resources
from pathlib import Path

import pytest

from scenarios.reference import markdown

SHORT = {
    "description": "A trial.",
    "required": ["lr_ms"],
    "properties": {
        "lr_ms": {"type": "number", "exclusiveMinimum": 0, "maximum": 1e9, "description": "How long."},
        "kind": {"enum": ["a", "b"], "default": "a", "description": "a | b."},
        "part": {"anyOf": [{"$ref": "#/definitions/Inner"}, {"type": "null"}], "description": "More."},
        "algorithms": {"type": "array", "items": {"$ref": "#/definitions/Entry"}, "description": "What runs."},
    },
    "definitions": {
        "Entry": {"description": "An item."},
        "Encoding": {"description": "Bytes.", "properties": {}},
        "Inner": {
            "description": "Inside.",
            "properties": {
                "on": {"type": "boolean", "default": False, "description": "Whether."},
                "share": {"type": "number", "minimum": 0, "exclusiveMaximum": 1, "default": 0.5, "description": "S."},
                "at": {
                    "type": "array",
                    "items": {"type": "integer", "minimum": 1},
                    "default": [1],
                    "description": "At.",
                },
            },
        },
        "mine": {
            "description": "An algorithm.",
            "properties": {"pull": {"type": "number", "default": 2.0, "description": "P."}, "training": {}},
        },
    },
}
SCHEMA = json.loads(resources.files("scenarios").joinpath("scenario.schema.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "row",
    [
        "| `lr_ms` | number > 0, in ms | *required* | How long. |",
        r"| `kind` | `a`, `b` | `a` | a \| b. |",
        "| `part` | [part](#part) | – | More. |",
        "| `algorithms` | list: [algorithms](#algorithms) | – | What runs. |",
        "| `on` | `true`, `false` | `false` | Whether. |",
        "| `share` | number ≥ 0 and < 1 | `0.5` | S. |",
        "| `at` | list: whole number ≥ 1 | `[1]` | At. |",
        "| `pull` | number | `2` | P. |",
    ],
)
def test_a_key_is_a_row(row):
    assert row in markdown(SHORT).splitlines()


def test_a_part_is_a_section_named_by_its_path():
    titles = re.findall(r"^## (.+)$", markdown(SHORT), re.MULTILINE)
    assert titles == ["Scenario", "part", "algorithms", "algorithms.mine"]


def test_every_key_of_the_schema_stands_in_the_page():
    rows = re.findall(r"^\| `(\w+)` \|", markdown(SCHEMA), re.MULTILINE)
    keys = [key for part in (SCHEMA, *SCHEMA["definitions"].values()) for key in part.get("properties", {})]
    assert set(keys) == set(rows) | {"encoding"}  # which is told once, for all algorithms


def test_links_lead_to_sections():
    page = markdown(SCHEMA)
    anchors = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in re.findall("^## (.+)$", page, re.M)}
    assert set(re.findall(r"\(#([^)]+)\)", page)) <= anchors
    assert len(anchors) == len(re.findall("^## ", page, re.M))


def test_the_committed_page_is_fresh():
    page = Path(__file__).parents[2] / "docs" / "keys.md"
    hint = "write it anew: python -m emulator schema --markdown > docs/keys.md"
    assert page.read_text(encoding="utf-8") == markdown(SCHEMA) + "\n", hint
