"""The keys of a scenario as Markdown: a table for each part, made from the JSON schema."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

INTRODUCTION = """\
# Keys of a scenario

Made by `fedlapse schema --markdown`, from the schema that checks every scenario. [Scenario files](scenarios.md)
explains how the parts work together.

Headings are paths: to change the key `alpha` of `data.split` for one run, write `data.split.alpha=0.5` after the
scenario. A path goes through an item of a list by its number or name, as in `fleet.phones.count`. A default of – means
that nothing is set, or what the key's own table says. Limits of a million and more are left out.
"""

OPTIONS = """\
An item is a name, `fedavg`; a name with options, `{fedcl: {interval: 10}}`, to which `name: LABEL` adds the name that
results show; or your own `package.module:Class`. Each algorithm below also takes `training:`, values in which its
training differs from the scenario's [training](#training), `rounds:`, likewise for the keys of [rounds](#rounds) from
`mode` to `max_staleness` except `max`, `per_cycle` and `cycle_s`, and `encoding:`, how its tensors travel:"""

# Endings of keys, in the order in which they are tried.
UNITS = {
    "_gflop_s": "GFLOP/s",
    "_mbit_s": "Mbit/s",
    "_gb_s": "GB/s",
    "_ms": "ms",
    "_mb": "MB",
    "_kb": "kB",
    "_w": "W",
    "_s": "s",
}
SMALL, LARGE = 1e-3, 1e6  # limits beyond these only exclude nonsense

Schema = dict[str, Any]


def markdown(schema: Schema) -> str:
    """Returns the page: one section for each part of a scenario, in the order of the file, then one for each
    algorithm."""
    definitions = schema["definitions"]
    paths = {"Entry": "algorithms"}
    parts = [("Scenario", schema), *_parts(schema["properties"], "", definitions, paths)]
    sections = [INTRODUCTION, *(_section(paths.get(name, name), part, paths) for name, part in parts)]
    entry = {**definitions["Encoding"], "description": OPTIONS}
    algorithms = [_algorithm(name, kind, paths) for name, kind in definitions.items() if name[0].islower()]
    return "\n".join([*sections, _section("algorithms", entry, paths), *algorithms]).rstrip()


def _algorithm(name: str, kind: Schema, paths: dict[str, str]) -> str:
    of_any = ("training", "rounds", "encoding", "selection")
    own = {key: spec for key, spec in kind["properties"].items() if key not in of_any}
    return _section(f"algorithms.{name}", {**kind, "properties": own}, paths)


def _parts(keys: Schema, path: str, definitions: Schema, paths: dict[str, str]) -> Iterator[tuple[str, Schema]]:
    """Yields (path, schema) of every part of a scenario below these keys, each part once.  Fills `paths` with the path
    at which each part occurs first."""
    for key, spec in keys.items():
        for name in _references(spec):
            if name in paths:
                continue
            paths[name] = "A distribution" if name == "Draw" else f"{path}{key}"  # many keys may be drawn
            yield name, definitions[name]
            yield from _parts(definitions[name]["properties"], f"{paths[name]}.", definitions, paths)


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"].rpartition("/")[2]
        node = list(node.values())
    for inner in node if isinstance(node, list) else ():
        yield from _references(inner)


def _section(path: str, part: Schema, paths: dict[str, str]) -> str:
    required = part.get("required", [])
    rows = (_row(key, spec, key in required, paths) for key, spec in part["properties"].items())
    table = ["| key | value | default | meaning |", "|---|---|---|---|", *rows]
    if not part["properties"]:
        table = ["It has no options of its own."]
    return "\n".join([f"## {path}", "", _sentence(part["description"]), "", *table, ""])


def _row(key: str, spec: Schema, required: bool, paths: dict[str, str]) -> str:
    value = _value(spec, paths)
    unit = next((unit for ending, unit in UNITS.items() if key.endswith(ending)), "")
    default = "*required*" if required else _default(spec)
    return f"| `{key}` | {f'{value}, in {unit}' if unit else value} | {default} | {_sentence(spec['description'])} |"


def _default(spec: Schema) -> str:
    value = spec.get("default")
    if isinstance(value, dict) or value is None or value == []:
        return "–"
    if isinstance(value, list) and isinstance(value[0], dict):
        value = [entry["name"] for entry in value]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def _value(spec: Schema, paths: dict[str, str]) -> str:
    """Returns a description of the values that a key may have, in Markdown."""
    for several in ("anyOf", "oneOf", "allOf"):
        if several in spec:
            forms = (_value(form, paths) for form in spec[several] if form != {"type": "null"})
            return " or ".join(dict.fromkeys(forms))
    if "$ref" in spec:
        path = paths[spec["$ref"].rpartition("/")[2]]
        return f"[{path.lower()}](#{_slug(path)})"
    if "enum" in spec:
        return ", ".join(f"`{value}`" for value in spec["enum"])
    if "const" in spec:
        return f"`{spec['const']}`"
    return _plain(spec, paths)


def _plain(spec: Schema, paths: dict[str, str]) -> str:
    kind = spec.get("type")
    if kind == "array":
        items = spec["items"]
        if isinstance(items, list):
            return f"[{', '.join(_value(item, paths) for item in items)}]"
        return f"list: {_value(items, paths)}"
    if kind == "object":
        inner = next(iter(spec.get("patternProperties", {}).values()), spec.get("additionalProperties"))
        return f"by name: {_value(inner, paths)}" if isinstance(inner, dict) else "any keys"
    if kind == "string":
        return "`package.module:name`" if spec.get("pattern") == ":" else "text"
    if kind == "boolean":
        return "`true`, `false`"
    name = {"integer": "whole number", "number": "number"}.get(str(kind), "any value")
    return " ".join([name, *_limits(spec)])


def _limits(spec: Schema) -> Iterator[str]:
    least, most = spec.get("minimum"), spec.get("maximum")
    if "exclusiveMinimum" in spec or (least is not None and 0 < least < SMALL):
        yield f"> {spec.get('exclusiveMinimum', 0):g}"
    elif least is not None:
        yield f"≥ {least:g}"
    for sign, limit in (("≤", most), ("<", spec.get("exclusiveMaximum"))):
        if limit is not None and limit < LARGE:
            yield f"and {sign} {limit:g}"


def _sentence(text: str) -> str:
    return text.replace("|", "\\|")


def _slug(path: str) -> str:
    """Returns the anchor that GitHub and MyST give to the heading of a part."""
    return re.sub(r"[^\w -]", "", path.lower()).replace(" ", "-")
