"""The names of the built-in algorithms, models and data sets, and the options of the algorithms, read from the JSON
schema that comes with fedlapse.

So a misspelt name is found without importing the algorithms and torch.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any, Literal, Union

from pydantic import create_model

from scenarios.schema.entries import Encoding
from scenarios.schema.keys import Part
from scenarios.schema.training import Rounds, Training

GROUP = "fedlapse.algorithms"  # group of the entry points of installed algorithms
TYPES = {"boolean": bool, "integer": int, "number": float, "string": str}


def models() -> list[str]:
    """Returns the names of the built-in models."""
    return _names(_schema()["properties"]["model"])


def sets() -> list[str]:
    """Returns the names of the built-in data sets."""
    return _names(_schema()["definitions"]["Data"]["properties"]["set"])


def algorithms() -> list[str]:
    """Returns the names of the built-in algorithms."""
    return _names(_schema()["definitions"]["Entry"])


@cache
def options(algorithm: str) -> type[Part]:
    """Returns a schema with the names and types of a built-in algorithm's options; the algorithm itself checks their
    ranges."""
    properties = _schema()["definitions"][algorithm]["properties"]
    fields: dict[str, Any] = {name: (_type(said), None) for name, said in properties.items()}
    for part, whole in (("training", Training), ("rounds", Rounds)):
        keys: dict[str, Any] = {name: (key.annotation, key) for name, key in whole.model_fields.items()}
        fields[part] = (create_model(whole.__name__, __base__=Part, **keys) | None, None)
    fields["encoding"] = (Encoding | None, None)
    fields["selection"] = (Any, None)
    return create_model(algorithm, __base__=Part, **fields)


def _type(said: dict[str, Any]) -> Any:
    if "enum" in said or "const" in said:
        return Literal[tuple(said.get("enum", [said.get("const")]))]
    if "anyOf" in said:
        return Union[tuple(_type(form) for form in said["anyOf"])]  # noqa: UP007  of a list
    return TYPES.get(said.get("type", ""), Any)


def _names(key: dict[str, Any]) -> list[str]:
    names: list[str] = key["anyOf"][0]["enum"]
    return names


@cache
def _schema() -> dict[str, Any]:
    text = resources.files("scenarios").joinpath("scenario.schema.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found
