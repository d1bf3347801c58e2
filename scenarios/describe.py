"""The JSON schema of a scenario file: what editors complete and check while one types.  Draft 7."""

from __future__ import annotations

from typing import Any

from scenarios.build import plugins
from scenarios.schema.scenario import Encoding, Scenario, Training

URL = "http://json-schema.org/draft-07/schema#"


def json_schema(own: bool = True) -> dict[str, Any]:
    """The schema, with the options of each algorithm that has a name; `own`: of installed ones too."""
    schema = _draft7(Scenario.model_json_schema())
    definitions = schema.pop("definitions")
    definitions["Entry"] = _entry(own)
    schema["properties"] = {"name": schema["properties"].pop("name"), **schema["properties"]}
    return {"$schema": URL, **schema, "definitions": dict(sorted(definitions.items()))}


def _entry(own: bool) -> dict[str, Any]:
    """An item of `algorithms:`, in each of its short forms."""
    known = {name: kind for name, kind in plugins.kinds().items() if own or kind.__module__.startswith("algorithms.")}
    title = {"description": "What results call it.", "examples": ["mine"], "type": "string"}
    path = {"type": "string", "pattern": ":", "description": "Your own, as package.module:Class."}
    forms: list[dict[str, Any]] = [
        {"enum": list(known), "description": "An algorithm with its default options."},
        {**path, "examples": ["my_package.mine:Mine"]},
        {
            "type": "object",
            "required": ["algorithm"],
            "additionalProperties": False,
            "properties": {
                "algorithm": {
                    "type": "string",
                    "description": "Its name or path.",
                    "examples": ["my_package.mine:Mine"],
                },
                "options": {"type": "object", "description": "Its options.", "examples": [{"strength": 0.5}]},
                "name": title,
            },
        },
    ]
    forms += [_with_options(name, kind, title) for name, kind in known.items()]
    forms.append(
        {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 2,
            "propertyNames": {"pattern": "^name$|:"},
            "properties": {"name": title},
        }
    )
    return {"title": "Entry", "description": "An algorithm to run.", "anyOf": forms, "examples": ["fedavg"]}


def _with_options(name: str, kind: type[Any], title: dict[str, Any]) -> dict[str, Any]:
    """`{fedcl: {strength: 0.5}, name: mine}`"""
    options = _draft7(plugins.options(kind))
    options.pop("definitions", None)
    says = (kind.__doc__ or "").strip().split("\n\n")[0]
    properties = {key: _with_example(key, value) for key, value in options["properties"].items() if key != "training"}
    training = {field: {**spec} for field, spec in _draft7(Training.model_json_schema())["properties"].items()}
    properties["training"] = {
        "type": "object",
        "description": "Values that differ from the scenario's `training:`.",
        "examples": [{"lr": 0.1}],
        "additionalProperties": False,
        "properties": {field: {k: v for k, v in spec.items() if k != "default"} for field, spec in training.items()},
    }
    properties["encoding"] = {**_draft7(Encoding.model_json_schema()), "examples": [{"up": {"weights": "int8"}}]}
    inner = {
        "type": ["object", "null"],
        "description": " ".join(says.split()),
        "additionalProperties": False,
        "properties": properties,
        "examples": [{}],
    }
    return {
        "type": "object",
        "required": [name],
        "additionalProperties": False,
        "properties": {name: inner, "name": title},
    }


def _with_example(name: str, option: dict[str, Any]) -> dict[str, Any]:
    """Its description is the docstring under the field; its default is an example of it."""
    told = {"description": f"Option `{name}`; its class says what it does.", **option}
    return {**told, "examples": told.get("examples", [option["default"]] if "default" in option else [])}


def _draft7(node: Any) -> Any:
    """pydantic writes draft 2020-12; editors read draft 7 best.

    `$defs` is `definitions`, a tuple's `prefixItems` are `items`, and beside a `$ref` nothing counts, so it is
    wrapped.
    """
    if isinstance(node, list):
        return [_draft7(item) for item in node]
    if not isinstance(node, dict):
        return node
    done = {("definitions" if key == "$defs" else key): _draft7(value) for key, value in node.items()}
    if "prefixItems" in done:
        done |= {"items": done.pop("prefixItems"), "additionalItems": False}
    if isinstance(done.get("$ref"), str):
        reference = {"$ref": done.pop("$ref").replace("#/$defs/", "#/definitions/")}
        return {"allOf": [reference], **done} if done else reference
    return done
