"""Schema of algorithms: their names, their options, and the encodings of their tensors."""

from __future__ import annotations

from typing import Any

from pydantic import model_validator

from scenarios.schema.keys import Name, Part, says


def entry_of(entry: Any) -> Any:
    """Returns an entry of `algorithms:` in its full form, {key, options, name}, from any of its short forms. Values
    that are no entry stay as they are."""
    if isinstance(entry, str):
        return {"key": entry, "options": {}, "name": name_of(entry)}
    if not isinstance(entry, dict) or set(entry) == {"key", "options", "name"}:
        return entry
    if "algorithm" in entry:  # {algorithm: my_package.mine:Mine, options: {...}, name: mine}
        said = entry["algorithm"]
        rest = {key: value for key, value in entry.items() if key != "algorithm"}
        return {"key": said, "options": {}, "name": name_of(said), **rest}
    return _of_one_key(entry)


def _of_one_key(entry: dict[Any, Any]) -> dict[str, Any]:
    """Returns the expanded entry of `{fedcl: {strength: 0.5}, name: mine}`: the key is the algorithm, its value the
    options."""
    example = "{fedcl: {strength: 0.5}, name: mine}"
    keys = [key for key in entry if key != "name"]
    if len(keys) != 1:
        raise ValueError(f"an entry names one algorithm, for example {example}, not {keys}")
    (key,) = keys
    options = {} if entry[key] is None else entry[key]
    if not isinstance(options, dict):
        hint = "its options are a mapping, for example {fedcl: {strength: 0.5}}"
        raise ValueError(f"{key} has {options!r}; {hint}")
    return {"key": key, "options": options, "name": entry.get("name", name_of(key))}


def name_of(key: Any) -> Any:
    """Returns the default name of an algorithm in results: `fedcl`, or `mine` for `my_package.mine:Mine`."""
    return key.rpartition(":")[2].rpartition(".")[2].lower() if isinstance(key, str) else key


class Entry(Part):
    """An algorithm to run, as `fedavg` or `{fedcl: {strength: 0.5}, name: mine}`."""

    key: str = says(
        "Name that `fedlapse algorithms` lists, or your own class as package.module:Class.",
        "fedcl",
        "my_package.mine:Mine",
    )
    options: dict[str, Any] = says("Options of the algorithm.", {"strength": 0.5}, default={})
    name: Name = says("Name of the algorithm in results. By default the algorithm's own name.", "fedcl-n10")

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, said: Any) -> Any:
        return entry_of(said)


class Encoding(Part):
    """Encodings of an algorithm's tensors on the network, by kind of tensor: float16, bfloat16, int8, int8-sqrt,
    sparse, or top-0.01 for the largest hundredth. The receiver works with the decoded values. Kinds that are left out
    travel as the algorithm itself says, which is float32 for most.
    """

    up: dict[str, str] = says(
        "Encodings of uploads, by kind of tensor.", {"weights": "int8", "fisher": "bfloat16"}, default={}
    )
    down: dict[str, str] = says("Encodings of downloads, by kind of tensor.", {"weights": "float16"}, default={})
