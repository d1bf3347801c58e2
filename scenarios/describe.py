"""The JSON schema of a scenario file, which editors use to complete and check keys and values.  Draft 7."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from pydantic import BaseModel, TypeAdapter

from algorithms.models import MODELS
from algorithms.tasks.task import TASKS
from devices.device import profiles
from network.links.synth import presets
from network.traces.read import FORMATS
from scenarios.builders import plugins
from scenarios.builders.sets import SETS
from scenarios.schema.entries import Encoding
from scenarios.schema.scenario import Scenario, Selection
from scenarios.schema.training import OWN_ROUNDS, Rounds, Training

URL = "http://json-schema.org/draft-07/schema#"
OWN = {"type": "string", "pattern": ":"}  # package.module:name
TEXT = {"type": "string"}
WIDTH = 120  # characters per line of the file; shorter values are on one line


def text(own: bool = True) -> str:
    """Returns the JSON schema of scenarios as the text of a file.  With `own`, it includes installed plug-ins."""
    return _wrapped(json_schema(own), 0)


def _wrapped(node: Any, indent: int, before: int = 0) -> str:
    line = json.dumps(node)
    if not isinstance(node, (dict, list)) or indent + before + len(line) < WIDTH:
        return line
    keys = [f"{json.dumps(key)}: " for key in node] if isinstance(node, dict) else [""] * len(node)
    values = node.values() if isinstance(node, dict) else node
    inner = [key + _wrapped(value, indent + 1, len(key)) for key, value in zip(keys, values, strict=True)]
    lines = f",\n{' ' * (indent + 1)}".join(inner)
    return f"{line[0]}\n{' ' * (indent + 1)}{lines}\n{' ' * indent}{line[-1]}"


def json_schema(own: bool = True) -> dict[str, Any]:
    """Returns the JSON schema of scenarios, with the options of every algorithm that has a name; with `own`, also of
    plug-ins of installed packages."""
    schema = _draft7(Scenario.model_json_schema())
    definitions = schema.pop("definitions")
    known = {name: kind for name, kind in plugins.kinds().items() if own or kind.__module__.startswith("algorithms.")}
    definitions["Entry"] = _entry(known)
    definitions["Label"] = {**TEXT, "description": "Name of the algorithm in results.", "examples": ["mine"]}
    definitions["Encoding"] = _definition(Encoding)
    definitions["OwnTraining"] = _own(Training, Training.model_fields)
    definitions["OwnRounds"] = _own(Rounds, OWN_ROUNDS)
    definitions |= {name: _options(kind) for name, kind in known.items()}
    _offer_names(schema["properties"], definitions)
    schema["properties"] = {"name": schema["properties"].pop("name"), **schema["properties"]}
    return {"$schema": URL, **schema, "definitions": dict(sorted(definitions.items()))}


def _offer_names(top: dict[str, Any], definitions: dict[str, Any]) -> None:
    """Adds the built-in names to keys that take a name, so that editors can complete them."""
    _offer(top["model"], MODELS, OWN, _reference("Model"))
    _offer(definitions["Model"]["properties"]["name"], MODELS, OWN)
    _offer(top["task"], TASKS, OWN, _reference("Task"))
    _offer(definitions["Task"]["properties"]["name"], TASKS, OWN)
    _offer(definitions["Data"]["properties"]["set"], SETS, OWN)
    for part in ("Group", "Server"):
        _offer(definitions[part]["properties"]["profile"], profiles(), TEXT)  # or one of the scenario's own
    for part in ("Link", "Links", "Shared"):
        _offer(definitions[part]["properties"]["radio"], presets())
    for part in ("Recorded", "Traces"):
        _offer(definitions[part]["properties"]["format"], FORMATS)


def _offer(key: dict[str, Any], names: Collection[str], *others: dict[str, Any]) -> None:
    none = [form for form in key.pop("anyOf", []) if form == {"type": "null"}]
    key.pop("type", None)
    key.pop("allOf", None)
    key["anyOf"] = [{"enum": sorted(names)}, *others, *none]


def _entry(known: Collection[str]) -> dict[str, Any]:
    """Returns the schema of an item of `algorithms:`, in each of its short forms."""
    label = _reference("Label")
    path = {**OWN, "description": "Your own algorithm, as package.module:Class.", "examples": ["my_package.mine:Mine"]}
    options = {"type": "object", "description": "Options of your own algorithm.", "examples": [{"strength": 0.5}]}
    forms: list[dict[str, Any]] = [
        {"enum": list(known), "description": "An algorithm with its default options."},
        path,
        _object({"algorithm": path, "options": options, "name": label}, required=["algorithm"]),
        *(_object({name: _reference(name), "name": label}, required=[name]) for name in known),
        {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 2,
            "propertyNames": {"pattern": "^name$|:"},
            "properties": {"name": label},
        },
    ]
    return {"description": "An algorithm to run, with or without options.", "anyOf": forms, "examples": ["fedavg"]}


def _options(kind: type[Any]) -> dict[str, Any]:
    """Returns the schema of an algorithm's options, as in `{strength: 0.5}`."""
    options = _draft7(plugins.options(kind))
    properties = {
        key: _with_example(key, value)
        for key, value in options["properties"].items()
        if key not in ("training", "rounds")
    }
    properties["training"] = {
        "allOf": [_reference("OwnTraining")],
        "description": "Values in which this algorithm's training differs from the scenario's `training:`.",
        "examples": [{"lr": 0.1}],
    }
    properties["rounds"] = {
        "allOf": [_reference("OwnRounds")],
        "description": "Rules in which this algorithm's rounds differ from the scenario's `rounds:`.",
        "examples": [{"mode": "async", "buffer": 10, "in_flight": 80}],
    }
    properties["encoding"] = {
        "allOf": [_reference("Encoding")],
        "description": "Encodings of this algorithm's tensors on the network.",
        "examples": [{"up": {"weights": "int8"}}],
    }
    properties["selection"] = {
        **_draft7(TypeAdapter(Selection).json_schema()),
        "description": "Choice of devices of this algorithm, if it differs from the scenario's `selection:`.",
        "examples": ["oort"],
    }
    first = (kind.__doc__ or "").strip().split("\n\n")[0]
    described = {"description": " ".join(first.split()), "examples": [{}]}
    return {**_object(properties), "type": ["object", "null"], **described}


def _object(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", **more, "additionalProperties": False, "properties": properties}


def _reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/definitions/{name}"}


def _own(part: type[BaseModel], keys: Collection[str]) -> dict[str, Any]:
    """Returns the schema of those values of a part that an algorithm may override."""
    whole = _definition(part)
    kept = {key: spec for key, spec in whole["properties"].items() if key in keys}
    return {**whole, "properties": {key: {k: v for k, v in kept[key].items() if k != "default"} for key in kept}}


def _definition(part: type[BaseModel]) -> dict[str, Any]:
    found: dict[str, Any] = _draft7(part.model_json_schema())
    return found


def _with_example(name: str, option: dict[str, Any]) -> dict[str, Any]:
    """Returns an option's schema: its description is the docstring under its field, its default serves as an
    example."""
    told = {"description": f"Option `{name}` of this algorithm; its class describes it.", **option}
    return {**told, "examples": told.get("examples", [option["default"]] if "default" in option else [])}


def _draft7(node: Any) -> Any:
    """Converts pydantic's draft 2020-12 to draft 7, which more editors support.

    Drops titles, which repeat the keys, and null as a default.  `$defs` becomes `definitions`, and a tuple's
    `prefixItems` become `items`.  Draft 7 ignores keys next to a `$ref`, so such a reference is wrapped in `allOf`.
    """
    if isinstance(node, list):
        return [_draft7(item) for item in node]
    if not isinstance(node, dict):
        return node
    done = {("definitions" if key == "$defs" else key): _draft7(value) for key, value in node.items()}
    if isinstance(done.get("title"), str):
        del done["title"]
    if done.get("default", 0) is None:
        del done["default"]
    if isinstance(done.get("description"), str):
        done["description"] = " ".join(done["description"].split())
    if "prefixItems" in done:
        done |= {"items": done.pop("prefixItems"), "additionalItems": False}
    if isinstance(done.get("$ref"), str):
        reference = {"$ref": done.pop("$ref").replace("#/$defs/", "#/definitions/")}
        return {"allOf": [reference], **done} if done else reference
    return done
